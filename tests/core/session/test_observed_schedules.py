"""The schedule of a run of which only the order of what came is known."""

from __future__ import annotations

from agenttape_core.scheduling.script import Script
from agenttape_core.schema import of_ends


def test_streams_stand_for_each_chunk() -> None:
    """A call that stands there several times comes several times."""
    group = of_ends(["a", "b", "a", "a"])
    assert (group.calls, group.order, group.knows_only_ends) == (["a", "b"], "0 1 0*2", True)


def test_what_is_left_of_a_call_is_left_out() -> None:
    """A stream that is served whole needs no turns for its chunks, and the others keep theirs."""
    script = Script(of_ends(["a", "b", "a", "b"]))
    assert script.next is not None
    assert script.comes_again()
    script.pass_next()
    script.leave_out("a")
    script.leave_out("c")
    came = []
    while script.next is not None:
        came.append(script.calls[script.next.which])
        script.pass_next()
    assert came == ["b", "b"]
    assert script.next is None

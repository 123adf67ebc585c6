"""The lines of the page's tree: each record on one, places that hold one thing only on the line of that."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from agenttape_core.tools.reading.timeline import CallTree
from agenttape_core.tools.viewer import Line, lines_of


class Row(NamedTuple):
    """A record of which only its place matters."""

    address: str
    kind: str = "call"


def lines_at(*addresses: str) -> list[Line]:
    """Return the lines of records at these addresses."""
    return lines_of(CallTree([Row(address) for address in addresses]))


def test_places_without_a_record() -> None:
    """A record lies below the nearest place around it; places that hold one thing only share its line."""
    assert lines_at(
        "Agent", "Agent/model@1/Chat", "Agent/tools@2/a/one", "Agent/tools@2/b/two", "Agent", "Other/x"
    ) == [
        Line(0, "Agent", "", 0),
        Line(1, "Chat", "model@1", 1),
        Line(None, "tools@2", "", 1),
        Line(2, "one", "a", 2),
        Line(3, "two", "b", 2),
        Line(4, "", "", 1),
        Line(5, "x", "Other", 0),
    ]


@given(st.lists(st.builds(Row, st.text("ab/", max_size=12), st.sampled_from(["call", "event"])), max_size=12))
def test_everything_is_there_once(rows: list[Row]) -> None:
    """Each record is on one line, no line is more than one deeper than the one before, whatever the addresses are."""
    lines = lines_of(CallTree(rows))
    assert sorted(line.record for line in lines if line.record is not None) == list(range(len(rows)))
    assert all(
        after.depth <= before.depth + 1 for before, after in zip([Line(None, "", "", -1), *lines], lines, strict=False)
    )


def test_a_step_that_comes_after_its_calls_takes_its_place() -> None:
    """A place that had no record when something below it was recorded gets the one that comes later."""
    assert lines_at("Agent/x", "Agent") == [Line(1, "Agent", "", 0), Line(0, "x", "", 1)]


def test_a_moment_makes_room_for_what_it_describes() -> None:
    """An event that was recorded before the step at its address lies below that step."""
    lines = lines_of(CallTree([Row("Agent", "event"), Row("Agent", "agent")]))
    assert lines == [Line(1, "Agent", "", 0), Line(0, "", "", 1)]


def test_deep_addresses_are_no_recursion() -> None:
    """An address of many thousand places makes one line."""
    (line,) = lines_at("/".join(["a"] * 5_000))
    assert (line.depth, line.label) == (0, "a")

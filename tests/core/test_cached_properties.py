"""Properties of ours that are computed once hold no lock meanwhile."""

from __future__ import annotations

import os
import threading

import pytest

from agenttape_core.locks import cached_property


class Lazy:
    """An object whose property waits while it's computed."""

    def __init__(self, is_free: bool = True) -> None:
        self.begun, self.free, self.computed = threading.Event(), threading.Event(), 0
        if is_free:
            self.free.set()

    @cached_property
    def value(self) -> object:
        """A new object."""
        self.begun.set()
        assert self.free.wait(60)
        self.computed += 1
        return object()


def test_it_is_computed_once() -> None:
    """The value stays with its object, and the class shows the property itself."""
    one, other = Lazy(), Lazy()
    assert one.value is one.value
    assert one.value is not other.value
    assert one.computed == other.computed == 1
    assert Lazy.value.__doc__ == "A new object."


def test_threads_get_one_value_and_do_not_wait_for_other_objects() -> None:
    """While threads compute it for one object, a third has that of another object; they get one value."""
    slow, quick = Lazy(is_free=False), Lazy()
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(slow.value)) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert slow.begun.wait(60)
    assert quick.value is quick.value
    slow.free.set()
    for thread in threads:
        thread.join()
    assert found == [slow.value, slow.value]


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_can_compute_it() -> None:
    """A child that is forked while another thread computes the property computes it of its own object."""
    slow = Lazy(is_free=False)
    thread = threading.Thread(target=lambda: slow.value)
    thread.start()
    assert slow.begun.wait(60)
    child = os.fork()
    if not child:
        os._exit(int(Lazy().value is None))
    assert os.waitpid(child, 0)[1] == 0
    slow.free.set()
    thread.join()

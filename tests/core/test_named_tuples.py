"""Named tuples that take a third of the time to make, and properties that are computed once without a lock."""

from __future__ import annotations

import os
import pickle
import re
import threading
import typing
from pathlib import Path

import pytest

import agenttape_core
from agenttape_core.locks import cached_property
from agenttape_core.named_tuples import NamedTuple


class Theirs(typing.NamedTuple):
    """A place."""

    line: int
    column: int | None = None

    @property
    def is_first(self) -> bool:
        """Return True at the start."""
        return self.line == 0


class Ours(NamedTuple):
    """A place."""

    line: int
    column: int | None = None

    @property
    def is_first(self) -> bool:
        """Return True at the start."""
        return self.line == 0


@pytest.mark.parametrize("name", ["__doc__", "__module__", "_fields", "_field_defaults", "__match_args__"])
def test_class(name: str) -> None:
    """A class has the docstring, the module, the fields and the defaults that `typing` gives it."""
    assert getattr(Ours, name) == getattr(Theirs, name)
    assert typing.get_type_hints(Ours) == typing.get_type_hints(Theirs)


def test_annotations_that_are_not_text() -> None:
    """A class has its fields in a module without the import from `__future__`, on each Python."""
    space: dict[str, typing.Any] = {"NamedTuple": NamedTuple, "__name__": __name__}
    source = "class Pair(NamedTuple):\n    left: int\n    right: int = 2"
    exec(compile(source, "pair.py", "exec", dont_inherit=True), space)
    assert space["Pair"](1)._asdict() == {"left": 1, "right": 2}
    assert typing.get_type_hints(space["Pair"]) == {"left": int, "right": int}


def test_instance() -> None:
    """An instance is a tuple with its class's methods, and can be replaced and pickled."""
    ours, theirs = Ours(0), Theirs(0)
    assert ours == theirs == (0, None)
    assert ours.is_first
    assert not ours._replace(line=1).is_first
    assert Ours._make([0, 1])._asdict() == {"line": 0, "column": 1}
    assert type(pickle.loads(pickle.dumps(ours))) is Ours
    assert repr(ours) == repr(theirs).replace("Theirs", "Ours")
    with pytest.raises(TypeError, match=r"Ours\.__new__\(\) missing 1 required"):
        Ours()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        ours._replace(row=1)  # type: ignore[call-arg]


def test_core() -> None:
    """Core makes all its named tuples here, but for a generic one."""
    sources = Path(agenttape_core.__file__).parent.rglob("*.py")
    theirs = re.compile(r"^from typing import .*\bNamedTuple\b", re.MULTILINE)
    assert [each.name for each in sources if theirs.search(each.read_text())] == ["journal_text.py"]


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
    """A child forked while another thread computes the property computes it for its own object."""
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

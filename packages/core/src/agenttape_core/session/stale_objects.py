"""Find objects that lack the writes which a replay answered from the cassette.

A replayed write doesn't change the object: its effect is in the recording only. Replayed reads of it are true all the
same. A real call would answer from the object's actual content, so no more real calls are made on it.

The note is kept in the state of the object, as a cached property is: there it lives exactly as long, and whatever
shares the state (an alias, a copy) shares the note. An object without a `__dict__` is kept in a table instead: by a
weak reference, or, if it doesn't support one, until all other references are gone.
"""

from __future__ import annotations

import sys
from typing import Any
from weakref import ref

from agenttape_core.named_tuples import NamedTuple

_NOTE = "__agenttape_replayed_write__"


class ReplayedWrite(NamedTuple):
    """A write that was replayed: plain texts, because it is copied and pickled with the object."""

    call: str  # the kind and the name of the boundary
    cassette: str
    """The cassette that answered it."""


class _Strong:
    """Holds an object that takes no weak reference; called, it returns it, as a weak reference does."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self) -> Any:
        return self.value

    def is_alone(self) -> bool:
        """Return True if there are no other references to the object."""
        return sys.getrefcount(self.value) <= _REFERENCES


_REFERENCES = sys.maxsize
_probe = _Strong(object())
_REFERENCES = sys.getrefcount(_probe.value)


class _Table:
    """Notes on objects by identity, so that they need neither hash nor equality. Thread-safe."""

    def __init__(self) -> None:
        self._notes: dict[int, tuple[Any, ReplayedWrite]] = {}
        self._strong: set[int] = set()

    def note(self, value: Any, written: ReplayedWrite) -> None:
        self._sweep()
        if self.find(value) is not None:
            return
        key = id(value)
        try:
            self._notes[key] = ref(value, lambda _: self._notes.pop(key, None)), written
        except TypeError:
            self._notes[key] = _Strong(value), written
            self._strong.add(key)

    def find(self, value: Any) -> ReplayedWrite | None:
        holder, written = self._notes.get(id(value), (None, None))
        return written if holder is not None and holder() is value else None

    def _sweep(self) -> None:
        for key in list(self._strong):
            holder, _ = self._notes.get(key, (None, None))
            if holder is None or holder.is_alone():
                self._notes.pop(key, None)
                self._strong.discard(key)


_others = _Table()


def note_replayed_write(state: Any, written: ReplayedWrite) -> None:
    """Note that a write was replayed; of several on one object the first counts.

    The object shares `state` with its aliases: its `__dict__`, or the object itself without one.
    """
    if type(state) is dict:
        state.setdefault(_NOTE, tuple(written))
    else:
        _others.note(state, written)


def replayed_write_on(state: Any) -> ReplayedWrite | None:
    """Return the first write on an object that was replayed, in any session of this process; `None` if none was."""
    if type(state) is dict:
        found = state.get(_NOTE)
        return ReplayedWrite(*found) if found is not None else None
    return _others.find(state)

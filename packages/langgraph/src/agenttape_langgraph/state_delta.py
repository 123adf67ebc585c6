"""The changes in the input of a node: its state repeats a whole conversation, and a recording needs each part once.

A state is recorded as the channels that changed since the superstep before. A list, for example of messages, is
recorded as its length, the number of leading items that did not change, and under `new` the other items, but for
messages that the recording already holds. `{"$changed": {"items": 14, "kept": 12}}` stands for a list with two new
messages, both written by nodes whose steps are recorded, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import chain
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage
from langgraph.types import Command, Send
from pydantic import BaseModel

from agenttape_core.integration import Lock

CHANGED = "$changed"
"""The tag of a list of which only a part is recorded."""

Plain = Any
_DEEP = 4
"""The depth to which values are searched for messages."""


class _Channel(NamedTuple):
    """The values of a channel in the inputs of nodes.

    Args:
        superstep: The last superstep in which a node got it.
        before: Its value in the superstep before that one.
        now: Its value in that superstep.
    """

    superstep: int
    before: Any
    now: Any


_ABSENT: Any = object()


class StateDeltas:
    """The changes in the states of the graphs of one session, against what is recorded already. Thread-safe.

    Args:
        plain: Makes plain data of a value.
    """

    def __init__(self, plain: Callable[[Any], Plain]) -> None:
        self._plain = plain
        self._channels: dict[tuple[str, ...], _Channel] = {}
        self._messages: dict[int, BaseMessage] = {}  # by identity; the message itself is kept, so no other gets its id
        self._messages_by_id: dict[str, BaseMessage] = {}
        self._lock = Lock()

    def note(self, value: Any) -> None:
        """Remember that a value is recorded in full."""
        with self._lock:
            for message in _messages(value, _DEEP):
                self._remember(message)

    def of(self, state: Any, graph: tuple[str, ...], superstep: int, *, shared: bool) -> Plain:
        """Return the changes in the input of a node, as plain data.

        Args:
            state: The input.
            graph: The names of the graph and its thread.
            superstep: The superstep in which the node runs.
            shared: Whether the input is the state that all nodes of the graph share, or one sent to this node.
        """
        parts = _parts(state)
        with self._lock:
            if parts is None:
                return self._in_full(state)
            return self._changes(parts, graph, superstep, shared=shared)

    def _changes(
        self, parts: Mapping[str, Any], path: tuple[str, ...], superstep: int, *, shared: bool
    ) -> dict[str, Plain]:
        changes: dict[str, Plain] = {}
        for key, value in parts.items():
            here = (*path, str(key))
            inner = _parts(value) if not shared else None
            if inner is not None:
                changes[str(key)] = self._changes(inner, here, superstep, shared=False)
                continue
            before = self._before(here, value, superstep) if shared else _ABSENT
            if isinstance(value, list):
                kept = _common(before, value) if isinstance(before, list) else 0
                if not isinstance(before, list) or not kept == len(value) == len(before):
                    changes[str(key)] = self._new_items(value, kept)
            elif before is _ABSENT or not _equal(before, value):
                changes[str(key)] = self._in_full(value)
        return changes

    def _before(self, path: tuple[str, ...], value: Any, superstep: int) -> Any:
        """Return the value of a channel in the superstep before, and remember its value now."""
        known = self._channels.get(path)
        now = list(value) if isinstance(value, list) else value
        if known is None:
            known = _Channel(superstep, _ABSENT, now)
        elif known.superstep != superstep:
            known = _Channel(superstep, known.now, now)
        self._channels[path] = known
        return known.before

    def _new_items(self, items: list[Any], kept: int) -> Plain:
        new = [self._in_full(item) for item in items[kept:] if not self._is_recorded(item)]
        if kept == 0 and len(new) == len(items):
            return new
        return {CHANGED: {"items": len(items), "kept": kept, **({"new": new} if new else {})}}

    def _in_full(self, value: Any) -> Plain:
        for message in _messages(value, _DEEP):
            self._remember(message)
        return self._plain(value)

    def _is_recorded(self, item: Any) -> bool:
        if not isinstance(item, BaseMessage):
            return False
        if self._messages.get(id(item)) is item:
            return True
        same = self._messages_by_id.get(item.id) if item.id is not None else None
        if same is None or not _equal(same, item):
            return False
        self._remember(item)  # another object with the same content: a saver has loaded it
        return True

    def _remember(self, message: BaseMessage) -> None:
        if message.id is not None:
            older = self._messages_by_id.get(message.id)
            if older is not None:
                self._messages.pop(id(older), None)
            self._messages_by_id[message.id] = message
        self._messages[id(message)] = message


def _parts(state: Any) -> Mapping[str, Any] | None:
    """Return the channels of a state, whatever its class; `None` for a value that has none."""
    if isinstance(state, Mapping):
        return state
    if isinstance(state, BaseModel) and not isinstance(state, BaseMessage):
        return dict(state)
    if is_dataclass(state) and not isinstance(state, type | Command | Send):
        return {field.name: getattr(state, field.name, None) for field in fields(state)}
    return None


def _messages(value: Any, deep: int) -> Iterator[BaseMessage]:
    if isinstance(value, BaseMessage):
        yield value
    elif deep == 0 or isinstance(value, str | bytes):
        return
    elif isinstance(value, Command):
        yield from _messages(value.update, deep)
    elif isinstance(value, Mapping):
        yield from chain.from_iterable(_messages(item, deep - 1) for item in value.values())
    elif isinstance(value, Sequence):
        yield from chain.from_iterable(_messages(item, deep - 1) for item in value)


def _common(before: Sequence[Any], now: Sequence[Any]) -> int:
    """Return how many leading items of two lists are equal."""
    count = 0
    for old, new in zip(before, now, strict=False):
        if old is not new and not _equal(old, new):
            break
        count += 1
    return count


def _equal(old: Any, new: Any) -> bool:
    if old is new:
        return True
    try:
        return type(old) is type(new) and bool(old == new)
    except Exception:  # noqa: BLE001 - of the user's class, or an array: then it is recorded again
        return False

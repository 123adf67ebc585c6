"""The state of a workflow as plain data: a value that has not changed is the same object as the last time."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import is_
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import BaseMemory
from workflows.events import Event

from agenttape_core.integration import class_name
from agenttape_core.integration.codecs import NOTHING
from agenttape_llamaindex.workflows.conversations import Conversations, in_common
from agenttape_llamaindex.workflows.differences import difference
from agenttape_llamaindex.workflows.events import PLACE, EventWriter, filled, is_steady
from agenttape_llamaindex.workflows.serializing import MISSING, Messages, settings_of, written_settings
from agenttape_llamaindex.workflows.ticks import plain_value

_ATOMS = frozenset({str, int, float, bool, bytes, type(None)})
_IN_MEMORY, _OF_CLASS = "in_memory", frozenset({"store_type", "state_type", "state_module", "state_data"})
_MESSAGE = f"{ChatMessage.__module__}.{ChatMessage.__name__}"


@dataclass(slots=True)
class LiveState:
    """The state of a run after a tick."""

    envelope: Mapping[str, Any]  # the framework's serialized form of it, without its values
    # The values by key; for a state with its own class, the state itself under `WHOLE`. `None` if the framework
    # writes a reference to the state only.
    values: Mapping[str, Any] | None
    memories: Mapping[int, Messages]  # the messages of the memories among them, by the identity of the memory


WHOLE = "_whole"
"""The key of a state that has no keys."""


class StateWriter:
    """Writes the states of one run. `events` writes the events among the values, and their messages."""

    def __init__(self, redact: Callable[[Any], Any], events: EventWriter) -> None:
        self._redact = redact
        self._events = events
        self._kept = Conversations(lambda message: _as_kept(events.messages.message(message)))
        self._before: Any = NOTHING
        self._last: dict[str, tuple[Any, Any]] = {}
        self._open_keys: set[str] = set()
        self._list_of_events: tuple[list[Any], list[Any]] = ([], [])
        self._envelope: tuple[Any, dict[str, Any]] = (None, {})

    def change(self, state: LiveState) -> tuple[Any, list[str]]:
        """Return the change of the state since the last time, and the classes of its values that cannot be written."""
        after, left_out = self._written(state)
        before, self._before = self._before, after
        return difference(before, after), left_out

    def _written(self, state: LiveState) -> tuple[dict[str, Any], list[str]]:
        envelope = self._written_envelope(state.envelope)
        if state.values is None:
            return envelope, []
        written: dict[str, Any] = {}
        left_out = []
        for key, value in state.values.items():
            try:
                written[key] = self._value(key, value, state.memories)
            except ValueError:
                left_out.append(class_name(type(value)))
                written[key] = {MISSING: left_out[-1]}
        within = written if WHOLE in written else {"_data": written}
        return {**envelope, "state_data": within}, left_out

    def _written_envelope(self, envelope: Mapping[str, Any]) -> dict[str, Any]:
        known, written = self._envelope
        if known is not envelope:
            names_a_class = envelope.get("store_type") == _IN_MEMORY and envelope.keys() <= _OF_CLASS
            written = dict(envelope) if names_a_class else self._redact(dict(envelope))
            self._envelope = envelope, written
        return written

    def _value(self, key: str, value: Any, memories: Mapping[int, Messages]) -> Any:
        if type(value) in _ATOMS:
            before = self._last.get(key)  # as in `_known`, but most values of a state are the same object as before
            same = before is not None and type(before[0]) is tuple and before[0][1] is value
            return before[1] if before is not None and same else self._known(key, (type(value), value), value)
        if isinstance(value, BaseMemory) and id(value) in memories:
            return self._memory(key, value, memories[id(value)])
        items = self._items(value) if type(value) is list and value else None
        if items is not None and self._is_open(key):
            return items
        return self._known(key, _text(value), value)

    def _known(self, key: str, content: Any, value: Any) -> Any:
        """Return a value as plain data, the last one if it has the content of that."""
        before = self._last.get(key)
        if content is None or before is None or before[0] != content:
            before = self._last[key] = content, self._redact({key: plain_value(value)})[key]
        return before[1]

    def _memory(self, key: str, memory: BaseMemory, messages: Messages) -> Any:
        lists = {status: self._events.messages.write(found) for status, found in messages.items() if found}
        settings = settings_of(memory)
        before = self._last.get(key)
        if before is not None and type(before[0]) is _Memory and before[0].is_same(memory, settings, lists):
            return before[1]
        marked = self._redact({key: {**written_settings(memory), "messages": dict.fromkeys(lists, PLACE)}})[key]
        written = {**marked, "messages": filled(marked["messages"], lists)}
        self._last[key] = _Memory(type(memory), settings, lists), written
        return written

    def _is_open(self, key: str) -> bool:
        """Return whether redaction allows the value under a key to be handled separately."""
        if key not in self._open_keys and self._redact({key: PLACE}) == {key: PLACE}:
            self._open_keys.add(key)
        return key in self._open_keys

    def _items(self, values: list[Any]) -> list[Any] | None:
        classes = {*map(type, values)}
        if classes == {ChatMessage}:
            return self._kept.write(values)
        return self._references(values) if all(issubclass(cls, Event) for cls in classes) else None

    def _references(self, values: list[Any]) -> list[Any]:
        """Return the references to a list of events; of one of an agent that has grown, those before it are known."""
        before, references = self._list_of_events
        same = in_common(before, values)
        written = [*references[:same], *map(self._events.refer, values[same:])]
        self._list_of_events = (list(values), written) if all(map(is_steady, values[same:])) else ([], [])
        return written


@dataclass(frozen=True, slots=True)
class _Memory:
    """The content of a memory."""

    cls: type[BaseMemory]
    settings: list[Any]
    lists: dict[str, list[Any]]

    def is_same(self, memory: BaseMemory, settings: list[Any], lists: dict[str, list[Any]]) -> bool:
        same_lists = lists.keys() == self.lists.keys() and all(map(is_, lists.values(), self.lists.values()))
        return same_lists and type(memory) is self.cls and settings == self.settings


def _as_kept(message: Any) -> dict[str, Any]:
    """Return a message as the framework writes it into a state."""
    return {"__is_pydantic": True, "value": message, "qualified_name": _MESSAGE}


def _text(value: Any) -> str | None:
    """Return the content of a dict or a list of plain values; `None` for another value, which may have changed."""
    if type(value) not in {dict, list}:
        return None
    try:
        return json.dumps(value)
    except (TypeError, ValueError):
        return None


def written_state(plain: Any) -> Any:
    """Return a state as the framework reads it: its values are JSON inside of strings."""
    if not isinstance(plain, dict) or not isinstance(plain.get("state_data"), dict):
        return plain
    data = plain["state_data"]
    if WHOLE in data:
        return {**plain, "state_data": json.dumps(data[WHOLE])}
    return {**plain, "state_data": {"_data": {key: json.dumps(item) for key, item in data["_data"].items()}}}

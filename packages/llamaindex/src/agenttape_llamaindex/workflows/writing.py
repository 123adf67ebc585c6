"""The writing of what a run of a workflow passes around: plain data without secrets, each thing written once.

An agent passes its whole conversation from step to step, in events and in its state. What has been written is known
again: an event as the same object, as long as nothing in it was exchanged; a message by its place in a list of the same
messages, or by its content. A message that is changed in place after it was passed on is written as it was (decision
0023).
"""

from __future__ import annotations

import functools
import json
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import BaseMemory
from pydantic import BaseModel
from workflows.context.serializers import JsonSerializer
from workflows.events import Event
from workflows.runtime.types.ticks import WorkflowTick

from agenttape_core.integration import class_name
from agenttape_core.integration.cassettes import Redactor
from agenttape_llamaindex.request_values import message_key
from agenttape_llamaindex.workflows.memories import Messages, write_memory
from agenttape_llamaindex.workflows.serializing import MISSING

EVENT = "$event"
"""The key of a reference to an event of the run, by its number: it stands where the event would."""
EVENT_OF_TEXT = "AgentStream"
"""The class of events that repeat the one before: of several in a row the last holds everything."""
_PLACE = ["$here"]
"""Stands for a list until the rest of the value around it is redacted."""
_LISTS = 6
"""The number of lists that are remembered: of a turn of an agent, and of the turn before it."""
_ATOMS = frozenset({str, int, float, bool, bytes, type(None)})
_OF_AGENTS = "llama_index.core.agent.workflow."
"""The module of the events of the framework's agents, which change none after they have passed it on."""

_SERIALIZER = JsonSerializer()


class _Placeholder(Event):
    """Stands for an event inside a tick until that is written."""

    number: int


@dataclass(frozen=True, slots=True)
class _Same:
    """An object that is equal to nothing but itself."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class _Known:
    """An event that has a number: what it held then, and the reference to it."""

    event: weakref.ref[Event]
    content: Any
    reference: dict[str, int]


@dataclass(frozen=True, slots=True)
class WrittenEvent:
    """An event of a run, when it is first seen.

    Args:
        number: Its number.
        name: Its class.
        bare: Its plain data, with places for its conversations.
        conversations: The conversations by field.
    """

    number: int
    name: str
    bare: Any
    conversations: Mapping[str, list[Any]]

    def whole(self, bare: Any) -> Any:
        """Return its plain data with the conversations in their places.

        Args:
            bare: The plain data without them.
        """
        return {**bare, "value": _filled(bare["value"], self.conversations)} if self.conversations else bare

    def shared(self, plain: Any, other: Any) -> int:
        """Return the number of messages at the beginning of its conversations that those of another event have, too.

        Args:
            plain: Its plain data.
            other: That of the other event.
        """
        return sum(_in_common(plain["value"][name], other["value"].get(name) or []) for name in self.conversations)


class RunWriter:
    """Writes the ticks, the events and the states of one run for one recorder."""

    def __init__(self) -> None:
        self._redact: Callable[[Any], Any] = lambda plain: plain
        self._known: dict[int, _Known] = {}
        self._count = 0
        self._new: list[WrittenEvent] = []
        self._sent = _Conversations(lambda message: message.model_dump(mode="json"), self._redacted)
        self._kept = _Conversations(_SERIALIZER.serialize_value, self._redacted)
        self._atoms: dict[str, tuple[Any, Any]] = {}
        self._open_keys: set[str] = set()
        self._list_of_events: tuple[list[Any], list[Any]] = ([], [])

    def use(self, redactor: Redactor) -> None:
        """Replace secrets by the pseudonyms of this redactor from now on."""
        self._redact = redactor.value

    def _redacted(self, plain: Any) -> Any:
        return self._redact(plain)

    def new_events(self) -> list[WrittenEvent]:
        """Return the events that were first seen since the last time."""
        new, self._new = self._new, []
        return new

    def event(self, event: Event) -> dict[str, int]:
        """Return the reference to an event, which is written when it is first seen, and when its fields have changed.

        Raises:
            ValueError: If it cannot be written.
        """
        key, content = id(event), _content(event)
        known = self._known.get(key)
        if known is None or known.event() is not event or known.content != content:
            self._new.append(self._written(event, self._count + 1))
            self._count += 1
            forget = functools.partial(_forget, self._known, key)
            known = self._known[key] = _Known(weakref.ref(event, forget), content, {EVENT: self._count})
        return known.reference

    def _written(self, event: Event, number: int) -> WrittenEvent:
        lists = {name: value for name, value in vars(event).items() if _is_conversation(type(event), name, value)}
        bare = event.model_copy(update={name: [] for name in lists}) if lists else event
        plain = _plain(bare)
        if "__is_pydantic" not in plain or not lists.keys() <= plain["value"].keys():
            lists, plain = {}, _plain(event)
        plain = self._redact(_marked(plain, lists))
        return WrittenEvent(
            number, plain["qualified_name"], plain, {name: self._sent.write(value) for name, value in lists.items()}
        )

    def tick(self, tick: WorkflowTick) -> dict[str, Any]:
        """Return the fields of a tick that have a value, with references to its events.

        Raises:
            ValueError: If it cannot be written.
        """
        references: list[Any] = []

        def put(event: Event) -> Event:
            references.append(self.event(event))
            return _Placeholder(number=len(references) - 1)

        plain = _plain(_with_events(tick, put))["value"]
        fields = {
            key: item
            for key, item in plain.items()
            if key != "type" and (item not in (None, [], {}) or key == "result")
        }
        found: dict[str, Any] = _replaced(self._redact(fields), references)
        return found

    def state(self, values: Mapping[str, Any], memories: Mapping[int, Messages]) -> tuple[dict[str, Any], list[str]]:
        """Return the values of a state as plain data, and the classes of those that cannot be written.

        Args:
            values: The values by key.
            memories: The messages of the memories among them, by the identity of the memory.
        """
        written: dict[str, Any] = {}
        left_out = []
        for key, value in values.items():
            try:
                written[key] = self._value(key, value, memories)
            except ValueError:
                left_out.append(class_name(type(value)))
                written[key] = {MISSING: left_out[-1]}
        return written, left_out

    def _value(self, key: str, value: Any, memories: Mapping[int, Messages]) -> Any:
        if type(value) in _ATOMS:
            return self._atom(key, value)
        if isinstance(value, BaseMemory) and id(value) in memories:
            lists = {status: self._sent.write(found) for status, found in memories[id(value)].items() if found}
            marked = self._redact({key: write_memory(value, dict.fromkeys(lists, _PLACE))})[key]
            return {**marked, "messages": _filled(marked["messages"], lists)}
        items = self._items(value) if type(value) is list and value else None
        if items is not None and self._is_open(key):
            return items
        return self._redact({key: _plain(value)})[key]

    def _atom(self, key: str, value: Any) -> Any:
        known = self._atoms.get(key)
        if known is None or type(known[0]) is not type(value) or known[0] != value:
            known = self._atoms[key] = value, self._redact({key: _plain(value)})[key]
        return known[1]

    def _is_open(self, key: str) -> bool:
        """Return whether redaction leaves what stands under a key to be looked at by itself."""
        if key not in self._open_keys and self._redact({key: _PLACE}) == {key: _PLACE}:
            self._open_keys.add(key)
        return key in self._open_keys

    def _items(self, values: list[Any]) -> list[Any] | None:
        if {*map(type, values)} == {ChatMessage}:
            return self._kept.write(values)
        return self._events(values) if all(isinstance(value, Event) for value in values) else None

    def _events(self, values: list[Any]) -> list[Any]:
        """Return the references to a list of events; of one of an agent that has grown, those before it are known."""
        before, references = self._list_of_events
        same = _in_common(before, values)
        written = [*references[:same], *map(self.event, values[same:])]
        are_steady = all(type(value).__module__.startswith(_OF_AGENTS) for value in values[same:])
        self._list_of_events = (list(values), written) if are_steady else ([], [])
        return written


class _Conversations:
    """Lists of messages that grow: what they have in common with an earlier one is not written again.

    Args:
        write: Writes a message.
        redact: Replaces the secrets in it.
    """

    def __init__(self, write: Callable[[ChatMessage], Any], redact: Callable[[Any], Any]) -> None:
        self._write = write
        self._redact = redact
        self._lists: deque[tuple[list[ChatMessage], list[Any]]] = deque(maxlen=_LISTS)
        self._messages: dict[Any, Any] = {}

    def write(self, messages: list[ChatMessage]) -> list[Any]:
        """Return a list of messages as plain data; equal messages are one object.

        Raises:
            ValueError: If one cannot be written.
        """
        same, known = 0, list[Any]()
        for before, written in self._lists:
            count = _in_common(before, messages)
            if count > same:
                same, known = count, written
            if same == len(messages):
                break
        written = [*known[:same], *map(self._message, messages[same:])]
        self._lists.appendleft((list(messages), written))
        return written

    def _message(self, message: ChatMessage) -> Any:
        key = message_key(message)
        if key is not None and key in self._messages:
            return self._messages[key]
        try:
            plain = self._redact(json.loads(json.dumps(self._write(message))))
        except Exception as error:
            raise ValueError(f"a message cannot be written: {error}") from error
        if key is not None:
            self._messages[key] = plain
        return plain


def _in_common(one: list[Any], other: list[Any]) -> int:
    """Return the number of objects at the beginning of two lists that are the same."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a is not b), min(len(one), len(other)))


def _content(value: Any) -> Any:
    """Return what an event holds, to compare: the same messages and other objects, and equal plain data."""
    if type(value) in _ATOMS or type(value).__module__.startswith(_OF_AGENTS):
        return value if type(value) in _ATOMS else None
    if type(value) is dict:
        return {key: _content(item) for key, item in value.items()}
    if type(value) in {list, tuple}:
        return list(value) if {*map(type, value)} == {ChatMessage} else [_content(item) for item in value]
    if isinstance(value, BaseModel) and not isinstance(value, ChatMessage):
        return _content({**vars(value), "": getattr(value, "__pydantic_private__", None)})
    return _Same(value)


def _plain(value: Any) -> Any:
    """Return a value as the framework writes it.

    Raises:
        ValueError: If it cannot be written.
    """
    return json.loads(_SERIALIZER.serialize(value))


def _forget(known: dict[int, _Known], key: int, _event: object) -> None:
    known.pop(key, None)


def _is_conversation(cls: type[Event], name: str, value: Any) -> bool:
    return type(value) is list and {*map(type, value)} == {ChatMessage} and _takes_messages(cls, name)


@functools.lru_cache(1024)
def _takes_messages(cls: type[Event], name: str) -> bool:
    """Return whether a field is declared as a list of messages, and its class writes it as the framework does."""
    field = cls.model_fields.get(name)
    decorators = cls.__pydantic_decorators__
    is_plain = not decorators.field_serializers and {*decorators.model_serializers} <= {"custom_model_dump"}
    return is_plain and field is not None and ChatMessage in {*_arguments(field.annotation)}


def _arguments(annotation: Any) -> Iterator[Any]:
    for argument in get_args(annotation):
        yield argument
        yield from _arguments(argument)


def _marked(plain: Any, lists: Mapping[str, Any]) -> Any:
    return {**plain, "value": {**plain["value"], **dict.fromkeys(lists, _PLACE)}} if lists else plain


def _filled(plain: dict[str, Any], lists: Mapping[str, list[Any]]) -> dict[str, Any]:
    """Put lists in their places, where redaction has left any."""
    return {key: lists[key] if key in lists and item == _PLACE else item for key, item in plain.items()}


def _with_events(model: Any, put: Callable[[Event], Event]) -> Any:
    """Return a tick, or a part of it, with others in the place of its events."""
    update: dict[str, Any] = {}
    for name, value in vars(model).items():
        if isinstance(value, Event):
            update[name] = put(value)
        elif type(value) is list and any(isinstance(item, BaseModel) for item in value):
            update[name] = [_with_events(item, put) if isinstance(item, BaseModel) else item for item in value]
    return model.model_copy(update=update) if update else model


def _replaced(plain: Any, references: list[Any]) -> Any:
    """Return plain data with references in the place of written placeholders."""
    if type(plain) is dict:
        if plain.get("__is_pydantic") and str(plain.get("qualified_name", "")).endswith(f".{_Placeholder.__name__}"):
            return references[plain["value"]["number"]]
        return {key: _replaced(item, references) for key, item in plain.items()}
    return [_replaced(item, references) for item in plain] if type(plain) is list else plain

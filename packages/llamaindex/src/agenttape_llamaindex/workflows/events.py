"""The events of a run of a workflow as plain data without secrets, each written once.

An agent passes its whole conversation from step to step. A written event is recognized as the same object, as long as
none of its parts was replaced; a message by its index in a list of the same messages, or by its content. A message that
is changed in place after it was passed on is written in its former state (decision 0023).
"""

from __future__ import annotations

import functools
import json
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args

from llama_index.core.base.llms.types import ChatMessage
from pydantic import BaseModel
from workflows.events import Event

from agenttape_core.integration.codecs import NOTHING
from agenttape_llamaindex.workflows.conversations import Conversations, in_common
from agenttape_llamaindex.workflows.differences import difference
from agenttape_llamaindex.workflows.ticks import plain_event, plain_value

EVENT = "$event"
"""The key of a reference to an event of the run, by its number: it replaces the event."""
EVENT_OF_TEXT = "AgentStream"
"""The class of events that repeat the one before: of several in a row the last holds everything."""
PLACE = ["$here"]
"""Stands for a message, or a list of some, until the rest of the value around it is redacted."""
_OTHERS = 4
"""The number of events of a class that another one may be written as a change of: steps have several in a turn."""
_ATOMS = frozenset({str, int, float, bool, bytes, type(None)})
_OF_AGENTS = "llama_index.core.agent.workflow."
"""The module of the events of the framework's agents, which change none after they have passed it on."""
_EMPTY = ChatMessage(role="user", blocks=[])


@dataclass(frozen=True, slots=True)
class _Same:
    """An object that only equals itself."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class _Known:
    """An event that has a number: its content at that time, and the reference to it."""

    event: weakref.ref[Event]
    content: Any
    reference: dict[str, int]


@dataclass(frozen=True, slots=True)
class _Written:
    """An event of a run as plain data."""

    number: int
    name: str  # its class
    bare: Any  # its plain data, with places for its messages
    messages: Mapping[str, Any]  # its messages, and its lists of messages, by field

    def has_content_of(self, other: _Written) -> bool:
        return self.bare == other.bare and self.messages == other.messages

    def whole(self) -> Any:
        """Return its plain data with the messages in their places."""
        return {**self.bare, "value": filled(self.bare["value"], self.messages)} if self.messages else self.bare

    def shared(self, plain: Any, other: Any) -> int:
        """Return how many messages its conversations share at their beginning with another event's."""
        lists = [name for name, item in self.messages.items() if type(item) is list]
        return sum(in_common(plain["value"][name], other["value"].get(name) or []) for name in lists)


class EventWriter:
    """Writes the events of one run for one recorder.

    `redact_parts` replaces the secrets that are cut in two between several pieces of plain data.
    """

    def __init__(self, redact: Callable[[Any], Any], redact_parts: Callable[[list[Any]], list[Any]]) -> None:
        self.messages = Conversations(lambda message: redact(json.loads(json.dumps(message.model_dump(mode="json")))))
        """The messages in the events."""
        self._redact = redact
        self._redact_parts = redact_parts
        self._known: dict[int, _Known] = {}
        self._count = 0
        self._new: list[_Written] = []
        self._steady: dict[str, deque[_Written]] = {}
        self._others: dict[str, deque[tuple[int, Any]]] = {}

    def refer(self, event: Event) -> dict[str, int]:
        """Return the reference to an event, which is written when it is first seen, and when its fields have changed.

        Raises `ValueError` if it cannot be written.
        """
        key, content = id(event), _content(event)
        known = self._known.get(key)
        if known is None or known.event() is not event or known.content != content:
            forget = functools.partial(_forget, self._known, key)
            reference = {EVENT: self._number(event)}
            known = self._known[key] = _Known(weakref.ref(event, forget), content, reference)
        return known.reference

    def _number(self, event: Event) -> int:
        """Return the number of an event: an equal one's if it is an agent's, since agents pass on copies of some."""
        written = self._written(event, self._count + 1)
        if is_steady(event) and type(event).__name__ != EVENT_OF_TEXT:
            equal = self._steady.setdefault(written.name, deque(maxlen=_OTHERS))
            for other in equal:
                if written.has_content_of(other):
                    equal.remove(other)
                    equal.appendleft(other)
                    return other.number
            equal.appendleft(written)
        self._count += 1
        self._new.append(written)
        return written.number

    def _written(self, event: Event, number: int) -> _Written:
        fields = vars(event)
        taking = _takes_messages(type(event))
        messages = {name: fields[name] for name in taking if _is_of_messages(fields.get(name))}
        if _is_written_by_fields(type(event)) and not (event.__pydantic_private__ or {}).get("_data"):
            plain = plain_event(event, dict.fromkeys(messages, PLACE))
            return self._redacted(plain, messages, number)
        empty: dict[str, Any] = {name: [] if type(value) is list else _EMPTY for name, value in messages.items()}
        plain = plain_value(event.model_copy(update=empty) if messages else event)
        if messages and ("__is_pydantic" not in plain or not messages.keys() <= plain["value"].keys()):
            messages, plain = {}, plain_value(event)
        if messages:
            plain = {**plain, "value": {**plain["value"], **dict.fromkeys(messages, PLACE)}}
        return self._redacted(plain, messages, number)

    def _redacted(self, plain: dict[str, Any], messages: Mapping[str, Any], number: int) -> _Written:
        bare = {**plain, "value": self._redact(plain["value"])}
        return _Written(
            number, plain["qualified_name"], bare, {key: self._plain(item) for key, item in messages.items()}
        )

    def _plain(self, messages: Any) -> Any:
        return self.messages.write(messages) if type(messages) is list else self.messages.message(messages)

    def new_events(self) -> list[dict[str, Any]]:
        """Return the events that were first seen since the last time, each as its change since one of its class."""
        new, self._new = self._new, []
        if len({event.name for event in new}) < len(new):
            bare = self._redact_parts([event.bare for event in new])
            new = [replace(event, bare=plain) for event, plain in zip(new, bare, strict=True)]
        return [self._as_change(event) for event in new]

    def _as_change(self, event: _Written) -> dict[str, Any]:
        """Return an event as its change since the one of its class that has most of its conversation."""
        plain, others = event.whole(), self._others.setdefault(event.name, deque(maxlen=_OTHERS))
        of, before = max(others, key=lambda other: event.shared(plain, other[1]), default=(0, NOTHING))
        others.appendleft((event.number, plain))
        change = difference(before, plain)
        return {
            "n": event.number,
            "event": event.name,
            **({"of": of} if of else {}),
            **({"value": change} if change is not NOTHING else {}),
        }


def is_steady(event: Event) -> bool:
    """Return whether no one changes an event after it was passed on: it is one of the framework's agents."""
    return type(event).__module__.startswith(_OF_AGENTS)


def filled(plain: dict[str, Any], messages: Mapping[str, Any]) -> dict[str, Any]:
    """Put messages in their places, where redaction has left any."""
    return {key: messages[key] if key in messages and item == PLACE else item for key, item in plain.items()}


def _content(value: Any) -> Any:
    """Return the content of an event, to compare: the same messages and other objects, and equal plain data."""
    if type(value) in _ATOMS or type(value).__module__.startswith(_OF_AGENTS):
        return value if type(value) in _ATOMS else None
    if type(value) is dict:
        return {key: _content(item) for key, item in value.items()}
    if type(value) in {list, tuple}:
        return list(value) if {*map(type, value)} == {ChatMessage} else [_content(item) for item in value]
    if isinstance(value, BaseModel) and not isinstance(value, ChatMessage):
        return _content({**vars(value), "": getattr(value, "__pydantic_private__", None)})
    return _Same(value)


def _forget(known: dict[int, _Known], key: int, _event: object) -> None:
    known.pop(key, None)


def _is_of_messages(value: Any) -> bool:
    return type(value) is ChatMessage or (type(value) is list and {*map(type, value)} == {ChatMessage})


@functools.lru_cache(1024)
def _takes_messages(cls: type[Event]) -> list[str]:
    """Return the fields of a class that are declared as of messages, if it writes them as the framework does."""
    decorators = cls.__pydantic_decorators__
    if decorators.field_serializers or not {*decorators.model_serializers} <= {"custom_model_dump"}:
        return []
    fields = cls.model_fields.items()
    return [
        name
        for name, field in fields
        if not field.exclude and ChatMessage in {field.annotation, *_arguments(field.annotation)}
    ]


@functools.lru_cache(1024)
def _is_written_by_fields(cls: type[Event]) -> bool:
    """Return whether the framework writes events of a class field by field: they are of its agents."""
    return cls.__module__.startswith(_OF_AGENTS) and not hasattr(cls, "class_name")


def _arguments(annotation: Any) -> Iterator[Any]:
    for argument in get_args(annotation):
        yield argument
        yield from _arguments(argument)

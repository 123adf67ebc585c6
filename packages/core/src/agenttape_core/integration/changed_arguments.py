"""Arguments that a call changes: recorded in their final state, and changed again in a replay of the call.

`fill(rows)` may append to the list that it's given. Its caller looks at the list afterwards, so a replay has to change
it as well. An argument is compared with itself, as plain data, before the call and after it; only while the call runs
for real, and only if something in it can change at all.

For a method's object, the attributes count that are different objects than before, or hold another number of items.

What a replay changes is the caller's own object, in place, and the objects inside of it as far as the recording has one
of the same type for each: other variables may refer to them. It leaves open files at their end, as if they were read.
"""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import fractions
import pathlib
import re
import types
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from agenttape_core.errors import AgentTapeHalt, UnrecordableValueError
from agenttape_core.integration.request_values import leave_at_end
from agenttape_core.schema import Plain
from agenttape_core.schema.class_names import writing_answers
from agenttape_core.session import SessionCall

_NEVER_CHANGE = (
    *(str, bytes, int, float, complex, bool, type(None), type, frozenset, range, slice, enum.Enum, re.Pattern),
    *(dt.date, dt.time, dt.timedelta, dt.tzinfo, uuid.UUID, decimal.Decimal, fractions.Fraction),
    *(pathlib.PurePath, types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType),
)
_ABSENT = object()
_MOST = 1000  # an attribute with more items is a separate store, and not part of a call's result


def that_may_change(arguments: Mapping[str, Any], owner: Any = None) -> dict[str, Any]:
    """Return the arguments that a call could change.

    Args:
        arguments: The arguments by name.
        owner: The object whose method is called, if its attributes count as well: they are called `self`.
    """
    own = {"self": _Attributes(owner)} if owner is not None else {}
    return {**own, **{name: value for name, value in arguments.items() if not _never_changes(value)}}


class _Attributes:
    """The attributes of an object whose method is called."""

    def __init__(self, owner: Any) -> None:
        self._held: dict[str, Any] = getattr(owner, "__dict__", {})
        self._before = {name: (value, _size(value)) for name, value in self._held.items()}

    def changed(self, write: Callable[[Any], Plain]) -> dict[str, Plain]:
        """Return those that have changed since, if they can be recorded: a new client isn't an answer."""
        found: dict[str, Plain] = {}
        for name, value in list(self._held.items()):
            old, size = self._before.get(name, (_ABSENT, 0))
            now = _size(value)
            if (old is not value or size != now) and now <= _MOST:
                with suppress(UnrecordableValueError):
                    found[name] = write(value)
        return found

    def bring(self, recorded: Mapping[str, Any]) -> None:
        """Change them as they changed in the recording."""
        for name, value in recorded.items():
            self._held[name] = _item(self._held.get(name, _ABSENT), value)


def _size(value: Any) -> int:
    return len(value) if type(value) in {list, dict, set, deque, bytearray, str, bytes, tuple} else 0


def _never_changes(value: Any) -> bool:
    return isinstance(value, _NEVER_CHANGE) or (type(value) is tuple and all(map(_never_changes, value)))


@contextmanager
def changing_arguments(session_call: SessionCall, arguments: Mapping[str, Any]) -> Iterator[None]:
    """Make a call inside: its recording keeps how it changes its arguments, and a replay changes them again.

    Open it around all of the call, up to the end of its stream. A miss has no recorded end, and makes no changes.

    Args:
        session_call: The call.
        arguments: Those that may change. One that can't be recorded in its state before the call is left out.
    """
    if not session_call.is_replayed:
        _watch(session_call, arguments)
        yield
        return
    try:
        yield
    except AgentTapeHalt:
        raise
    except BaseException:
        _change_again(session_call, arguments)
        raise
    _change_again(session_call, arguments)


def _watch(session_call: Any, arguments: Mapping[str, Any]) -> None:
    before: dict[str, Plain] = {}
    for name, value in arguments.items():
        with suppress(UnrecordableValueError):
            before[name] = _plain(session_call, value) if not isinstance(value, _Attributes) else {}

    def changed() -> dict[str, Plain]:
        now: dict[str, Plain] = {}
        for name in before:
            if isinstance(held := arguments[name], _Attributes):
                now[name] = held.changed(lambda value: _plain(session_call, value))
                continue
            try:
                now[name] = _plain(session_call, arguments[name])
            except UnrecordableValueError as error:
                reason = str(error).partition("\n")[0]
                session_call.fidelity_note = f"the call changed its argument {name} to what can't be recorded: {reason}"
        return {name: plain for name, plain in now.items() if plain != before[name]}

    if before:
        session_call.changed = changed


def _plain(session_call: Any, value: Any) -> Plain:
    with writing_answers():  # as an answer, it names its class, so that it can be made again
        plain: Plain = session_call.session.codec.encode(value)
        return plain


def _change_again(session_call: Any, arguments: Mapping[str, Any]) -> None:
    for name, recorded in session_call.changed_arguments().items():
        if isinstance(held := arguments.get(name), _Attributes):
            held.bring(recorded)
        elif not _bring(arguments.get(name, _ABSENT), recorded):
            asked = session_call.request
            line = f"{asked.kind} {asked.name} changed its argument {name} in the recording, which a replay can't do"
            session_call.session.report.add_entropy(line, moves_calls=True)
    leave_at_end(*arguments.values())


def _bring(old: Any, new: Any) -> bool:
    """Make an object equal to another of its type, in place; return False if it can't be changed so."""
    if type(old) is not type(new):
        return False
    for kinds, bring in _BRINGING:
        if isinstance(old, kinds):
            return bring(old, new)
    if _is_equal(old, new):
        return True
    return _bring_array(old, new) if type(old).__module__ == "numpy" else _bring_object(old, new)


def _item(old: Any, new: Any) -> Any:
    """Return what takes the place of an item: the item itself, brought to the new one if it can be."""
    if _never_changes(new) or not _bring(old, new):
        return new
    return old


def _bring_sequence(old: Any, new: Any) -> bool:
    before, after = list(old), list(new)
    shorter = min(len(before), len(after))
    begin = next((n for n in range(shorter) if not _is_equal(before[n], after[n])), shorter)
    end = next((n for n in range(shorter - begin) if not _is_equal(before[-1 - n], after[-1 - n])), shorter - begin)
    middle = before[begin : len(before) - end]
    middle += [_ABSENT] * len(after)
    changed = [_item(middle[n], item) for n, item in enumerate(after[begin : len(after) - end])]
    kept = [*before[:begin], *changed, *before[len(before) - end :]]
    if isinstance(old, list):
        old[:] = kept
    else:
        old.clear()
        old.extend(kept)
    return True


def _bring_dict(old: Any, new: Any) -> bool:
    kept = {key: _item(old.get(key, _ABSENT), value) for key, value in new.items()}
    old.clear()  # also where no key has gone: the order is that of the recording
    old.update(kept)
    return True


def _bring_set(old: Any, new: Any) -> bool:
    old &= new
    old |= new
    return True


def _bring_bytes(old: Any, new: Any) -> bool:
    old[:] = new
    return True


def _bring_tuple(old: Any, new: Any) -> bool:
    return len(old) == len(new) and all(
        _is_equal(one, other) or _bring(one, other) for one, other in zip(old, new, strict=True)
    )


_BRINGING: tuple[tuple[Any, Callable[[Any, Any], bool]], ...] = (
    ((list, deque), _bring_sequence),
    (dict, _bring_dict),
    (set, _bring_set),
    (bytearray, _bring_bytes),
    (tuple, _bring_tuple),
)


def _bring_array(old: Any, new: Any) -> bool:
    if getattr(old, "shape", None) != getattr(new, "shape", _ABSENT) or old.dtype != new.dtype:
        return False
    old[...] = new
    return True


def _bring_object(old: Any, new: Any) -> bool:
    """Bring the attributes of an object, even of a frozen one: their content may have changed."""
    slots = [
        slot
        for base in type(old).__mro__
        for slot in vars(base).values()
        if isinstance(slot, types.MemberDescriptorType)
    ]
    own, others = getattr(old, "__dict__", None), getattr(new, "__dict__", None)
    if own is None and not slots:
        return False
    if own is not None and others is not None:
        _bring_dict(own, others)
    for slot in slots:
        with suppress(AttributeError):  # it is not set in the recording
            slot.__set__(old, _item(getattr(old, slot.__name__, _ABSENT), slot.__get__(new)))
    return True


def _is_equal(one: Any, other: Any) -> bool:
    if one is other:
        return True
    try:
        return type(one) is type(other) and bool(one == other)
    except Exception:  # noqa: BLE001 - a class of the program, or an array: it is compared by its parts
        return False

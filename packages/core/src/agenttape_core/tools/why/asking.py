"""Requests of models with some of their messages left out, or some parts of these.

A message that is left out stays where it is, with its role, its name and its ids, as calls of tools and their results
belong together: its texts are replaced by an ellipsis.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from agenttape_core.errors import AgentTapeError
from agenttape_core.schema import Plain
from agenttape_core.tools.why.perturbing import with_texts

LEFT_OUT = "…"
"""The text in the place of one that is left out."""
_DEPTH = 2
"""Messages lie in a list, which may be an argument; what is in them are no messages."""
_LONG = 200
"""The characters from which on a message is looked at in parts."""
_PARTS = re.compile(r"[^\n]*\n+|[^\n]+$")
_SENTENCES = re.compile(r".+?(?:[.!?]\s+|$)", re.DOTALL)

Place = tuple[str | int, ...]
"""The place of a message in what a model is asked."""


class Unit(NamedTuple):
    """A message, or a part of its text.

    Args:
        place: The place of the message.
        part: The number of the part; `None` for the message.
    """

    place: Place
    part: int | None = None


@dataclass(slots=True)
class Asking:
    """One sample: what is left out of the request, and what is seen of it when the model is asked.

    Args:
        left_out: The messages and the parts that are left out.
        seen: The texts of the messages, by their places; known once the model was asked.
        redact: Hides the secrets in a text, as the session of the run does; known then, too.
    """

    left_out: Collection[Unit] = ()
    seen: dict[Place, list[str]] = field(default_factory=dict)
    redact: Callable[[str], str] = str

    def __call__(self, crossing: Any, asked: Any) -> Any:
        """Return what the model is asked instead.

        Args:
            crossing: The crossing of the call.
            asked: What the program asks: messages, a text, or arguments by name.
        """
        session = crossing.session
        messages = dict(_messages(asked, session.codec, ()))
        self.seen = {place: texts for place, plain in messages.items() if (texts := _texts(plain))}
        self.redact = session.redactor.text
        whole = {unit.place for unit in self.left_out if unit.part is None}
        parts: dict[Place, set[int]] = {}
        for unit in self.left_out:
            if unit.part is not None:
                parts.setdefault(unit.place, set()).add(unit.part)
        changes: dict[Place, Plain] = {place: _without(messages[place], None) for place in whole if place in messages}
        changes |= {place: _without(messages[place], parts[place]) for place in parts if place in messages}
        return _rebuilt(asked, changes, session.codec, ()) if changes else asked


def _messages(asked: Any, codec: Any, place: Place) -> Iterator[tuple[Place, Plain]]:
    """Yield the messages in what a model is asked, as plain data: the items of lists, and other arguments."""
    if type(asked) in {list, tuple} and len(place) < _DEPTH:
        for number, item in enumerate(asked):
            yield from _messages(item, codec, (*place, number))
    elif type(asked) is dict and not place:
        for key, item in asked.items():
            yield from _messages(item, codec, (*place, key))
    else:
        try:
            yield place, codec.encode(asked)
        except AgentTapeError:
            return  # what cannot be written is no message


def _rebuilt(asked: Any, changes: Mapping[Place, Plain], codec: Any, place: Place) -> Any:
    if place in changes:
        return codec.decode(changes[place])
    if type(asked) in {list, tuple}:
        return type(asked)(_rebuilt(item, changes, codec, (*place, number)) for number, item in enumerate(asked))
    if type(asked) is dict and not place:
        return {key: _rebuilt(item, changes, codec, (*place, key)) for key, item in asked.items()}
    return asked


def _texts(plain: Plain) -> list[str]:
    found: list[str] = []

    def note(text: str) -> str:
        if text.strip():
            found.append(text)
        return text

    with_texts(plain, note)
    return found


def _without(plain: Plain, parts: Collection[int] | None) -> Plain:
    """Return a message without its texts, or without some parts of them."""
    if parts is None:
        return with_texts(plain, lambda text: LEFT_OUT if text.strip() else text)
    number = itertools.count()

    def shortened(text: str) -> str:
        if not text.strip():
            return text
        return "".join(f"{LEFT_OUT} " if next(number) in parts else piece for piece in pieces_of(text))

    return with_texts(plain, shortened)


def pieces_of(text: str) -> list[str]:
    """Return the parts of a text: its lines, or its sentences if it is one long line."""
    lines = _PARTS.findall(text)
    return [piece for line in lines for piece in (_SENTENCES.findall(line) if len(line) > _LONG else [line])] or [text]


def parts_of(texts: Collection[str], *, is_all: bool) -> list[str]:
    """Return the parts of a message; empty for one that is not looked at in parts.

    Args:
        texts: Its texts.
        is_all: Whether it is all that is asked; else only a long one is looked at in parts.
    """
    found = [piece for text in texts for piece in pieces_of(text)]
    return found if len(found) > 1 and (is_all or sum(map(len, texts)) > _LONG) else []


def shown(place: Place) -> str:
    """Return a place as requests are written, such as `messages[2]`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).removeprefix(".")
    return f"messages{text}" if text.startswith("[") else text or "prompt"

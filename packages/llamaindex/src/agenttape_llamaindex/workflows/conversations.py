"""Conversations as plain data: what one has in common with an earlier one is not written again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import compress, count
from operator import is_not
from typing import Any

from llama_index.core.base.llms.types import ChatMessage

from agenttape_llamaindex.request_values import message_key

_NEW = 2
"""So many messages are written rather than looked for in another list: a turn adds as many."""
_LISTS = 6
"""The number of lists that are remembered: of a turn of an agent, and of the turn before it."""


class Conversations:
    """Lists of messages that grow. `write` returns a message as plain data without secrets."""

    def __init__(self, write: Callable[[ChatMessage], Any]) -> None:
        self._write = write
        self._lists: deque[tuple[list[ChatMessage], list[Any]]] = deque(maxlen=_LISTS)
        self._messages: dict[Any, Any] = {}

    def write(self, messages: list[ChatMessage]) -> list[Any]:
        """Return a list of messages as plain data: the same object for the same messages; equal ones are one object.

        Raises `ValueError` if one cannot be written.
        """
        same, known = 0, list[Any]()
        for before, written in self._lists:
            shared = in_common(before, messages)
            if shared > same:
                same, known = shared, written
            if len(messages) - same <= _NEW:
                break
        if same == len(messages) == len(known):
            return known
        written = [*known[:same], *map(self.message, messages[same:])]
        self._lists.appendleft((list(messages), written))
        return written

    def message(self, message: ChatMessage) -> Any:
        """Return a message as plain data. Raises `ValueError` if it cannot be written."""
        key = message_key(message)
        if key is not None and key in self._messages:
            return self._messages[key]
        try:
            plain = self._write(message)
        except Exception as error:
            raise ValueError(f"a message cannot be written: {error}") from error
        if key is not None:
            self._messages[key] = plain
        return plain


def in_common(one: list[Any], other: list[Any]) -> int:
    """Return the number of objects at the beginning of two lists that are the same."""
    return next(compress(count(), map(is_not, one, other)), min(len(one), len(other)))

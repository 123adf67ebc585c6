"""Boundaries: the families of calls that reach outside, each with what its streams, answers and misses look like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from agenttape_core.errors import UnrecordedCallError
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import Usage


def _no_usage(_: Any) -> Usage | None:
    return None


def _raise_unrecorded(_: object, unrecorded: UnrecordedCallError) -> NoReturn:
    if unrecorded.said != str(unrecorded):
        raise unrecorded.neutral() from unrecorded
    raise unrecorded


def _as_it_is(_: object, value: Any) -> Any:
    return value


class Boundary(NamedTuple):
    """A family of calls that reach outside: its name, and the relation of its streams to its values.

    Args:
        kind: `chat`, `completion`, `embeddings`, `retrieval`, `tool`, `memory`, `http` or `call`.
        join: Makes the value of the chunks of an exhausted stream, so that a streamed recording answers a plain call.
        split: Makes chunks of a value, so that a plain recording answers a stream.
        usage: Reads the token counts of a value.
        missed: Makes the error result of a call that has no recording (`on_miss="return"`), as the callers of this
            family expect one; by default the `UnrecordedCallError` is raised, in neutral words (`UNAVAILABLE`) if a
            model may read them, as for a tool.
        faked: Makes the value of a call from a user's replacement: the result of a fake,
            (`fakes=`), or an answer of a change (`returns`, `edits`).
        told: Converts the recorded value of a call to the form that users know (`edits`), such as the message of a chat
            model's result.
        is_program: Whether the code behind the call is part of the program, as the code of a tool always is. A replay
            steps into such a call if its code only made recorded calls and had no other side effects.
        takes_candidates: Whether another model may be tried on a call; a chat model can't replace a model with a custom
            interface.
    """

    kind: str
    join: Callable[[list[Any]], Any] = list
    split: Callable[[Any], Sequence[Any]] = list
    usage: Callable[[Any], Usage | None] = _no_usage
    missed: Callable[[Any, UnrecordedCallError], Any] = _raise_unrecorded
    faked: Callable[[Any, Any], Any] = _as_it_is
    told: Callable[[Any, Any], Any] = _as_it_is
    is_program: bool = False
    takes_candidates: bool = True

    @property
    def may_be_stepped_into(self) -> bool:
        """True if a replay may run the code behind a call: a tool, or code that the integration calls program."""
        return self.is_program or self.kind == "tool"

    @property
    def is_watched(self) -> bool:
        """True if side effects of its code are noted while it's recorded: they decide how a replay treats it."""
        return self.may_be_stepped_into or self.kind == "call"

    def usage_of(self, value: Any) -> Usage | None:
        """Return the token counts of a value; `None` if it's from another family, such as a stub in a test."""
        try:
            return self.usage(value)
        except (AttributeError, TypeError):
            return None

    def usage_of_stream(self, chunks: list[Any]) -> Usage | None:
        """Return the token counts of the chunks of an exhausted stream, in the same way."""
        try:
            return self.usage(self.join(chunks)) if chunks else None
        except (AttributeError, TypeError):
            return None

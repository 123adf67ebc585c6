"""Boundaries, and the base of their crossings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NoReturn

from agenttape_core.errors import DriftError
from agenttape_core.matching import CanonicalRequest, Position
from agenttape_core.scheduling import RIGHT_AWAY, Arrivals, Awaited
from agenttape_core.schema import Usage
from agenttape_core.session.base_session import BaseSession


def _no_usage(_: Any) -> Usage | None:
    return None


def _raise_drift(_: BaseCrossing, drift: DriftError) -> NoReturn:
    if drift.said != str(drift):
        raise drift.neutral() from drift
    raise drift


def _as_it_is(_: BaseCrossing, value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class Boundary:
    """A family of calls that reach outside: its name, and the relation of its streams to its values.

    Args:
        kind: `chat`, `completion`, `embeddings`, `retrieval`, `tool`, `memory`, `http` or `call`.
        join: Makes the value of the chunks of an exhausted stream, so that a streamed recording serves a plain call.
        split: Makes chunks of a value, so that a plain recording serves a stream.
        usage: Reads the token counts of a value.
        missed: Makes the error result of a call that has no recording (`on_miss="return"`), as the callers of this
            family expect one; by default the `DriftError` is raised, in neutral words (`UNAVAILABLE`) if a model may
            read them, as those of a tool.
        faked: Makes the value of a call of what the user has chosen in its place: what a function of theirs returned
            (`fakes=`), or an answer of a change (`returns`, `edits`).
        told: Makes of the recorded value of a call what the user's programs know as its answer (`edits`): the message
            of the result of a chat model, for example.
        is_program: Whether the code behind the call is part of the program, as the code of a tool always is. A replay
            steps into such a call if its code only made calls that are recorded, and had no side effects of its own.
        takes_candidates: Whether another model may be tried on a call; a model with an interface of its own can't be
            replaced by a chat model.
    """

    kind: str
    join: Callable[[list[Any]], Any] = list
    split: Callable[[Any], Sequence[Any]] = list
    usage: Callable[[Any], Usage | None] = _no_usage
    missed: Callable[[Any, DriftError], Any] = _raise_drift
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
        """True if side effects of its code are noted while it is recorded: they decide what a replay does with it."""
        return self.may_be_stepped_into or self.kind == "call"

    def usage_of(self, value: Any) -> Usage | None:
        """Return the token counts of a value; `None` if it is none of this family, as that of a stub in a test."""
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


class BaseCrossing:
    """The facts that every crossing has, whatever happens on it.

    Args:
        session: The session it belongs to.
        boundary: The family of the call.
        request: The request.
        position: Where the call is made.
        owner: The object whose call it is; calls that the same object makes inside are part of this one.
    """

    __slots__ = ("arrivals", "boundary", "owner", "position", "request", "session")

    def __init__(
        self, session: BaseSession, boundary: Boundary, request: CanonicalRequest, position: Position, *, owner: Any
    ) -> None:
        self.session = session
        self.boundary = boundary
        self.request = request
        self.position = position
        self.owner = owner
        self.arrivals = Arrivals(session.scheduler)
        """The arrivals of the call: its chunks, its effects, its end."""


_RIGHT_AWAY = nullcontext(RIGHT_AWAY)


class AnsweredCrossing(BaseCrossing):
    """A call that is answered without being executed."""

    __slots__ = ()

    is_served: ClassVar[Literal[True]] = True
    """True if the call is answered without being executed."""

    @property
    def recorded(self) -> Any:
        """The recorded value; `None` if there is none."""
        return None

    @property
    def was_cancelled(self) -> bool:
        """True if the recorded call was cancelled before it ended."""
        return False

    @property
    def is_stream(self) -> bool:
        """True if a stream was recorded, whole or in part."""
        return False

    def is_left_after(self, chunks: int) -> bool:  # noqa: ARG002 - as of a served crossing
        """True if the recorded stream ended after so many chunks because it was closed or cancelled."""
        return False

    @property
    def may_be_late(self) -> bool:
        """True if the recorded call was abandoned, cancelled or left: then its answer may have to wait for that."""
        return False

    recording: int | None = None
    """The number of the recording that answers it; `None` if none does."""

    def awaiting(self) -> AbstractContextManager[Awaited]:
        """Give an awaited call its place among all that its event loop waits for, while inside: here it has none."""
        return _RIGHT_AWAY

    def opening(self) -> AbstractContextManager[Awaited]:
        """Give a stream that is awaited before it is read its place meanwhile; while it is read, it has another one."""
        return self.awaiting()

    def wait_to_be_abandoned(self, after: int | None = None) -> None:
        """Wait until no code waits for this thread, if none did during the recorded call.

        Args:
            after: Only if it was when so many chunks of a stream had arrived; by default in any case.
        """

    def wait_to_be_left(self, after: int) -> None:
        """Wait in a thread that works for an event loop, if the recorded reader of the stream left it here.

        Args:
            after: The number of chunks that have arrived.
        """

    async def await_to_be_abandoned(self, after: int | None = None) -> None:
        """Like `wait_to_be_abandoned`, in an event loop that runs in the thread."""

    async def await_cancellation(self) -> None:
        """Wait until the call is cancelled as the recorded one was. Return if that does not happen."""

    def changed_arguments(self) -> dict[str, Any]:
        """Return the arguments that the recorded call changed, by name: by default none."""
        return {}

    def effects(self, after: int | None = None) -> list[Any]:  # noqa: ARG002 - as of a served crossing
        """Return what the recorded call did besides returning, in order: by default nothing.

        Args:
            after: Only what it did when so many chunks of its stream had arrived; by default all.
        """
        return []

    def _split(self, value: Any) -> Sequence[Any]:
        with self.session.latching():
            return self.boundary.split(value)

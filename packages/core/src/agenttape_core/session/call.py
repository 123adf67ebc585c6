"""The facts of a call, whatever happens on it, and those who watch the calls of this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agenttape_core.matching import CanonicalRequest, Position
from agenttape_core.scheduling import Arrivals
from agenttape_core.session.boundary import Boundary

if TYPE_CHECKING:
    from agenttape_core.session.session import Session  # the type alone: a session makes its calls


class Call:
    """A call at a boundary: its facts.

    Args:
        session: The session it belongs to.
        boundary: The family of the call.
        request: The request.
        position: Where the call is made.
        number: Its number in this run: the order of its start.
        owner: The object whose call it is; calls that the same object makes inside are part of this one.
    """

    __slots__ = ("_arrivals", "boundary", "number", "owner", "position", "request", "session")

    def __init__(
        self,
        session: Session,
        boundary: Boundary,
        request: CanonicalRequest,
        position: Position,
        *,
        number: int,
        owner: Any = None,
    ) -> None:
        self.session = session
        self.boundary = boundary
        self.request = request
        self.position = position
        self.number = number
        self.owner = owner
        self._arrivals: Arrivals | None = None

    @property
    def arrivals(self) -> Arrivals:
        """The arrivals of the call: its chunks, its effects, its end. Most answered calls need none."""
        if self._arrivals is None:
            self._arrivals = Arrivals(self)
        return self._arrivals

    def __str__(self) -> str:
        return f"{self.request.kind} {self.request.name} at {self.position.address}"


WATCHERS: list[Callable[[Any], None]] = []  # called with each call that begins, where it is made
ANSWER_WATCHERS: list[Callable[[Any], None]] = []  # called with each call whose answer has come


def watch_calls(watcher: Callable[[Any], None]) -> None:
    """Call this with each call of this process when it begins, where it is made; `verify` compares them."""
    WATCHERS.append(watcher)


def stop_watching(watcher: Callable[[Any], None]) -> None:
    """Call a function no longer that `watch_calls` was given."""
    WATCHERS.remove(watcher)


def watch_answers(watcher: Callable[[Any], None]) -> None:
    """Call this with each answered call of this process when its answer has come, where it was made.

    For a stream, that's when its reader has reached the end. A call that is cancelled has no answer.
    """
    ANSWER_WATCHERS.append(watcher)


def begun(call: Any) -> None:
    """Show a call that begins to those who watch."""
    for watcher in WATCHERS:
        watcher(call)


def answered(call: Any) -> None:
    """Show a call whose answer has come to those who watch."""
    for watcher in ANSWER_WATCHERS:
        watcher(call)

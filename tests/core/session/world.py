"""What the tests of sessions share: a world that never answers the same, and boundaries in front of it.

The boundaries are what `agenttape_core.integration` tells integration authors to write, in all four shapes.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any

from agenttape_core import Session
from agenttape_core.integration import (
    Boundary,
    Crossing,
    aintercept,
    aintercept_stream,
    current_session,
    intercept,
    intercept_stream,
)

CHAT = Boundary("chat", join="".join, split=lambda text: text.split(" "))


def crossing_for(session: Session, name: str, body: dict[str, Any], boundary: Boundary | str) -> Crossing:
    """Ask a session about a call."""
    return session.cross(boundary if isinstance(boundary, Boundary) else Boundary(boundary), name, body)


def call(name: str, real: Callable[[], Any], boundary: Boundary | str = "tool", **body: Any) -> Any:
    """Make a plain call."""
    session = current_session()
    return real() if session is None else intercept(crossing_for(session, name, body, boundary), real)


async def acall(name: str, real: Callable[[], Awaitable[Any]], boundary: Boundary | str = "tool", **body: Any) -> Any:
    """Make a call of a coroutine."""
    session = current_session()
    if session is None:
        return await real()
    return await aintercept(crossing_for(session, name, body, boundary), real)


def stream(name: str, real: Callable[[], Iterator[Any]], boundary: Boundary | str = CHAT, **body: Any) -> Iterator[Any]:
    """Make a call that streams."""
    session = current_session()
    return real() if session is None else intercept_stream(crossing_for(session, name, body, boundary), real)


def astream(
    name: str, real: Callable[[], AsyncIterator[Any]], boundary: Boundary | str = CHAT, **body: Any
) -> AsyncIterator[Any]:
    """Make a call that streams asynchronously."""
    session = current_session()
    return real() if session is None else aintercept_stream(crossing_for(session, name, body, boundary), real)


class World:
    """What lies outside. Each answer has a number of its own, so an equal one was served."""

    def __init__(self) -> None:
        self.reached: list[str] = []
        self.closed: list[str] = []
        self._lock = threading.Lock()

    def reach(self, what: str) -> str:
        """Really do something."""
        with self._lock:
            self.reached.append(what)
            return f"{what} {len(self.reached)}"

    def tool(self, name: str, **body: Any) -> str:
        """Call a tool."""
        answer: str = call(name, lambda: self.reach(name), **body)
        return answer

    async def atool(self, name: str, **body: Any) -> str:
        """Call an async tool."""

        async def real() -> str:
            return self.reach(name)

        answer: str = await acall(name, real, **body)
        return answer

    def pieces(self, name: str, pieces: Sequence[str], error: BaseException | None = None) -> Iterator[str]:
        """Really stream the pieces, then break if told so; notes how it was left."""
        number = self.reach(name)
        try:
            for piece in pieces:
                yield f"{piece}({number})"
            if error is not None:
                raise error
        finally:
            self.closed.append(name)

    async def apieces(self, name: str, pieces: Sequence[str], error: BaseException | None = None) -> AsyncIterator[str]:
        """Stream likewise, asynchronously."""
        for piece in self.pieces(name, pieces, error):
            yield piece

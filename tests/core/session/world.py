"""What the tests of sessions share: a world that never answers the same, and boundaries in front of it.

The boundaries are what `agenttape_core.integration` tells integration authors to write, in all four shapes.
"""

from __future__ import annotations

import os
import queue
import signal
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from agenttape_core import Session, boundary, open_cassette, use_cassette
from agenttape_core.errors import NetworkBlockedError
from agenttape_core.integration import (
    Boundary,
    SessionCall,
    aintercept,
    aintercept_stream,
    current_session,
    intercept,
    intercept_stream,
)


@boundary("tool")
def look(city: str) -> str:
    """A call that is recorded."""
    return f"{city}!"


T = TypeVar("T")
V = TypeVar("V")


CHAT = Boundary("chat", join="".join, split=lambda text: text.split(" "))


class OlderThread:
    """A thread that is older than the sessions of a test, and does what it is given."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    def begin(self, job: Callable[[], object]) -> None:
        """Let it do something."""
        self._jobs.put(job)

    def result(self, action: Callable[[], T]) -> T:
        """Let it do something, and return what that returns, or raise what it raises."""
        done: Future[T] = Future()
        self.begin(lambda: settle(done, action))
        return done.result()

    def end(self) -> None:
        """End it."""
        self._jobs.put(None)
        self._thread.join()


def settle(done: Future[T], action: Callable[[], T]) -> None:
    """Let a future have what an action returns or raises."""
    try:
        done.set_result(action())
    except BaseException as error:
        done.set_exception(error)


def in_thread(action: Callable[[], T]) -> T:
    """Do something in a bare thread; return what it returns, or raise what it raises."""
    done: Future[T] = Future()
    in_threads(lambda _: settle(done, action), "-")
    return done.result()


def in_threads(one: Callable[[V], object], given: Iterable[V]) -> None:
    """Do something with each of the given values in a bare thread of its own."""
    threads = [threading.Thread(target=one, args=(value,)) for value in given]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@contextmanager
def beside(work: Callable[[], object]) -> Iterator[None]:
    """Let a bare thread work beside what is done inside, and join it at the end."""
    thread = threading.Thread(target=work)
    thread.start()
    yield
    thread.join()


def fork(work: Callable[[], object]) -> int:
    """Fork a child that does something, and return its number.

    It exits with 0, with 2 if that is false, or with 3 if it raises. A session that has failed makes 1 of 0.
    """
    if not (child := os.fork()):
        code = 3
        try:
            signal.alarm(20)  # if it hangs
            code = 0 if work() else 2
        finally:
            os._exit(code)
    return child


def status_of(child: int) -> int:
    """Wait for a child, and return its exit code; the number of a signal, below zero, if that has ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@contextmanager
def refused(match: str, **options: Any) -> Iterator[None]:
    """Replay the cassette `c`: what is done inside is refused in these words, and fails the session."""
    import pytest  # not in each process that a test starts

    with pytest.raises(NetworkBlockedError, match=match), use_cassette("c", on_unused="ignore", **options):
        yield


def session_call_for(session: Session, name: str, body: dict[str, Any], boundary: Boundary | str) -> SessionCall:
    """Ask a session about a call."""
    return session.cross(boundary if isinstance(boundary, Boundary) else Boundary(boundary), name, body)


def call(name: str, real: Callable[[], Any], boundary: Boundary | str = "tool", **body: Any) -> Any:
    """Make a plain call."""
    session = current_session()
    return real() if session is None else intercept(session_call_for(session, name, body, boundary), real)


async def acall(name: str, real: Callable[[], Awaitable[Any]], boundary: Boundary | str = "tool", **body: Any) -> Any:
    """Make a call of a coroutine."""
    session = current_session()
    if session is None:
        return await real()
    return await aintercept(session_call_for(session, name, body, boundary), real)


def stream(name: str, real: Callable[[], Iterator[Any]], boundary: Boundary | str = CHAT, **body: Any) -> Iterator[Any]:
    """Make a call that streams."""
    session = current_session()
    return real() if session is None else intercept_stream(session_call_for(session, name, body, boundary), real)


def astream(
    name: str, real: Callable[[], AsyncIterator[Any]], boundary: Boundary | str = CHAT, **body: Any
) -> AsyncIterator[Any]:
    """Make a call that streams asynchronously."""
    session = current_session()
    return real() if session is None else aintercept_stream(session_call_for(session, name, body, boundary), real)


class World:
    """What lies outside. Each answer has a number of its own, so an equal one was replayed."""

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


CASSETTE = Path("cassettes/c.yaml")


def record(world: World, *names: str, **options: Any) -> bytes:
    """Record calls of some tools, and return the file."""
    with use_cassette("c", mode="all", **options):
        for name in names:
            world.tool(name, tool=name)
    return CASSETTE.read_bytes()


def ask(world: World, *names: str) -> list[str]:
    """Call some tools."""
    return [world.tool(name, tool=name) for name in names]


def entries(path: Path = CASSETTE) -> list[str]:
    """Return what a cassette holds, by name."""
    return [entry.name for entry in open_cassette(path).entries]


def files() -> list[str]:
    """Return the names of all files beside the cassette but locks."""
    return sorted(path.name for path in Path("cassettes").glob("*") if not path.name.endswith(".lock"))


def is_unlocked() -> bool:
    """Whether the cassette can be recorded to: no earlier session has left its lock."""
    with use_cassette("c", mode="new_episodes", on_unused="ignore"):
        return True


def reaches_out() -> bool:
    """Whether a socket can be connected: no guard is left."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        return True

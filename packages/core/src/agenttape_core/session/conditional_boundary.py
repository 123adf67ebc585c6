"""Calls of the program's own components, which are boundaries only if they reach outside themselves.

An engine, a transformation or an evaluator mostly works by other components, and a replay runs it. A component that a
user has written may call a service directly instead. That can't be known in advance, so its calls are watched while
they are recorded. One that reaches outside is recorded, and replayed on replay, like every other call of its class from
then on. A component that doesn't is part of the program, and isn't recorded.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any

from agenttape_core.errors import UnrecordableValueError
from agenttape_core.locks import Lock
from agenttape_core.matching import task_branch
from agenttape_core.schema import Plain
from agenttape_core.session.boundary import Boundary
from agenttape_core.session.executed_call import WATCHED, ExecutedCall, executing
from agenttape_core.session.intercept import Ended, awaited
from agenttape_core.session.positions import below
from agenttape_core.session.report import CallRecord
from agenttape_core.session.session import Session
from agenttape_core.session.session_call import SessionCall
from agenttape_core.session.slot import Slot
from agenttape_core.side_effects import UnwatchedCode

_DONE = object()
_RAN = "ran"
"""The key of the metadata of a recorded call: the fingerprints of those calls of its class that were not recorded."""


class _Calls:
    """The calls of components of one name in one session."""

    def __init__(self, session: Session, kind: str, name: str) -> None:
        self.reach_outside = False  # true once one of them has been recorded in this run
        self.ran: list[str] = []  # the fingerprints of those before it
        rows = [row for row in session.source.entries if row.kind == kind and row.name == name]
        self.are_recorded = bool(rows)  # true if the cassette holds recordings of some
        metadata = (session.source.interaction(row.number).metadata for row in rows)
        self.are_program = {fingerprint for each in metadata for fingerprint in each.get(_RAN) or ()}
        """The fingerprints of those that ran beside the recorded ones."""


_CALLS: Slot[dict[tuple[str, str], _Calls]] = Slot(lambda _: {})


class ProgramCall:
    """A call of a component that runs, and is watched.

    Args:
        session_call: The call that is recorded if it reaches outside.
        calls: Those of its name.
        keeps_idle: Whether to record it even if it made no recorded calls, because the user has taped the object.
    """

    def __init__(self, session_call: ExecutedCall, calls: _Calls, *, keeps_idle: bool) -> None:
        self._session_call = session_call
        self._calls = calls
        self._keeps_idle = keeps_idle

    def awaiting(self) -> AbstractAsyncContextManager[None]:
        """Await the code inside, at its place among all that its event loop waits for."""
        return awaited(self._session_call, unless=lambda: not self._reaches_outside())

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the code of the component inside. Time, ids and the order of calls follow the program."""
        try:
            with self.watched():
                yield
        except Exception as error:
            if self._is_kept():
                self._counted().raised(error)
            raise

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch the code inside, on behalf of this call."""
        before = WATCHED.get()
        WATCHED.set(self._session_call)
        try:
            yield
        finally:
            WATCHED.set(before)

    def returned(self, value: Any) -> None:
        """Record the value if the component has reached outside."""
        if not self._is_kept():
            return
        try:
            self._session_call.session.codec.encode(value)
        except UnrecordableValueError:
            self._report()
            return
        self._counted().returned(value)

    def _report(self) -> None:
        """Report its connections: it cannot be recorded."""
        session = self._session_call.session
        for each in self._session_call.side_effects.ended(None, UnwatchedCode(), is_automatic=session.auto):
            session.report.add_uncovered(f"{each.what} at {each.at}")

    def streamed(self, head: Any, stream: Iterator[Any]) -> Iterator[Any]:
        """Return the stream that the component has returned; it is recorded when it ends, if it has reached outside.

        Args:
            head: What else it has returned; it is recorded as the first chunk.
            stream: The stream, which is read in the world of the program.
        """
        return _read(stream, _Stream(self, self._session_call, head))

    def astreamed(self, head: Any, stream: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Like `streamed`, for an async stream."""
        return _aread(stream, _Stream(self, self._session_call, head))

    def ended(self, chunks: Sequence[Plain] | None, how: Ended, error: Exception | None) -> None:
        """Record a stream that has ended, if it has reached outside.

        Args:
            chunks: The chunks; `None` if one cannot be recorded.
            how: How it has ended.
            error: The error that broke it.
        """
        if not self._is_kept():
            return
        if chunks is None:
            self._report()
        else:
            self._counted().streamed(chunks, how, error)

    def _is_kept(self) -> bool:
        session_call, calls = self._session_call, self._calls
        if not self._reaches_outside():
            session_call.ran()
            calls.ran.append(session_call.request.fingerprint)
            return False
        return True

    def _reaches_outside(self) -> bool:
        is_idle = self._keeps_idle and not self._session_call.has_made_calls
        return bool(self._calls.reach_outside or self._session_call.side_effects or is_idle)

    def _counted(self) -> ExecutedCall:
        session_call, calls = self._session_call, self._calls
        calls.reach_outside = True
        if calls.ran:
            session_call.metadata = {**session_call.metadata, _RAN: sorted({*calls.ran})}
        request, address = session_call.request, session_call.position.address
        session_call.session.report.add(executed=CallRecord(request.kind, request.name, address, session_call.number))
        return session_call


class _Stream:
    """The chunks of a stream so far: recorded once, when it ends, or when the session does."""

    def __init__(self, call: ProgramCall, session_call: ExecutedCall, head: Any) -> None:
        self._call = call
        self._session_call = session_call
        self._chunks: list[Plain] | None = []
        self._is_open = True
        self._lock = Lock()
        self.arrived(head)
        session_call.session.watch(self.close)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Run a step of the stream inside."""
        try:
            with self._call.watched():
                yield
        except Exception as error:
            self._end("raised", error)
            raise

    def arrived(self, chunk: Any) -> None:
        """Keep a chunk before its reader can change it."""
        self._session_call.chunk_arrived()
        try:
            if self._chunks is not None:
                self._chunks.append(self._session_call.session.codec.encode(chunk))
        except UnrecordableValueError:
            self._chunks = None

    def exhaust(self) -> None:
        """Note that the stream has ended."""
        self._end("exhausted")

    def close(self) -> None:
        """Note that the reader stopped, or that the session ended before the reader continued."""
        self._end("closed")

    def _end(self, how: Ended, error: Exception | None = None) -> None:
        with self._lock:
            was_open, self._is_open = self._is_open, False
        if was_open:
            self._session_call.session.unwatch(self.close)
            self._call.ended(self._chunks, how, error)


def _read(chunks: Iterator[Any], stream: _Stream) -> Iterator[Any]:
    try:
        while True:
            with stream.reading():
                chunk = next(chunks, _DONE)
            if chunk is _DONE:
                stream.exhaust()
                return
            stream.arrived(chunk)
            yield chunk
    finally:
        stream.close()
        if (close := getattr(chunks, "close", None)) is not None:
            close()


async def _aread(chunks: AsyncIterator[Any], stream: _Stream) -> AsyncIterator[Any]:
    try:
        while True:
            with stream.reading():
                chunk = await anext(chunks, _DONE)
            if chunk is _DONE:
                stream.exhaust()
                return
            stream.arrived(chunk)
            yield chunk
    finally:
        stream.close()
        if (close := getattr(chunks, "aclose", None)) is not None:
            await close()


def program_call(
    session: Session,
    boundary: Boundary,
    name: str,
    body: Callable[[], Mapping[str, Any]],
    *,
    owner: Any,
    code: Any,
    is_taped: bool,
) -> SessionCall | ProgramCall | None:
    """Begin a call of a component of the program: one that is replayed, or that runs and is watched.

    Args:
        session: The session in force.
        boundary: The family of the call.
        name: The name of the boundary.
        body: Makes the request.
        owner: The state of the object that is called.
        code: The object.
        is_taped: Whether the user has taped it.

    Returns:
        `None` if the call is part of another one, or only runs the program's code.

    Raises:
        CassetteMissError: If calls with this name are replayed, and this one has no recording.
    """
    around = WATCHED.get()
    if executing() is not None or (around is not None and around.owner is owner and not around.has_ended):
        return None
    known, kind = session.extension(_CALLS), boundary.kind
    calls = known.get((kind, name)) or known.setdefault((kind, name), _Calls(session, kind, name))
    if calls.are_recorded and session.policy.may_replay(kind, name):
        request = body()
        if calls.are_program and session.canonical.request(kind, "", request).fingerprint in calls.are_program:
            return None
        return session.cross(boundary, name, request, position=below(session, name), owner=owner)
    if not session.policy.records or session.policy.is_live(kind, name):
        return None
    try:
        asked = session.canonical.request(kind, name, body(), (), ())
    except UnrecordableValueError:
        return None
    position = below(session, name) or session.root.child(name, branch=task_branch(session.root))
    number = session.ledger.next_number()
    session_call = ExecutedCall(session, boundary, asked, position, number=number, owner=owner)
    session_call.code = code
    return ProgramCall(session_call, calls, keeps_idle=is_taped)

"""The call of an HTTP request, whichever client sends it: where it belongs, and its stream of head and body."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from agenttape_core.integration import (
    Boundary,
    Session,
    SessionCall,
    aintercept_stream,
    below,
    current_session,
    intercept_stream,
)
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import Plain
from agenttape_core.session.candidates import model_over_http
from agenttape_core.session.context import is_passed_on
from agenttape_core.transports.bodies import BodyReader, BodyWriter
from agenttape_core.transports.requests import ASKED_HEADERS, Destination, Request, joined
from agenttape_core.transports.responses import Head

HTTP = Boundary("http")
Name = TypeVar("Name", str, bytes)
_OF_BODY = frozenset({"content-encoding", "content-length", "transfer-encoding"})
_COVERING = frozenset({"chat", "completion", "embeddings", "retrieval", "memory", "http"})
"""The kinds of boundaries whose requests are their own affair. A tool, a node or a call is code that makes requests."""


def automatic_session(destination: Destination, headers: Mapping[str, str]) -> Session | None:
    """Return the session that a request of a client belongs to which the user did not tape; `None` if it is passed on.

    It is passed on below a boundary that itself records the request to a service, or in `passing_on`, to hosts that the
    session leaves alone, and if it opens a WebSocket, which isn't an exchange of a request and a response. `headers`
    are by their names in lower case.
    """
    session = current_session()
    if (
        session is None
        or not session.tapes_http(destination.host, destination.real_port)
        or "upgrade" in headers
        or is_passed_on()
    ):
        return None
    around = session.around()
    return None if around is not None and around.boundary.kind in _COVERING else session


def session_call_of(session: Session, request: Request, names: tuple[str, ...] = ASKED_HEADERS) -> SessionCall:
    """Begin a request with the headers `names`. Raises `CassetteMissError` if it's unrecorded, and may not be sent."""
    host = request.destination.host
    return session.cross(HTTP, host, request.question(names), position=below(session, host))


class Exchange(NamedTuple):
    """A response that has begun."""

    head: Head
    body: Any  # its body, replayed or recorded while it is read


def exchange(
    session: Session, request: Request, session_call: SessionCall, send: Callable[[bytes | None], Iterator[Plain]]
) -> Exchange:
    """Replay a request, or send and record it; return its response as soon as the head is there.

    `send` really sends it, and yields the chunks of the response, as `chunks_of` makes them. It gets a body that asks
    another model, to send instead of the program's; `None` to send the program's.
    """
    chunks = intercept_stream(session_call, lambda: send(_with_model(session_call, request)))
    head = _head(session, next(chunks, None))
    return Exchange(head, Body(chunks, _reader(request, head)))


async def aexchange(
    session: Session, request: Request, session_call: SessionCall, send: Callable[[bytes | None], AsyncIterator[Plain]]
) -> Exchange:
    """Like `exchange`, for an async client."""
    chunks = aintercept_stream(session_call, lambda: send(_with_model(session_call, request)))
    head = _head(session, await anext(chunks, None))
    return Exchange(head, AsyncBody(chunks, _reader(request, head)))


def _with_model(session_call: SessionCall, request: Request) -> bytes | None:
    """Return the body of a request to the candidate of a call; `None` without a candidate."""
    model = model_over_http(session_call)
    return json.dumps({**json.loads(request.content), "model": model}).encode() if model else None


def resized(headers: Iterable[tuple[Name, Name]]) -> list[tuple[Name, Name]]:
    """Return the headers of a request without those that describe the bytes of its body."""
    return [(name, value) for name, value in headers if next(iter(joined([(name, "")]))) not in _OF_BODY]


def _head(session: Session, first: Plain) -> Head:
    with session.latch:
        return Head.read(first)


def _reader(request: Request, head: Head) -> BodyReader:
    return BodyReader(head.content_type, None if request.method == "HEAD" else head.length)


def chunks_of(head: Head, pieces: Iterable[bytes]) -> Generator[Plain, None, None]:
    """Yield the chunks of a real response, read from pieces without a content encoding if the head has none."""
    yield head.chunk()
    body = BodyWriter(head.content_type)
    for data in pieces:
        yield body.chunk(data)
        if body.is_over:
            break


async def achunks_of(head: Head, pieces: AsyncIterator[bytes]) -> AsyncGenerator[Plain, None]:
    """Like `chunks_of`, for an async client."""
    yield head.chunk()
    body = BodyWriter(head.content_type)
    async for data in pieces:
        yield body.chunk(data)
        if body.is_over:
            break


class Body:
    """The body of a response, replayed or recorded while it is read: an iterator of its pieces.

    `chunks` are those that are left of the response; `reader` makes bytes of them.
    """

    def __init__(self, chunks: Any, reader: BodyReader) -> None:
        self._chunks = chunks
        self._reader = reader

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return self._reader.data(next(self._chunks))

    def close(self) -> None:
        """End the recording; the unread rest is not part of it."""
        if self._reader.is_over:
            next(self._chunks, None)  # so it is recorded as read to its end
        self._chunks.close()


class AsyncBody:
    """Like `Body`, of an async client."""

    def __init__(self, chunks: Any, reader: BodyReader) -> None:
        self._chunks = chunks
        self._reader = reader

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        return self._reader.data(await anext(self._chunks))

    @property
    def is_over(self) -> bool:
        """True once no more is to come."""
        return self._reader.is_over

    async def aclose(self) -> None:
        """End the recording; the unread rest is not part of it."""
        if self._reader.is_over:
            await anext(self._chunks, None)  # so it is recorded as read to its end
        await self._chunks.aclose()

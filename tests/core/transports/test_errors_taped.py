"""Failures of HTTP: each is recorded as what it is, and raised again as the client's own."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest

from agenttape_core import use_cassette

from .faces import FACES, Face, face_id, settled
from .service import Service


class Failing(NamedTuple):
    """A request that fails.

    Args:
        target: The path, or a whole URL.
        error: The name of the error in the client.
        pieces: What of the body is read before.
        options: How it is sent.
    """

    target: str
    error: str
    pieces: tuple[bytes, ...] = ()
    options: dict[str, Any] = {}  # noqa: RUF012 - it is only read


@pytest.mark.parametrize(
    "failing",
    [
        Failing("REFUSED", "ConnectError"),
        Failing("/slow", "ReadTimeout", options={"timeout": 0.05}),
        Failing("/slow-stream", "ReadTimeout", (b"early",), {"timeout": 0.3}),  # longer than a busy machine takes
        Failing("/broken", "RemoteProtocolError", (b"as far", b" as this")),
        Failing("/broken-gzip", "DecodingError"),
        Failing("ftp://127.0.0.1/file", "UnsupportedProtocol"),
    ],
    ids=lambda failing: failing.target,
)
async def test_raised_again(face: Face, service: Service, failing: Failing) -> None:
    """A failure is raised again with its type, message and the pieces before it; its request is the live one."""

    async def fail(face: Face, client: Any, url: str, failing: Failing) -> tuple[list[bytes], str, str, Any]:
        """Send what fails; return the pieces that came before, the error, and its request."""
        got: list[bytes] = []
        with pytest.raises(getattr(face.module, failing.error)) as caught:
            async with face.stream(client, "POST", url, content=b"sent", **failing.options) as response:
                async for piece in face.pieces(response, "bytes"):
                    got.append(piece)  # noqa: PERF401 - what came before the error is kept
        error: Any = caught.value
        assert type(error) is getattr(face.module, failing.error)
        return got, str(error), repr(error.args), error.request

    def closed_port() -> int:
        """Return a port on which nobody listens."""
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))
            port: int = bound.getsockname()[1]
            return port

    url = failing.target if "://" in failing.target else service.url + failing.target
    if failing.target == "REFUSED":
        url = f"http://127.0.0.1:{closed_port()}/"
    with use_cassette("c", mode="once") as session:
        async with face.client() as client:
            *recorded, _ = await fail(face, client, url, failing)
    (interaction,) = session.interactions
    assert (interaction.outcome.status, interaction.outcome.ended) == ("streamed", "raised")
    service.stop()
    with use_cassette("c"):
        async with face.client(face.no_network(), headers=()) as client:
            *replayed, request = await fail(face, client, url, failing)
    assert replayed == recorded == [list(failing.pieces), *recorded[1:]]
    assert request.url == url
    assert request.content == b"sent"


@pytest.mark.parametrize("status", [404, 503])
async def test_error_statuses_are_answers(face: Face, service: Service, status: int) -> None:
    """A status of 4xx or 5xx is a response, of which the client makes its own error."""
    path = {404: "/missing", 503: "/failing"}[status]
    for mode in ("once", "none"):
        with use_cassette("c", mode=mode) as session:
            async with face.client() as client:
                response = await settled(client.get(service.url + path))
                with pytest.raises(face.module.HTTPStatusError, match=str(status)) as caught:
                    response.raise_for_status()
        assert caught.value.response.content == response.content != b""
        assert [interaction.outcome.ended for interaction in session.interactions] == ["exhausted"]
        service.stop()


async def test_upload_that_fails(face: Face, service: Service) -> None:
    """An error of the program's own upload passes, and nothing is recorded: nothing was asked."""

    async def _as_async(pieces: Any) -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    def pieces() -> Any:
        yield b"one"
        raise ZeroDivisionError

    with use_cassette("c", mode="once") as session:
        async with face.client() as client:
            content = _as_async(pieces()) if face.is_async else pieces()
            with pytest.raises(ZeroDivisionError):
                await settled(client.post(service.url + "/echo", content=content))
        assert session.interactions == []
    assert service.asked == []


@pytest.mark.parametrize("face", [face for face in FACES if face.is_async], ids=face_id)
async def test_cancelled(face: Face) -> None:
    """A response whose reader is cancelled is kept so far, and its connection is given back."""
    waiting, given_back = asyncio.Event(), asyncio.Event()

    class Waiting(face.module.AsyncByteStream):  # type: ignore[misc, name-defined]
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b"early"
            waiting.set()
            await asyncio.Event().wait()

        async def aclose(self) -> None:
            given_back.set()

    inner = face.module.MockTransport(lambda _: face.module.Response(200, stream=Waiting()))
    with use_cassette("c", mode="once") as session:
        async with face.client(inner) as client:
            reading = asyncio.create_task(client.get("http://service.test/"))
            await waiting.wait()
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
        assert given_back.is_set()
        (cut,) = session.interactions
        assert (cut.outcome.status, len(cut.outcome.chunks or ())) == ("cancelled", 2)

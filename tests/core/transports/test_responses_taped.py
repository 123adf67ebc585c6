"""Responses: what a client gets is the same untaped, recorded and replayed, however it reads, to the last byte."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agenttape_core import use_cassette
from agenttape_core.errors import CassetteMissError, UnreadableValueError
from agenttape_core.integration import value_codec
from agenttape_core.transports.bodies import BodyReader, BodyWriter

from .faces import WAYS, Face, settled
from .service import ANSWERS, SSE, Answer, Service

READABLE = [path for path, answer in ANSWERS.items() if not (answer.cut or answer.waits or path == "/broken-gzip")]
STREAMED = ("/chunked", "/sse", "/split", "/gzip", "/gzip-empty", "/latin")
DECOMPRESSED = ("/gzip", "/gzip-empty")
DROPPED = (b"content-encoding", b"content-length")


async def observe(face: Face, client: Any, url: str, way: str, method: str = "GET") -> dict[str, Any]:
    """Return all that a client sees of a response."""
    async with face.stream(client, method, url) as response:
        body = await face.read(response, way)
    seen = {"body": body, "status": response.status_code, "headers": response.headers.raw, "url": str(response.url)}
    if way == "read":
        seen |= {"text": response.text, "encoding": response.encoding, "cookies": dict(response.cookies)}
    more = {"reason": response.reason_phrase, "version": response.http_version, "success": response.is_success}
    return seen | more | {"elapsed": response.elapsed is not None, "charset": response.charset_encoding}


@pytest.mark.slow
async def test_same_as_untaped(face: Face, service: Service) -> None:
    """A taped client sees what an untaped one does, and a replay without any network gives it again."""

    async def observe_all(face: Face, client: Any, service: Service) -> dict[tuple[str, str], dict[str, Any]]:
        """Read every answer in each way that may differ."""
        return {
            (path, way): await observe(face, client, service.url + path, way)
            for path in READABLE
            for way in (WAYS if path in STREAMED else ("read", "raw"))
        }

    async with face.untaped(face.real()) as client:
        untaped = await observe_all(face, client, service)
    with use_cassette("c", mode="once", redact=False):
        async with face.client() as client:
            recorded = await observe_all(face, client, service)
    service.stop()
    with use_cassette("c", redact=False):
        async with face.client(face.no_network()) as client:
            replayed = await observe_all(face, client, service)
    assert replayed == recorded
    for path in DECOMPRESSED:
        untaped[path, "raw"]["body"] = untaped[path, "bytes"]["body"]
    for (path, _), seen in untaped.items():
        if path in DECOMPRESSED:
            seen["headers"] = [pair for pair in seen["headers"] if pair[0].lower() not in DROPPED]
    assert recorded == untaped


async def test_head_keeps_the_headers_of_the_body(face: Face, service: Service) -> None:
    """The answer to HEAD tells how long the body is that GET would have, and how it is encoded."""
    for mode in ("once", "none"):
        with use_cassette("c", mode=mode):
            async with face.client() as client:
                response = await settled(client.head(service.url + "/gzip"))
        assert response.headers["content-length"] == str(len(ANSWERS["/gzip"].body))
        assert response.headers["content-encoding"] == "gzip"
        assert response.content == b""


async def test_what_the_file_holds(face: Face, service: Service) -> None:
    """A response is its head and a chunk for each piece that arrived: readable text, also of compressed bodies."""
    with use_cassette("c", mode="once") as session:
        async with face.client() as client:
            for path in ("/sse", "/gzip", "/split", "/binary", "/latin"):
                await settled(client.get(service.url + path))
    (head, *sse), (_, *unzipped), (_, *split), (_, *binary), (_, *latin) = [
        i.outcome.chunks for i in session.interactions
    ]
    assert head == {
        "status": 200,
        "http_version": "HTTP/1.1",
        "reason_phrase": "OK",
        "headers": [{"Content-Type": "text/event-stream"}, {"Transfer-Encoding": "chunked"}, {"Connection": "close"}],
    }
    assert sse == [{"text": "data: one\n\n"}, {"text": "data: two\n"}, {"text": "\ndata: [DONE]\n\n"}]
    assert unzipped == [{"text": '{"zipped": "text"}'}]
    assert [chunk["text"] for chunk in split] == ["caf", "é ", "", "€", " "]
    assert [set(chunk) for chunk in binary] == [{"bytes"}]
    assert latin == [{"text": "Zürich"}]
    assert {i.outcome.status for i in session.interactions} == {"streamed"}


async def test_closed_early(face: Face, service: Service) -> None:
    """A response closed early is recorded as that: a replay gives as much, and reading on is a miss."""

    async def first(client: Any, *, more: bool) -> Any:
        async with face.stream(client, "GET", service.url + "/chunked") as response:
            pieces = face.pieces(response, "raw")
            got = await anext(pieces)
            return [got, await anext(pieces)] if more else [got]

    with use_cassette("c", mode="once") as session:
        async with face.client() as client:
            assert await first(client, more=False) == [b"one "]
    assert session.interactions[0].outcome.ended == "closed"
    with use_cassette("c"):
        async with face.client(face.no_network()) as client:
            assert await first(client, more=False) == [b"one "]
    with pytest.raises(CassetteMissError, match="closed by its reader"), use_cassette("c"):
        async with face.client(face.no_network()) as client:
            await first(client, more=True)


@pytest.mark.slow
async def test_the_end_of_events(face: Face, service: Service) -> None:
    """The event `[DONE]` ends a stream: it is recorded as whole, whether its reader stops there or waits for more."""
    ending = b"data: one\n\ndata: [DONE]\r\n\r\n"
    service.answers["/open"] = Answer([ending, b"not waited for"], SSE, waits=True)

    async def stop(client: Any) -> None:
        async with face.stream(client, "GET", service.url + "/open") as response:
            assert await anext(face.pieces(response, "raw")) == ending

    async def wait(client: Any) -> None:
        assert (await settled(client.get(service.url + "/open"))).content == ending

    with use_cassette("c", mode="once") as session:
        async with face.client() as client:
            await stop(client)
            await wait(client)
    assert [item.outcome.ended for item in session.interactions] == ["exhausted"] * 2
    with use_cassette("c"):
        async with face.client(face.no_network()) as client:
            await wait(client)
            await stop(client)


async def test_never_read(face: Face, service: Service) -> None:
    """A response of which only the head was looked at needs no body on replay either."""
    for mode in ("once", "none"):
        with use_cassette("c", mode=mode):
            async with face.client() as client, face.stream(client, "GET", service.url + "/binary") as response:
                assert response.headers["content-type"] == "image/png"
        service.stop()


async def test_read_later(face: Face, service: Service) -> None:
    """A response may be sent for now and read when others have been read."""
    for mode in ("once", "none"):
        with use_cassette("c", mode=mode):
            async with face.client() as client:
                requests = [client.build_request("GET", service.url + path) for path in ("/json", "/plain")]
                early, late = [await settled(client.send(request, stream=True)) for request in requests]
                assert [await face.read(late, "read"), await face.read(early, "read")] == [
                    ANSWERS["/plain"].body,
                    ANSWERS["/json"].body,
                ]
        service.stop()


async def test_open_when_the_session_ends(face: Face, service: Service) -> None:
    """What is still being read when the session ends is recorded as far as it was read."""
    async with face.client() as client:
        with use_cassette("c", mode="once") as session:
            request = client.build_request("GET", service.url + "/chunked")
            response = await settled(client.send(request, stream=True))
            pieces = face.pieces(response, "raw")
            assert await anext(pieces) == b"one "
        assert [piece async for piece in pieces] == [b"two ", b"three"]
    (interaction,) = session.interactions
    assert (interaction.outcome.ended, len(interaction.outcome.chunks or ())) == ("closed", 2)


@pytest.mark.parametrize(
    ("old", "new"),
    [("status: 200", "state: 200"), ("- Content-Type:", "- - Content-Type:"), ("text: plain", "tex: plain")],
)
async def test_edited_by_hand(face: Face, service: Service, old: str, new: str) -> None:
    """A chunk that is no longer what a response is made of gives an error of ours."""
    with use_cassette("c", mode="once") as session:
        async with face.client() as client:
            await settled(client.get(service.url + "/plain"))
    session.path.write_text(session.path.read_text().replace(old, new))
    with pytest.raises(UnreadableValueError, match="of an HTTP"), use_cassette("c"):
        async with face.client(face.no_network()) as client:
            await settled(client.get(service.url + "/plain"))


CONTENT_TYPES = [
    "",
    "application/json",
    "application/octet-stream",
    "text/event-stream; charset=utf-8",
    "text/html; charset=ISO-8859-1",
    "text/html;charset='windows-1252'",
    'text/plain; charset="cp1252"',
    "text/plain; charset=utf-16",
    "text/plain; charset=no-such",
    "application/vnd.api+json",
]


def written(content_type: str, pieces: list[bytes]) -> list[Any]:
    """Return the chunks of a body as a cassette holds them."""
    writer = BodyWriter(content_type)
    return [value_codec().encode(writer.chunk(piece)) for piece in pieces]


@given(st.sampled_from(CONTENT_TYPES), st.lists(st.binary(max_size=12), max_size=6))
@example("", [b"\xc3", b"\xa9"])
@example("text/plain", [b"\xe2", b"\x82", b"\xff\xac", b"\xe2"])
def test_round_trip(content_type: str, pieces: list[bytes]) -> None:
    """Any bytes of any type come back in the same pieces."""
    reader = BodyReader(content_type)
    assert [reader.data(value_codec().decode(chunk)) for chunk in written(content_type, pieces)] == pieces


@given(st.text(st.characters(exclude_categories=["Cs"])), st.lists(st.integers(min_value=0, max_value=40)))
@example("é€😀", [1, 3, 4, 6, 7, 8])
def test_text_is_whole(text: str, cuts: list[int]) -> None:
    """Wherever UTF-8 is cut, its chunks hold the text, so a secret in it can be found."""
    data = text.encode()
    borders = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [data[start:end] for start, end in pairwise(borders)]
    assert "".join(chunk["text"] for chunk in written("text/event-stream", pieces)) == text


def test_kept_as_bytes() -> None:
    """What is no text stays as it is, also where nobody says what it is."""
    assert [set(chunk) for chunk in written("image/png", [b"abc", b"\xff"])] == [{"bytes"}] * 2
    assert [set(chunk) for chunk in written("", [b"\xff\x00", b"abc"])] == [{"bytes"}] * 2
    assert [set(chunk) for chunk in written("", [b"abc", b"def"])] == [{"text"}] * 2


def test_a_pseudonym_in_the_place_of_a_split_character() -> None:
    """Where a secret with a split character was replaced, the rest of the body is still read in its pieces."""
    first, second, third = written("text/plain", [b"I am Zo\xc3", b"\xab ", b"!"])
    first["text"], second["text"] = "I am [REDACTED:person:0badcafe]", " "
    reader = BodyReader("text/plain")
    data = b"".join(reader.data(value_codec().decode(chunk)) for chunk in (first, second, third))
    assert data.decode(errors="replace") == "I am [REDACTED:person:0badcafe]\ufffd !"

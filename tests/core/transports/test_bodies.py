"""Bodies as chunks: no byte is lost, every border is kept, and text is text."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from agenttape_core.integration import value_codec
from agenttape_core.transports.bodies import BodyReader, BodyWriter

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

r"""A checkout may end the lines with \r\n: a cassette is the same to the last value then."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttape_core import boundary, use_cassette
from agenttape_core.errors import CassetteFormatError
from agenttape_core.schema import Header, Interaction, Outcome, Timing, Volatile
from agenttape_core.storage import Cassette, convert, open_cassette, write_cassette
from agenttape_core.storage.cassette import layout_of

MakeInteraction = Callable[..., Interaction]
SUFFIXES = pytest.mark.parametrize("suffix", [".yaml", ".jsonl"])
TEXTS = [
    "two\nlines",
    "two\r\nlines",
    "a\rb",
    "ends with CR\r",
    "\r\n",
    "\n\n",
    "  indented\n\n  text\r\n\r\n",
    'with "quotes"\r\nand \\r\\n',
    "---\n...\n",
    "trailing blank \nline",
]


def other_ends(data: bytes) -> bytes:
    """What git makes of a file on Windows."""
    return data.replace(b"\n", b"\r\n")


def mixed_ends(data: bytes) -> bytes:
    """What an editor and a merge make of it: every third line ends otherwise."""
    ends = itertools.cycle((b"\n", b"\n", b"\r\n"))
    return b"".join(line + next(ends) for line in data.split(b"\n")[:-1])


@SUFFIXES
@pytest.mark.parametrize("change", [other_ends, mixed_ends])
def test_a_cassette_is_the_same_whatever_ends_its_lines(
    tmp_path: Path, make: MakeInteraction, suffix: str, change: Callable[[bytes], bytes]
) -> None:
    """Header, timings, index, parts and whole records are equal, and texts keep the ends of lines of their own."""
    timings = {1: Timing(duration_ms=1.5), 2: Timing(duration_ms=2.0, offsets_ms=[1.0])}
    header = Header(name="tape", input=TEXTS, volatile=Volatile(created="2026-01-02T03:04:05Z", timings=timings))
    ids = ["0" * 32]
    streamed = Outcome(status="streamed", chunks=TEXTS, ended="closed")
    interactions = [
        make(1, request={"messages": TEXTS[:4]}, outcome=Outcome(status="returned", value=TEXTS), ids=ids),
        make(2, request={"messages": TEXTS}, outcome=streamed, parent=1),
    ]
    path = tmp_path / f"tape{suffix}"
    write_cassette(path, header, interactions)
    before = open_cassette(path)
    whole = path.read_bytes()

    path.write_bytes(change(whole))

    after = open_cassette(path)
    assert after.header == header == before.header
    assert after.entries == before.entries
    assert list(after.interactions()) == interactions
    assert [after.outcome(n) for n in (1, 2)] == [item.outcome for item in interactions]
    assert [after.ids(n) for n in (1, 2)] == [ids, []]
    convert(path, tmp_path / f"again{suffix}")
    assert (tmp_path / f"again{suffix}").read_bytes() == whole


@given(
    text=st.text(st.sampled_from("\r\n a:-|\"\\'#\t\u2028\x85"), max_size=12), suffix=st.sampled_from(["yaml", "jsonl"])
)
def test_no_text_is_changed_by_the_ends_of_the_lines_around_it(text: str, suffix: str) -> None:
    """Whatever combination of returns, newlines and what means something in YAML or JSON a text is made of."""
    outcome = {"status": "returned", "value": {"text": text, text: [text]}}
    head = {"interaction": 1, "kind": "call", "name": text, "address": "a", "fingerprint": "f"}
    records = [{**head, "request": {"t": text}, "outcome": outcome}]
    data = b"".join(layout_of(suffix).dump({"agenttape": 1, "name": text}, records))

    for change in (other_ends, mixed_ends):
        cassette = Cassette(Path(f"x.{suffix}"), change(data))
        assert (cassette.header.name, cassette.entries[0].name) == (text, text)
        assert cassette.outcome(1).value == outcome["value"]
        assert cassette.interaction(1).request == {"t": text}


@SUFFIXES
def test_it_replays_and_grows(tmp_path: Path, suffix: str) -> None:
    """Such a cassette is replayed, and what a session adds to it is written with one kind of line ends."""
    asked: list[Any] = []

    @boundary("tool")
    def ask(text: str) -> str:
        asked.append(text)
        return f"{text}!\r\nand\nmore"

    path = tmp_path / f"tape{suffix}"
    with use_cassette(path, mode="once"):
        answers = [ask(text) for text in TEXTS]
    path.write_bytes(other_ends(path.read_bytes()))

    with use_cassette(path):
        assert [ask(text) for text in TEXTS] == answers
    with use_cassette(path, mode="new_episodes"):
        assert [ask(text) for text in TEXTS] == answers
        ask("new")
    assert asked == [*TEXTS, "new"]
    assert b"\r" not in path.read_bytes()


def test_an_asset_that_was_converted_is_told(tmp_path: Path) -> None:
    """Assets are kept to the byte; the error of one whose line ends were changed says how that comes."""

    @boundary("tool")
    def page() -> bytes:
        return b"%PDF-1.4\n" + b"a line of text\n" * 2_000

    path = tmp_path / "tape.yaml"
    with use_cassette(path, mode="once"):
        page()
    (asset,) = (tmp_path / "tape.yaml.assets").iterdir()
    asset.write_bytes(other_ends(asset.read_bytes()))

    with pytest.raises(CassetteFormatError, match=r"\*\.assets/\*\* binary"), use_cassette(path):
        page()


def test_spaces_in_the_last_line(tmp_path: Path, make: MakeInteraction) -> None:
    """Another program may write the line that ends a file of JSON lines with spaces."""
    path = tmp_path / "tape.jsonl"
    write_cassette(path, Header(name="tape"), [make(1)])
    path.write_bytes(b"".join(json.dumps(json.loads(line)).encode() + b"\n" for line in path.read_bytes().splitlines()))
    assert path.read_bytes().endswith(b'{"end": true}\n')
    assert [call.number for call in open_cassette(path).interactions()] == [1]

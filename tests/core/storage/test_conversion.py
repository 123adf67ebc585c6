"""Conversion: every kind of file holds the same cassette."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agenttape_core import convert
from agenttape_core.errors import (
    CassetteFormatError,
    CassetteLockedError,
    CassetteNotFoundError,
    CassetteWriteError,
    ConfigurationError,
)
from agenttape_core.schema import Header, Interaction, Outcome, Timing, Volatile
from agenttape_core.storage import MIN_ASSET_BYTES, Journal, open_cassette, write_cassette

MakeInteraction = Callable[..., Interaction]
SUFFIXES = ("yaml", "yml", "jsonl", "yaml.gz", "jsonl.gz", "yaml.zst", "jsonl.zst")
PICTURE = base64.b64encode(bytes(MIN_ASSET_BYTES)).decode()

TEXT = st.text(max_size=20) | st.sampled_from([PICTURE, "two\nlines\n", " \n", "yes", "-1", "$asset"])
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
KINDS = st.sampled_from(list(permutations(SUFFIXES, 2)))
MESSAGES = st.lists(st.fixed_dictionaries({"role": st.sampled_from(["human", "ai"]), "content": PLAIN}), max_size=4)
TIMINGS = st.builds(
    Timing,
    duration_ms=st.integers(0, 10**6).map(lambda tenths: tenths / 10),
    offsets_ms=st.lists(st.integers(0, 10**6).map(lambda tenths: tenths / 10), max_size=3),
)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(requests=st.lists(MESSAGES, max_size=4), values=st.tuples(PLAIN, PLAIN), timing=TIMINGS, kinds=KINDS)
def test_there_and_back_is_byte_for_byte_the_same(
    requests: list[Any], values: tuple[Any, Any], timing: Timing, kinds: tuple[str, str], make: MakeInteraction
) -> None:
    """Through any two kinds of files, header, timings, records, continuations and assets come back to the byte."""
    value, extra = values
    recorded = [
        make(
            3 * n,  # numbers may have gaps
            request={"messages": [*messages, *requests[0]], "extra": extra},
            outcome=Outcome(status="returned", value=value),
            tags=["a"] * (n % 2),
            ids=["run-1"] * (n % 2),
            parent=3 if n > 1 else None,
        )
        for n, messages in enumerate(requests, start=1)
    ]
    header = Header(name="tape", input=extra, volatile=Volatile(timings={item.number: timing for item in recorded}))
    with tempfile.TemporaryDirectory() as folder:
        source, other, back = (
            Path(folder) / f"{name}.{kind}" for name, kind in zip("abc", (*kinds, kinds[0]), strict=True)
        )
        write_cassette(source, header, recorded)

        convert(source, other)
        convert(other, back)

        assert back.read_bytes() == source.read_bytes()
        for path in (other, back):
            opened = open_cassette(path)
            assert opened.header == open_cassette(source).header
            assert list(opened.interactions()) == recorded
            assert opened.entries == open_cassette(source).entries


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_suffix_decides_and_assets_come_along(tmp_path: Path, make: MakeInteraction, suffix: str) -> None:
    """The source stays as it is, and the copy does not need it."""
    source, target = tmp_path / "tape.yaml", tmp_path / "deep" / f"copy.{suffix}"
    recorded = [make(1, outcome=Outcome(status="returned", value={"$bytes": PICTURE}))]
    write_cassette(source, Header(name="tape"), recorded)
    before = source.read_bytes()

    written = convert(str(source), str(target))

    assert written == target
    assert source.read_bytes() == before
    source.unlink()
    (asset,) = (tmp_path / "tape.yaml.assets").iterdir()
    asset.unlink()
    assert list(open_cassette(target).interactions()) == recorded


def test_a_cassette_is_not_overwritten_by_accident(tmp_path: Path, make: MakeInteraction) -> None:
    """What is there is only replaced when the caller says so, and its assets with it."""
    source, target = tmp_path / "a.yaml", tmp_path / "b.jsonl"
    write_cassette(source, Header(name="a"), [make(1)])
    write_cassette(target, Header(name="b"), [make(1, outcome=Outcome(status="returned", value=PICTURE))])

    with pytest.raises(CassetteWriteError, match=r"b\.jsonl: there is a cassette already\n  pass overwrite=True"):
        convert(source, target)
    assert open_cassette(target).header.name == "b"
    convert(source, target, overwrite=True)

    assert open_cassette(target).header.name == "a"
    assert not (tmp_path / "b.jsonl.assets").exists()


def test_nothing_is_written_of_a_source_that_cannot_be_read(tmp_path: Path, make: MakeInteraction) -> None:
    """A missing or damaged source, an unknown suffix and a target that is being recorded are refused."""
    source, target = tmp_path / "a.yaml", tmp_path / "b.jsonl"
    with pytest.raises(CassetteNotFoundError):
        convert(source, target)
    write_cassette(source, Header(name="a"), [make(1)])
    with pytest.raises(ConfigurationError, match="suffix"):
        convert(source, tmp_path / "b.txt")
    journal = Journal(target, Header(name="b"))
    with pytest.raises(CassetteLockedError):
        convert(source, target)
    journal.abandon(keep=False)
    source.write_text(source.read_text().replace("status: returned", "status: lost"))
    with pytest.raises(CassetteFormatError):
        convert(source, target)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.yaml"]

"""Detection of the tool that wrote a file, by its content; no content makes it fail."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from agenttape_langchain.importers.detection import agenttape01, langsmith, outline_of, vcrpy

RECORDED = Path(__file__).parent / "recordings" / "agenttape01.yaml"

scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
keys = st.sampled_from(["interactions", "request", "response", "kind", "runs", "run_type", "version", "x"])
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=5))


def outline(data: bytes) -> object:
    """Return the outline of a file with this content."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "foreign")
        path.write_bytes(data)
        return outline_of(path)


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_content_fails(data: bytes) -> None:
    """Whatever a file holds, it is of a tool or of none."""
    outline(data)


@given(st.dictionaries(keys, values, min_size=1, max_size=5))
def test_yaml_and_json_are_seen_alike(value: dict[str, object]) -> None:
    """The outline from the beginning of a YAML file equals that of the whole."""
    seen = outline(yaml.safe_dump(value, sort_keys=False).encode())
    whole = outline(json.dumps(value).encode())
    lists = [key for key in value if key in {"interactions", "runs"}]
    if len(lists) < 2:
        assert seen[1] == whole[1]  # type: ignore[index]
        assert seen[0] <= whole[0]  # type: ignore[index]


HOSTILE = [b"- " * 100_000, b"[" * 100_000, b"a: &a [*a]", b"!!python/object:os.system {}", b"\xff"]


@pytest.mark.parametrize("data", HOSTILE, ids=["deep YAML", "deep JSON", "itself", "code", "no text"])
def test_hostile_content(data: bytes) -> None:
    """A file that is deep, holds itself or names code is of no tool."""
    assert outline(data) in [(frozenset(), frozenset()), (frozenset({"a"}), frozenset())]


def test_a_real_one() -> None:
    """A cassette that agenttape 0.1 wrote is of that tool only."""
    assert [importer.recognises(RECORDED) for importer in (agenttape01, langsmith, vcrpy)] == [True, False, False]

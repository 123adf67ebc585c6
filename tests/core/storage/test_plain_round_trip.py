"""Every plain value comes back from a file with its type and value."""

from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from agenttape_core.errors import UnrecordableValueError
from agenttape_core.format.json_text import dump_line, load_line
from agenttape_core.format.malformed import Malformed
from agenttape_core.format.plain import check_plain
from agenttape_core.format.yaml_fast import NotCanonical, load_canonical
from agenttape_core.format.yaml_load import load_yaml
from agenttape_core.format.yaml_text import dump_mapping
from agenttape_core.schema import Header, Outcome
from agenttape_core.storage import MAX_DEPTH, open_cassette, write_cassette

_breaks = [
    "\n",
    "\n\n",
    " ",
    "  ",
    "\t",
    "\r",
    "\r\n",
    "\x00",
    "\x85",
    "\u2028",
    "\u2029",
    "\ufeff",
    "\u202e",
    "\x7f",
    "\ufffe",
]
_marks = [
    "---",
    "...",
    "- ",
    ": ",
    ":",
    "#",
    " #",
    "<<",
    "|",
    ">",
    "'",
    '"',
    "\\",
    "&a",
    "*a",
    "!!str",
    "{",
    "}",
    "[",
    "]",
]
_words = ["a", "word", "true", "null", "~", ",", "1", "0x1f", "1:30", "2024-01-01", "é", "漢", "😀", "\U0001fffe", "="]
_pieces = st.sampled_from(_breaks + _marks + _words)
texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20), st.lists(_pieces, max_size=8).map("".join)
)
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), texts)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=25,
)
NASTY: list[Any] = [
    [1, 1.0, True, "1", "1.0", "True", "true", None, "null", "", "~", "Null", 0, -0.0, 0.0, False],
    [10**400, -(10**400), 1e22, 1e-7, 5e-324, 1.7976931348623157e308, "1e22", "1_000", "0o7", "0x1F", "1:30", ".5"],
    ["a\x00b", "\x85", "\u2028x\u2029", "\ufeffbom", "a\rb", "a\r\nb", "\x7f", "\x1b[0m", "\t", "\ud7ff\ue000"],
    ["trailing ", " leading", "\n", "\n\n", "\nx", "x\n", "x\n\n", " x\ny", "\tx\ny", "x \ny", "x\n ", "x\n\n\ny"],
    [
        "---\n---\n",
        "...\n",
        "x\n---\ny",
        "# no\n#",
        "a #b",
        "a: b",
        "a:",
        "- a",
        "? a",
        "%YAML",
        "<<",
        "=",
        "yes",
        "No",
    ],
    [[], {}, [[]], [{}], [[[1]]], {"": ""}, {"a": {"b": []}}, {"null": 1, "1": 2, "true": 3}, {"x" * 2000: {"y": [1]}}],
    [
        "😀",
        "\U0001d4b3",
        "\U0010ffff",
        "é",
        "漢字",
        "\u202eevil",
        [1.5, 2],
        [1, "1"],
        [True, 1],
        [{"a": 1, "b": [2, {"c": "x\ny"}]}],
    ],
]


def same(left: Any, right: Any) -> bool:
    """Equal in value, type and order of keys."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float):
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    return bool(left == right)


@given(values)
@example(NASTY)
@example({"value": NASTY})
def test_yaml_text_comes_back_from_every_reader(value: Any) -> None:
    """The text that we write means the same to PyYAML's C parser, its Python parser and the fast reader."""
    raw = dump_mapping({"value": value}).encode()

    assert same(load_yaml(raw), {"value": value})
    assert same(load_yaml(raw, yaml.SafeLoader), {"value": value})
    try:
        fast = load_canonical(raw)
    except NotCanonical:
        assert b"? " in raw  # only keys that are too long for one line are left to the full reader
    else:
        assert same(fast, {"value": value})


@given(values)
@example(NASTY)
def test_json_text_comes_back(value: Any) -> None:
    """A line of JSON holds every plain value, in ASCII."""
    line = dump_line(value)

    assert line == json.dumps(value, separators=(",", ":"))
    assert line.isascii()
    assert "\n" not in line
    assert same(load_line(line.encode()), value)


@given(values, st.data())
def test_the_fast_reader_never_disagrees_with_the_full_one(value: Any, data: st.DataObject) -> None:
    """Whatever text the fast reader accepts, the full reader accepts with the same result."""
    raw = bytearray(dump_mapping({"value": value, "other": "text"}).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw)))
        piece = data.draw(
            st.sampled_from([b"", b" ", b"\n", b"- ", b": ", b"#", b'"', b"a", b"1", b"|", b"\t", b"-", b"'"])
        )
        raw[at : at + data.draw(st.integers(0, 2))] = piece
    try:
        fast = load_canonical(bytes(raw))
    except NotCanonical:
        return
    assert same(load_yaml(bytes(raw)), fast)


@pytest.mark.parametrize("suffix", [".yaml", ".jsonl", ".yaml.gz"])
@given(request_value=values, outcome_value=values, name=texts)
def test_values_come_back_from_a_cassette(
    suffix: str, make: Any, request_value: Any, outcome_value: Any, name: str
) -> None:
    """Requests, outcomes and names of any text survive a file of each layout."""
    recorded = make(
        name=name,
        address=name,
        ids=[name],
        request={"any": request_value},
        outcome=Outcome(status="returned", value=outcome_value),
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"tape{suffix}"
        write_cassette(path, Header(name=name, input=request_value), [recorded])
        cassette = open_cassette(path)

    assert cassette.header.name == cassette.entries[0].name == cassette.entries[0].address == name
    assert same(cassette.header.input, request_value)
    assert same(cassette.interaction(1).request["any"], request_value)
    assert same(cassette.outcome(1).value, outcome_value)
    assert cassette.ids(1) == [name]


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({"a": [1, (2,)]}, r"\$\.a\[1\]"),
        ({1: 2}, r"\$"),
        (float("nan"), r"\$"),
        ([float("inf")], r"\$\[0\]"),
        ({"a": "\ud800"}, r"\$\.a"),
        ({"\udfff": 1}, r"\$"),
        (b"bytes", r"\$"),
        pytest.param(10**5000, r"\$", id="huge"),
    ],
)
def test_what_is_not_plain_is_refused_with_its_place(value: Any, where: str) -> None:
    """A value that would not come back the same is refused when it is written, and the error says where it is."""
    with pytest.raises(UnrecordableValueError, match=where):
        check_plain(value)


def test_the_deepest_plain_value_can_be_read_and_a_deeper_one_cannot_be_written() -> None:
    """Writing and reading share one limit of depth."""
    value: Any = {"end": 1}
    for _ in range(MAX_DEPTH - 1):
        value = {"a": value}

    check_plain(value)
    assert load_yaml(dump_mapping(value).encode()) == value
    assert load_line(dump_line(value).encode()) == value
    with pytest.raises(UnrecordableValueError, match="nested deeper"):
        check_plain([value])
    with pytest.raises(Malformed, match="nested deeper"):
        load_line(dump_line([value]).encode())
    with pytest.raises(Malformed, match="nested deeper"):
        load_yaml(dump_mapping({"a": value}).encode())

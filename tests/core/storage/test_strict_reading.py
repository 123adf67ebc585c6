r"""What YAML and JSON can do beyond plain data is refused, with the line; lines may end with \r\n."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from agenttape_core import boundary, use_cassette
from agenttape_core.errors import CassetteFormatError
from agenttape_core.format.json_text import load_line
from agenttape_core.format.malformed import Malformed
from agenttape_core.format.records import header_from_dict, outcome_from_dict
from agenttape_core.format.yaml_load import load_yaml
from agenttape_core.schema import Header, Interaction, Outcome, Timing, Usage, Volatile
from agenttape_core.storage import Cassette, convert, open_cassette, write_cassette
from agenttape_core.storage.cassette import layout_of

LOADERS = [getattr(yaml, "CSafeLoader", yaml.SafeLoader), yaml.SafeLoader]
BILLION = b"a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n"


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize(
    ("text", "problem", "line"),
    [
        (b"a: 1\na: 2\n", "appears twice", 1),
        (b"a: 1\nb: !!python/object/apply:os.system [ls]\n", "no YAML tags", 1),
        (b"a: !custom x\n", "no YAML tags", 0),
        (b"a: !!str 1\n", "no YAML tags", 0),
        (BILLION, "no YAML anchors", 0),
        (b"a: *b\n", "no YAML aliases", 0),
        (b"<<: {a: 1}\n", "key must be a string", 0),
        (b"1: a\n", "key must be a string", 0),
        (b"null: a\n", "key must be a string", 0),
        (b"? [a]\n: 1\n", "key must be a string", 0),
        (b"a: 1e999\n", "out of range", 0),
        (b"a: " + b"9" * 5000 + b"\n", "digits", 0),
        (b"a: 1\nb: [\n", "not YAML", 2),
        (b"a: \xff\n", "not UTF-8", 0),
        (b"a: 1\n--- \nb: 2\n", "second document", 1),
        (b"[" * 100_000, "nested deeper", 0),
        (b"a: \x01\n", "not YAML", 0),
    ],
)
def test_yaml_beyond_plain_data_is_refused(loader: Any, text: bytes, problem: str, line: int) -> None:
    """Both parsers of PyYAML lead to the same refusal, at the line where it starts."""
    with pytest.raises(Malformed, match=problem) as caught:
        load_yaml(text, loader)

    assert caught.value.line == line


@pytest.mark.parametrize("loader", LOADERS)
def test_only_json_like_scalars_are_resolved(loader: Any) -> None:
    """What YAML 1.1 takes for booleans, dates, octals and the like are strings here."""
    text = b"[yes, No, on, ~, 2024-01-01, 1:30, 0o7, 0x1F, 010, 1_000, .5, +1, .inf, .nan, True, =]"

    assert load_yaml(b"a: " + text, loader)["a"] == text.decode()[1:-1].split(", ")
    assert load_yaml(b"a: [null, true, false, -1, 0.5, 1e3, -0]\nb:\n", loader) == {
        "a": [None, True, False, -1, 0.5, 1000.0, 0],
        "b": None,
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b'{"a":1,"a":2}', "appears twice"),
        (b'{"a":NaN}', "NaN"),
        (b'{"a":-Infinity}', "Infinity"),
        (b'{"a":1e999}', "out of range"),
        (b'{"a":"\\ud800"}', "lone surrogate"),
        (b'{"a":\xff}', "not UTF-8"),
        (b'{"a":1} x', "more on the line"),
        (b'{"a":"\n"}', "not JSON"),
        (b"[" * 100_000, "nested deeper|not JSON"),
        (b'{"a":' + b"9" * 5000 + b"}", "not JSON"),
        (b"", "not JSON"),
    ],
)
def test_json_beyond_plain_data_is_refused(text: bytes, problem: str) -> None:
    """Duplicate keys, non-finite numbers, lone surrogates and broken text are refused."""
    with pytest.raises(Malformed, match=problem):
        load_line(text)


_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2),
    st.floats(),
    st.sampled_from(["", "full", "+0100", "+0100 CET", "0 1", "x"]),
    st.lists(st.sampled_from(["a", 1, None]), max_size=2),
    st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["x", 1, None]), max_size=2),
)
"""Values of all types that a header has, and of those that it doesn't have."""


def fields_of(model: type[BaseModel]) -> st.SearchStrategy[Any]:
    """Return fields of a record, some with values of another type, and sometimes one that it doesn't have."""
    fields: dict[str, Any] = {"unknown": _VALUES}
    for name, field in model.model_fields.items():
        inner = field.annotation
        if name not in {"steps", "timings"}:  # read from texts of their own
            fields[name] = fields_of(inner) if isinstance(inner, type) and issubclass(inner, BaseModel) else _VALUES
    required = {name: _VALUES for name, field in model.model_fields.items() if field.is_required()}
    one = st.sampled_from(sorted(fields)).flatmap(lambda name: fields[name].map(lambda value: {name: value}))
    return st.tuples(st.fixed_dictionaries(required), one, one).map(lambda parts: {**parts[0], **parts[1], **parts[2]})


def outcome_of(read: Any, *args: Any) -> Any:
    """Return what is read with the names of the given fields; `None` if it's refused."""
    try:
        record = read(*args)
    except (Malformed, ValidationError):
        return None
    return repr(record), record.model_fields_set  # NaN isn't equal to itself


@given(fields_of(Header))
def test_a_header_is_read_as_pydantic_reads_it(fields: dict[str, Any]) -> None:
    """A header that is read without pydantic's validators is what these make of it, and they refuse what is refused."""
    read = outcome_of(header_from_dict, {"agenttape": 1, **fields})
    assert read == outcome_of(Header.model_validate, fields)


@given(fields_of(Usage))
def test_usage_is_read_as_pydantic_reads_it(usage: dict[str, Any]) -> None:
    """So is the usage of an outcome."""
    stored = {"status": "returned", "value": 1, "usage": usage}
    assert outcome_of(outcome_from_dict, stored) == outcome_of(Outcome.model_validate, stored)


@pytest.mark.parametrize("seconds", [1e30, -1e30, 1e308])
def test_a_time_is_one_that_a_date_can_hold(seconds: float) -> None:
    """A header whose clock shows no date is refused when it's read, and not where the program asks for the time."""
    with pytest.raises(Malformed, match="clock"):
        header_from_dict({"agenttape": 1, "name": "tape", "volatile": {"clock": seconds}})


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

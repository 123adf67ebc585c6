"""Opening a cassette: what is read, when it is read, and how bad files are refused."""

from __future__ import annotations

import gzip
import pickle
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from agenttape_core.errors import (
    CassetteFormatError,
    CassetteNotFoundError,
    CassetteVersionError,
    ConfigurationError,
)
from agenttape_core.format import limits
from agenttape_core.schema import Header, IndexRow, Interaction, Outcome, RecordedError, Usage
from agenttape_core.storage import open_cassette, write_cassette

if TYPE_CHECKING:
    from pathlib import Path

MakeInteraction = Callable[..., Interaction]
LAYOUTS = pytest.mark.parametrize("suffix", [".yaml", ".jsonl"])
BREAK_SECOND = {".yaml": ("content: question 2", "content: [question 2"), ".jsonl": ('"question 2"', "question 2")}


@pytest.fixture
def three(make: MakeInteraction) -> list[Interaction]:
    """A returned, a raised and a broken streamed interaction, every field in use."""
    error = RecordedError(
        type="builtins:ValueError", message="no", args=["no"], attributes={"code": 3}, bases=["builtins:Exception"]
    )
    streamed = Outcome(
        status="streamed", chunks=["a", {"b": 1}], ended="raised", error=error, usage=Usage(input_tokens=3)
    )
    return [
        make(1, tags=["slow"], ids=["run-1", "call_2"], metadata={"delegated_by": ["achat"]}),
        make(2, kind="tool", name="wetter-übersicht", parent=1, outcome=Outcome(status="raised", error=error)),
        make(3, outcome=streamed),
    ]


@pytest.mark.parametrize("suffix", [".yaml", ".yml", ".jsonl", ".yaml.gz", ".jsonl.gz", ".YAML"])
def test_all_that_was_written_is_read(
    tmp_path: Path, three: list[Interaction], full_header: Header, suffix: str
) -> None:
    """Header, index, interactions, outcomes and ids come back from every kind of file."""
    path = tmp_path / f"weather{suffix}"
    write_cassette(path, full_header, three)

    cassette = open_cassette(path)

    assert cassette.header == full_header
    assert cassette.path == path
    assert list(cassette.interactions()) == three
    assert [cassette.outcome(n) for n in (1, 2, 3)] == [interaction.outcome for interaction in three]
    assert [cassette.ids(n) for n in (1, 2, 3)] == [["run-1", "call_2"], [], []]
    assert [cassette.metadata(n, "delegated_by") for n in (1, 2, 3)] == [["achat"], None, None]
    assert cassette.entries[1] == IndexRow(2, "tool", "wetter-übersicht", "agent/model#2", three[1].fingerprint, 1)


def test_the_preface_is_the_header_without_timings(tmp_path: Path, full_header: Header) -> None:
    """Opening parses the header but not the timings, which can be many."""
    path = tmp_path / "weather.yaml"
    write_cassette(path, full_header, [])

    cassette = open_cassette(path)

    assert cassette.preface.freeze == full_header.freeze
    assert cassette.preface.volatile.timings == {}
    assert cassette.header.volatile.timings == full_header.volatile.timings


@LAYOUTS
def test_a_bad_record_hurts_only_who_asks_for_it(tmp_path: Path, make: MakeInteraction, suffix: str) -> None:
    """Records are parsed when they are replayed; the error has the line of the problem."""
    path = tmp_path / f"tape{suffix}"
    write_cassette(path, Header(name="tape"), [make(1), make(2), make(3)])
    path.write_text(path.read_text().replace(*BREAK_SECOND[suffix]))
    first, problem_at = BREAK_SECOND[suffix][1], 0
    problem_at = next(n for n, line in enumerate(path.read_text().splitlines(), 1) if first in line)

    cassette = open_cassette(path)

    assert [entry.number for entry in cassette.entries] == [1, 2, 3]
    assert cassette.interaction(3) == make(3)
    with pytest.raises(CassetteFormatError, match=r"not (YAML|JSON)") as caught:
        cassette.interaction(2)
    assert caught.value.line in (problem_at, problem_at + 1)
    assert caught.value.path == path


@LAYOUTS
def test_every_cut_is_noticed_at_once(tmp_path: Path, make: MakeInteraction, suffix: str) -> None:
    """A file that lost its tail anywhere, between records too, is refused when it is opened."""
    path = tmp_path / f"tape{suffix}"
    write_cassette(path, Header(name="tape"), [make(1), make(2)])
    whole = path.read_bytes()

    for length in range(len(whole) - 1):  # without its very last newline it is still whole
        path.write_bytes(whole[:length])
        with pytest.raises(CassetteFormatError):
            open_cassette(path)
    path.write_bytes(whole[:-1])
    assert len(open_cassette(path).entries) == 2


@LAYOUTS
def test_other_ends_of_lines_and_a_byte_order_mark_change_nothing(
    tmp_path: Path, three: list[Interaction], full_header: Header, suffix: str
) -> None:
    """What a checkout on another system does to a text file is no damage."""
    path = tmp_path / f"tape{suffix}"
    write_cassette(path, full_header, three)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))

    cassette = open_cassette(path)

    assert cassette.header == full_header
    assert list(cassette.interactions()) == three


def test_a_record_edited_into_another_shape_is_still_read(tmp_path: Path) -> None:
    """The fixed layout is what we write; any YAML of the same content is read."""
    path = tmp_path / "edited.yaml"
    path.write_text(
        "---\nagenttape: 1\nname: 'edited'  # by hand\n"
        "--- # the only one\n"
        "{outcome: {status: returned, value: 'x'}, kind: chat, name: \"m\", address: a,\n"
        "  fingerprint: f, interaction: 4, ids: [i], request: {}}\n...\n"
    )

    cassette = open_cassette(path)

    assert cassette.header == Header(name="edited")
    assert cassette.entries == (IndexRow(4, "chat", "m", "a", "f", None),)
    assert (cassette.outcome(4).value, cassette.ids(4), cassette.interaction(4).request) == ("x", ["i"], {})


HEAD = "agenttape: 1\nname: x\n"
RECORD = (
    "---\ninteraction: 1\nkind: chat\nname: m\naddress: a\nfingerprint: f\nrequest: {}\noutcome:\n  status: returned\n"
)


@pytest.mark.parametrize(
    ("text", "problem", "line"),
    [
        ("", "empty", 1),
        ("\n\n", "empty", 1),
        ("name: x\n...\n", "not of AgentTape", 1),
        ("agenttape: true\nname: x\n...\n", "not of AgentTape", 1),
        ("agenttape: 0\nname: x\n...\n", "not of AgentTape", 1),
        ("agenttape: 1\n...\n", "`name`: Field required", 1),
        ("agenttape: 1\nname: x\ncolour: red\n...\n", "`colour`", 1),
        ("- agenttape\n...\n", "must be a mapping", 1),
        (HEAD + RECORD, "cut off", 12),
        (HEAD[:7], "cut off", 1),
        ("services:\n  a: 1\n", "not of AgentTape", 1),
        ("- a\n- b\n", "not of AgentTape", 1),
        ('{"a": 1}', "not of AgentTape", 1),
        ("\x7fELF\x01\x00", "not of AgentTape", 1),
        (HEAD + RECORD + RECORD + "...\n", "numbers must grow", 13),
        (HEAD + RECORD.replace("kind: chat", "kind: 5") + "...\n", "each a string", 4),
        (HEAD + RECORD.replace("n: 1", "n: 0") + "...\n", "from 1", 4),
        (HEAD + RECORD.replace("request", "parent: x\nrequest") + "...\n", "`parent`", 4),
        (HEAD + "<<<<<<< HEAD\n" + RECORD + "...\n", "merge conflict", 3),
        (HEAD + RECORD.replace("request", "parent: '1'\nrequest") + "...\n", "`parent`", 4),
        (HEAD + "volatile: 5\n...\n", "`volatile`", 1),
        (HEAD + "volatile:\n  timings: 5\n...\n", "must be text", 1),
    ],
)
def test_a_file_that_is_no_cassette_is_refused_on_opening(tmp_path: Path, text: str, problem: str, line: int) -> None:
    """The error has the file, the line and what is wrong."""
    path = tmp_path / "bad.yaml"
    path.write_text(text)

    with pytest.raises(CassetteFormatError, match=problem) as caught:
        open_cassette(path)

    assert (caught.value.path, caught.value.line) == (path, line)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("status: returned", "status: gone", "`outcome.status`"),
        ("status: returned", "status: returned\n  colour: 1", "`outcome.colour`"),
        ("request: {}", "request: []", "`request` must be"),
        ("request: {}", "request: {}\nsecret: 1", "unknown key: 'secret'"),
        ("request: {}", "ids: [1]\nrequest: {}", "ids"),
        ("request: {}", "tags: x\nrequest: {}", "`tags`"),
        ("request: {}", "kind: again\nrequest: {}", "appears twice"),
    ],
)
def test_records_of_wrong_types_are_refused_when_asked_for(tmp_path: Path, old: str, new: str, problem: str) -> None:
    """Every record is checked against the schema before it is handed out."""
    path = tmp_path / "bad.yaml"
    path.write_text(HEAD + RECORD.replace(old, new) + "...\n")
    cassette = open_cassette(path)

    with pytest.raises(CassetteFormatError, match=problem) as caught:
        cassette.interaction(1)

    assert caught.value.line is not None
    assert caught.value.line >= 4


def test_malformed_timings_are_refused_when_asked_for(tmp_path: Path) -> None:
    """The timings are parsed late, and checked then."""
    path = tmp_path / "bad.yaml"
    path.write_text(HEAD + "volatile:\n  timings: |\n    1 12.0\n    soon\n...\n")
    cassette = open_cassette(path)

    with pytest.raises(CassetteFormatError, match="expected a timing"):
        _ = cassette.header


def test_a_missing_cassette_says_how_to_record_it(tmp_path: Path) -> None:
    """No file is an error of its own, with the remedy."""
    with pytest.raises(CassetteNotFoundError, match="record it once"):
        open_cassette(tmp_path / "no" / "such.yaml")


def test_a_folder_is_no_cassette(tmp_path: Path) -> None:
    """Whatever the system says on reading becomes an error with the path."""
    (tmp_path / "folder.yaml").mkdir()

    with pytest.raises(CassetteFormatError, match="cannot be read"):
        open_cassette(tmp_path / "folder.yaml")


@pytest.mark.parametrize("name", ["tape", "tape.json", "tape.gz", "tape.txt.gz", "tape.yaml.bz2", ".yaml"])
def test_an_unknown_suffix_is_refused(tmp_path: Path, name: str) -> None:
    """The suffix decides how a file is written, so it must be one of ours."""
    with pytest.raises(ConfigurationError, match=r"use \.yaml"):
        open_cassette(tmp_path / name)


def test_zst_says_what_to_install(tmp_path: Path, three: list[Interaction], monkeypatch: pytest.MonkeyPatch) -> None:
    """The optional module is asked for by name when it is needed and missing."""
    for name in ("compression.zstd", "zstandard"):
        monkeypatch.setitem(sys.modules, name, None)

    with pytest.raises(ConfigurationError, match="pip install zstandard"):
        write_cassette(tmp_path / "tape.jsonl.zst", Header(name="x"), three)


@pytest.mark.parametrize(
    "without",
    [
        "compression.zstd",
        pytest.param("zstandard", marks=pytest.mark.skipif(sys.version_info < (3, 14), reason="3.14")),
    ],
)
def test_zst_works_where_its_module_is_installed(
    tmp_path: Path, three: list[Interaction], monkeypatch: pytest.MonkeyPatch, without: str
) -> None:
    """Zstandard files are written, read by either module, and refused when they are broken."""
    pytest.importorskip("zstandard")
    path = tmp_path / "tape.jsonl.zst"
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, without, None)
        write_cassette(path, Header(name="x"), three)
        assert list(open_cassette(path).interactions()) == three
    assert list(open_cassette(path).interactions()) == three

    path.write_bytes(b"no archive at all")
    with pytest.raises(CassetteFormatError, match="cannot be unpacked"):
        open_cassette(path)


@pytest.mark.parametrize(
    "data", [b"no gzip", b"", gzip.compress(b"x" * 999, mtime=0)[:-9], gzip.compress(b"", mtime=0)]
)
def test_a_broken_archive_is_a_format_error(tmp_path: Path, data: bytes) -> None:
    """Truncated or foreign compressed files are refused as cassettes are."""
    path = tmp_path / "tape.yaml.gz"
    path.write_bytes(data)

    with pytest.raises(CassetteFormatError):
        open_cassette(path)


def test_files_and_records_have_a_limit(tmp_path: Path, make: MakeInteraction, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small archive that unpacks to a huge file, and a huge record, are refused before they are parsed."""
    path = tmp_path / "tape.yaml.gz"
    write_cassette(path, Header(name="x"), [make(1, request={"text": "x" * 5000})])
    monkeypatch.setattr(limits, "MAX_RECORD_BYTES", 4000)
    with pytest.raises(CassetteFormatError, match="a record is larger"):
        open_cassette(path)
    monkeypatch.setattr(limits, "MAX_FILE_BYTES", 3000)
    with pytest.raises(CassetteFormatError, match="the cassette is larger"):
        open_cassette(path)


def test_an_opened_cassette_is_a_snapshot(tmp_path: Path, make: MakeInteraction) -> None:
    """Replacing the file does not change what a running replay is replayed."""
    path = tmp_path / "tape.yaml"
    write_cassette(path, Header(name="x"), [make(1)])
    cassette = open_cassette(path)
    path.write_text("gone")

    assert cassette.interaction(1) == make(1)


def test_changing_a_request_does_not_change_the_next_one(tmp_path: Path, make: MakeInteraction) -> None:
    """The lists of messages that are handed out are the caller's own."""
    path = tmp_path / "tape.yaml"
    write_cassette(
        path, Header(name="x"), [make(1, request={"messages": ["a"]}), make(2, request={"messages": ["a", "b"]})]
    )
    cassette = open_cassette(path)
    cassette.interaction(1).request["messages"].clear()

    assert cassette.interaction(2).request == {"messages": ["a", "b"]}
    assert cassette.interaction(1).request == {"messages": ["a"]}


def test_an_unknown_number_is_a_key_error(tmp_path: Path, make: MakeInteraction) -> None:
    """Numbers come from the index; another one is a mistake of the caller."""
    path = tmp_path / "tape.yaml"
    write_cassette(path, Header(name="x"), [make(1)])

    with pytest.raises(KeyError):
        open_cassette(path).outcome(2)


def test_loading_runs_nothing(tmp_path: Path) -> None:
    """A tag that would run code, and bytes that are a pickle, are refused as malformed."""
    marker = tmp_path / "ran"
    path = tmp_path / "evil.yaml"
    evil = f"  x: !!python/object/apply:pathlib.Path.touch [!!python/object/apply:pathlib.Path ['{marker}']]\n"
    path.write_text(HEAD + RECORD.replace("request: {}\n", "request:\n" + evil) + "...\n")
    with pytest.raises(CassetteFormatError, match="no YAML tags"):
        open_cassette(path).interaction(1)
    path.write_bytes(pickle.dumps({"agenttape": 1}))
    with pytest.raises(CassetteFormatError):
        open_cassette(path)

    assert not marker.exists()


@pytest.mark.parametrize("name", ["tape.yaml", "tape.jsonl"])
def test_a_newer_format_is_refused_before_anything_is_parsed(tmp_path: Path, name: str) -> None:
    """A file from the future may hold anything after its version."""
    path = tmp_path / name
    path.write_text("agenttape: 3\n@ what is this\n" if name.endswith("yaml") else '{"agenttape":3,@')

    with pytest.raises(CassetteVersionError, match=r"format 3, .* up to 2"):
        open_cassette(path)


@LAYOUTS
@pytest.mark.parametrize("value", ["warm", None, {"$tuple": [1, {"effects": []}]}])
def test_an_outcome_that_is_read_without_a_validator(
    value: object, suffix: str, make: MakeInteraction, tmp_path: Path
) -> None:
    """A returned outcome, which needs no validator, is what the validator makes of it, and shares nothing mutable."""
    path = tmp_path / f"run{suffix}"
    write_cassette(path, Header(name="run"), [make(1, outcome=Outcome(status="returned", value=value))])
    cassette = open_cassette(path)

    read, again = cassette.outcome(1), cassette.outcome(1)

    validated = cassette.interaction(1).outcome
    assert (read, repr(read), read.model_dump()) == (validated, repr(validated), validated.model_dump())
    assert read.model_fields_set == validated.model_fields_set
    assert read.effects is not again.effects
    assert read.arguments is not again.arguments

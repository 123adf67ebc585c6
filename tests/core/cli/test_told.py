"""What was silent or misleading: lost assets, looser matches, records edited by hand, seals, tags."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import boundary, open_cassette, use_cassette
from agenttape_core.cli.app import run
from agenttape_core.errors import CassetteFormatError, CassetteMissError, ReplayedError

pytestmark = pytest.mark.usefixtures("project")

PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 300


@boundary("tool")
def draw(name: str) -> bytes:
    """Return a picture."""
    return PICTURE + name.encode()


@boundary("tool")
def look_up(name: str) -> str:
    """Look something up."""
    if name == "gone":
        raise TimeoutError("nobody answers")
    return f"{name} is there"


@pytest.fixture
def pictured() -> Path:
    """A cassette that has lost one of its two assets."""
    with use_cassette("pictured", mode="all"):
        draw("a")
        draw("b")
        look_up("Rome")
    assets = sorted(Path("cassettes/pictured.yaml.assets").iterdir())
    assert len(assets) == 2
    assets[0].unlink()
    return Path("cassettes/pictured.yaml")


def test_a_lost_asset_hides_one_value(pictured: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Commands that show a cassette show all but the value that is lost."""
    for line in (
        "show pictured",
        "show pictured --json",
        "show pictured --call 1",
        "show pictured --html page.html",
        "show --timeline pictured",
        "show --stats pictured",
        "show --stats pictured --by tool",
        "ls",
        "export pictured",
        "export pictured --format jsonl",
        "export pictured --format otel --content",
        "diff pictured pictured",
        "check --only coverage pictured",
    ):
        assert run(line.split()) == 0, (line, capsys.readouterr())


def test_a_placeholder_stands_for_a_lost_asset(pictured: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is shown in its place says what is lost, also if it was changed; the other calls are whole."""
    assert run(["export", "pictured", "--format", "jsonl"]) == 0
    out = capsys.readouterr().out
    assert len(re.findall(r"\[the asset \S+ is missing: the folder belongs beside the cassette\]", out)) == 1
    assert "Rome is there" in out
    (left,) = Path("cassettes/pictured.yaml.assets").iterdir()
    left.write_bytes(b"changed")
    assert run(["export", "pictured", "--format", "jsonl"]) == 0
    assert "was changed: it is not what was recorded]" in capsys.readouterr().out


def test_what_judges_and_serves_refuses_a_lost_asset(pictured: Path) -> None:
    """A cassette with a lost asset is invalid, fails a gate, and is exported to no trace and no oracle."""
    Path("c.yaml").write_text("checks: 1\nevery:\n- no_errors: true\n")
    assert run(["check", "--only", "files", "cassettes"]) == 3
    assert run(["check", "cassettes", "--checks", "c.yaml"]) == 3
    assert run(["export", "pictured", "--format", "oracle"]) == 3
    assert run(["export", "pictured", "--format", "jsonl-trace"]) == 3
    lost = [open_cassette(pictured), open_cassette(pictured)]
    with pytest.raises(CassetteFormatError, match="is missing"):
        list(lost[0].interactions())
    assert len(list(lost[1].show_lost().interactions())) == 3


def test_a_replay_reports_all_but_a_lost_asset(pictured: Path) -> None:
    """A replay that asks for what is lost fails there, and serves and reports the rest."""
    with pytest.raises(CassetteFormatError, match="is missing"), use_cassette(pictured) as session:
        for name in "ab":
            with contextlib.suppress(CassetteFormatError):
                draw(name)
        assert look_up("Rome") == "Rome is there"
    assert "its recording cannot be read" in {skipped.why for skipped in session.report.not_run}


def test_looser_matches_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    """A recording that answered another request is counted in the report, with the way that found it."""
    with use_cassette("c", mode="all"):
        look_up("Rome")
        look_up("Oslo")
        look_up("Bern")
    with use_cassette("c", match_on=("exact", "ordered")) as session:
        assert look_up("Rome") == "Rome is there"
        assert look_up("Paris") == "Oslo is there"
        assert look_up("Nice") == "Bern is there"
    assert str(session.report).startswith("3 replayed, 0 recorded, 2 of 3 in order, to another request")
    with use_cassette("c", match_on=("exact", "address")) as session:
        look_up("Rome")
        look_up("Oslo")
        look_up("Lima")
    assert session.report.answered_otherwise == "1 of 3 by address, to another request"
    with use_cassette("c", match_on=("address",)) as session:
        look_up("Rome")
        look_up("Oslo")
        look_up("Bern")
    assert session.report.answered_otherwise == "", "the same requests, however they were found"


def edited(path: str, *pairs: tuple[str, str]) -> None:
    """Edit a cassette by hand."""
    text = Path(path).read_text()
    for before, after in pairs:
        assert before in text
        text = text.replace(before, after, 1)
    Path(path).write_text(text)


@pytest.fixture
def failed() -> str:
    """A cassette with a tool that raised, and one that returned."""
    with use_cassette("c", mode="all"):
        with pytest.raises(TimeoutError):
            look_up("gone")
        look_up("Rome")
    return "cassettes/c.yaml"


@pytest.mark.parametrize("spelled", ["builtins:TimeoutError", "builtins.TimeoutError", "TimeoutError"])
def test_an_error_that_is_written_by_hand(spelled: str, failed: str) -> None:
    """A type may have a dot, and the message stands for arguments that are not there."""
    text = Path(failed).read_text()
    arguments = re.search(r"    args:\n    - .*\n", text)
    assert arguments is not None
    edited(failed, (arguments[0], ""), ("builtins:TimeoutError", spelled), ("nobody answers", "try later"))
    assert run(["check", "--only", "files", failed]) == 0
    with use_cassette("c"):
        with pytest.raises(TimeoutError) as raised:
            look_up("gone")
        look_up("Rome")
    assert (type(raised.value), str(raised.value), raised.value.args) == (TimeoutError, "try later", ("try later",))


class Silent(Exception):  # noqa: N818 - what it is called does not matter
    """An error whose text does not come from its arguments."""

    def __str__(self) -> str:
        return "always this"


def test_an_error_without_arguments_is_as_it_was(tmp_path: Path) -> None:
    """An error that really has no arguments gets none from its message; one of an unknown type stays a stand-in."""

    @boundary("tool")
    def fail(error: int) -> None:
        raise (Silent(), ValueError())[error]

    with use_cassette("e", mode="all"):
        for number in (0, 1):
            with pytest.raises((Silent, ValueError)):
                fail(number)
    with use_cassette("e"):
        for number in (0, 1):
            with pytest.raises((Silent, ValueError)) as raised:
                fail(number)
            assert raised.value.args == ()
    edited("cassettes/e.yaml", (f"{Silent.__module__}:Silent", "gone.away:Silent"))
    with use_cassette("e", on_unused="ignore"), pytest.raises(ReplayedError, match="always this"):
        fail(0)


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        (("kind: tool", "kind: tooool"), "has the unknown kind 'tooool'; did you mean 'tool'?"),
        (("kind: tool", "kind: Tool"), "did you mean 'tool'?"),
        (("status: raised", "status: returned"), "what `returned` has no `error`"),
    ],
)
def test_what_cannot_be_meant_is_invalid(
    pair: tuple[str, str], said: str, failed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A kind that is none, and an error of what returned, are told with their line; a kind of one's own is not."""
    edited(failed, pair)
    assert run(["check", "--only", "files", failed]) == 3
    assert said in capsys.readouterr().out
    edited(failed, (pair[1], "kind: planner" if "kind" in pair[1] else pair[0]))
    assert run(["check", "--only", "files", failed]) in {0, 1}


@pytest.mark.slow
def test_doctor_compares_checksums(failed: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A cassette that does not match its checksums is not well, though it can be read."""
    assert run(["cassette", "checksum", "cassettes"]) == 0
    capsys.readouterr()
    run(["doctor", "cassettes"])
    assert "checksum" not in capsys.readouterr().out
    edited(failed, ("Rome is there", "Rome was there"))
    assert run(["doctor", "cassettes"]) == 1
    out = capsys.readouterr().out
    assert re.search(r"wrong  cassettes/c\.yaml: interaction 2 was changed", out), out
    assert "ok     cassettes" not in out


def test_tags_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """The tags of a cassette are in `show` and `ls`, and the column is there only if a cassette has some."""
    with use_cassette("plain", mode="all"):
        look_up("Rome")
    run(["ls"])
    assert "tags" not in capsys.readouterr().out
    with use_cassette("tagged", mode="all", tags=["nightly", "gpt-5"]):
        look_up("Rome")
    run(["ls"])
    out = capsys.readouterr().out
    assert "tags" in out
    assert "nightly, gpt-5" in out
    run(["show", "tagged"])
    assert "[nightly, gpt-5]" in capsys.readouterr().out
    run(["ls", "--json"])
    rows = {row["name"]: row.get("tags") for row in json.loads(capsys.readouterr().out)}
    assert rows == {"plain": None, "tagged": ["nightly", "gpt-5"]}


@pytest.mark.parametrize(
    ("recorded", "asked", "is_drawn"),
    [
        ("4f1a09c27b", "09be77d012", True),
        ("req-4f1a09c2", "req-77d01209", True),
        ("Xy3-kLm_09aBcD", "aQ9_pLk-33xYzT", True),
        (12.345678901, 98.7654321, True),
        (1_732_000_000_123, 1_732_000_900_456, True),
        (1_732_000_000.5, 1_732_000_900.25, True),
        (1_732_000_000.0, 1_732_000_901.0, True),
        ("2026-11-29T18:00:01.123456", "2026-11-29T18:01:02.654321+00:00", True),
        ("Capital of France?", "Capital of Italy?", False),
        ("Paris", "Rome", False),
        ("gpt-5-mini", "gpt-5", False),
        (1, 2, False),
        (0.5, 0.7, False),
        (True, False, False),
        (1_732_000_000, 1.5, False),
        ("decade", "facade", False),
    ],
)
def test_a_value_that_each_run_draws_is_left_out(recorded: Any, asked: Any, is_drawn: bool) -> None:
    """A miss in a random value names the path to ignore, which helps; recording again is no advice there."""

    @boundary("tool")
    def find(city: str, request_id: Any) -> str:
        return city

    with use_cassette("r", mode="all"):
        find("Rome", recorded)
    with pytest.raises(CassetteMissError) as missed, use_cassette("r"):
        find("Rome", asked)
    said = str(missed.value)
    assert ('ignore=["arguments.request_id"]' in said) is is_drawn
    assert ("record everything again" in said) is not is_drawn
    if is_drawn:
        with use_cassette("r", ignore=["arguments.request_id"]):
            assert find("Rome", asked) == "Rome"


def test_drawn_bytes_beside_something_else() -> None:
    """Bytes are named without the tag of their type; where something else differs too, nothing is to be ignored."""

    @boundary("tool")
    def find(city: str, nonce: bytes) -> str:
        return city

    first, other = bytes(range(16)), bytes(range(100, 116))
    with use_cassette("r", mode="all"):
        find("Rome", first)
    with pytest.raises(CassetteMissError, match=r'ignore=\["arguments.nonce"\]'), use_cassette("r"):
        find("Rome", other)
    with use_cassette("r", ignore=["arguments.nonce"]):
        find("Rome", other)
    with pytest.raises(CassetteMissError) as missed, use_cassette("r"):
        find("Oslo", other)
    assert "ignore=" not in str(missed.value)


def test_what_is_unused_is_known_before_the_end() -> None:
    """While a block is open, `unused` has the recordings that were not asked for yet."""
    with use_cassette("c", mode="all"):
        look_up("Rome")
        look_up("Oslo")
    with use_cassette("c", on_unused="ignore") as session:
        look_up("Rome")
        assert [call_record.number for call_record in session.report.unused] == [2]
        assert str(session.report) == "1 replayed, 0 recorded"
        look_up("Oslo")
        assert session.report.unused == ()

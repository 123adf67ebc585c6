"""Checksums: a changed byte of what was recorded is found and named; a new recording of the same run is none."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import boundary, use_cassette

CHECK = ("check", "--only", "checksums")
PATH = Path("cassettes/weather.yaml")
JSONL = Path("cassettes/lines.jsonl")


def problems(ended: Any) -> dict[str, list[str]]:
    """Return what was found, by the path."""
    found = {
        run["path"]: [each["message"] for one in run["checks"] for each in one["findings"]]
        for run in ended.json["runs"]
    }
    return {path: messages for path, messages in found.items() if messages}


def test_a_changed_byte_is_named(command: Any, folder: Path) -> None:
    """One flipped byte in an outcome is a finding with the number of its record, in either layout."""
    assert command("cassette", "convert", PATH, JSONL).code == 0
    assert command("cassette", "checksum").out == "checksums of 2 cassettes written to agenttape-checksums.json\n"
    assert command(*CHECK).code == 0
    for path in (PATH, JSONL):
        text = path.read_text()
        path.write_text(text.replace("Paris: sunny", "Paris: funny"))
        ended = command(*CHECK, "--json")
        assert (ended.code, problems(ended)) == (1, {str(path): ["interaction 2 was changed"]})
        path.write_text(text)
    assert command(*CHECK).out == "2 runs, 2 checks: all passed\n"


def test_the_same_run_recorded_anew_keeps_its_checksums(command: Any, folder: Path) -> None:
    """A new recording of an unchanged run differs in the volatile block alone, which has no checksum."""

    @boundary("tool")
    def roll(sides: int) -> int:
        return 4

    def record(sides: int) -> None:
        with use_cassette("dice", mode="all"):
            roll(sides)

    record(6)
    command("cassette", "checksum", "cassettes/dice.yaml")
    before = Path("cassettes/dice.yaml").read_text()
    record(6)
    assert Path("cassettes/dice.yaml").read_text() != before
    assert command(*CHECK, "cassettes/dice.yaml").code == 0
    record(8)
    assert "cassettes/dice.yaml: checksum: interaction 1 was changed\n" in command(*CHECK, "cassettes/dice.yaml").out


def test_what_is_missing_or_new_is_a_finding(command: Any, folder: Path) -> None:
    """A cassette that has no checksum, or that is gone, and records that were added or removed, are findings."""
    command("cassette", "checksum")
    text = PATH.read_text()
    first, *others = re.split(r"(?<=\n)(?=---\n)", text)
    PATH.write_text("".join([first, *others[:-1], "...\n"]))
    (folder / "cassettes" / "new.yaml").write_text(text)
    assert problems(command(*CHECK, "--json")) == {
        "cassettes/new.yaml": ["it has no checksum: agenttape cassette checksum"],
        str(PATH): ["interaction 3 is gone"],
    }
    PATH.unlink()
    assert problems(command(*CHECK, "--json"))[str(PATH)] == ["it has a checksum, and is gone"]
    assert command("cassette", "checksum").code == 0  # forgets it
    assert command(*CHECK).code == 0


@pytest.mark.parametrize("text", ["{", "[]", '{"checksums": {"a": 1}}', '{"checksums": {"a": {"header": 1}}}'])
def test_a_damaged_file_of_checksums_is_refused(command: Any, folder: Path, text: str) -> None:
    """A damaged file of checksums is an error that says what to do, and stays as it is."""
    Path("agenttape-checksums.json").write_text(text)
    ended = command("cassette", "checksum")
    assert (ended.code, "restore it from version control" in ended.err) == (2, True)
    assert Path("agenttape-checksums.json").read_text() == text


def test_checksums_are_sorted(command: Any, folder: Path) -> None:
    """The file is the same whatever was added first, and has paths from its own folder."""
    (folder / "cassettes" / "a.yaml").write_text(PATH.read_text())
    command("cassette", "checksum", PATH)
    command("cassette", "checksum", "cassettes/a.yaml")
    separate = Path("agenttape-checksums.json").read_text()
    command("cassette", "checksum")
    assert Path("agenttape-checksums.json").read_text() == separate
    assert list(json.loads(separate)["checksums"]) == ["cassettes/a.yaml", str(PATH)]


@pytest.mark.parametrize("data", [b"\x7fELF\xd0\x00", b"", b"agenttape: 99\n...\n"], ids=["binary", "empty", "newer"])
@pytest.mark.parametrize("path", [PATH, JSONL], ids=["yaml", "jsonl"])
def test_what_cannot_be_read_gets_no_checksum(command: Any, folder: Path, path: Path, data: bytes) -> None:
    """A file that isn't a cassette gets no checksum, and fails a check."""
    command("cassette", "checksum")
    path.write_bytes(data)
    assert command("cassette", "checksum", path).code == 3
    assert command("check", path).code == 3

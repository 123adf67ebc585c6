"""Seals: a changed byte of what was recorded is found and named; a new recording of the same run is none."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import boundary, use_cassette

PATH = Path("cassettes/weather.yaml")
JSONL = Path("cassettes/lines.jsonl")


def test_a_changed_byte_is_named(command: Any, folder: Path) -> None:
    """One flipped byte in an outcome is a finding with the number of its record, in either layout."""
    assert command("cassette", "convert", PATH, JSONL).code == 0
    assert command("cassette", "seal").out == "2 cassettes sealed in agenttape-seals.json\n"
    assert command("cassette", "seal", "--check").code == 0
    for path in (PATH, JSONL):
        text = path.read_text()
        path.write_text(text.replace("Paris: sunny", "Paris: funny"))
        ended = command("cassette", "seal", "--check", "--json")
        assert (ended.code, ended.json["problems"]) == (1, {str(path): ["interaction 2 was changed"]})
        path.write_text(text)
    assert command("cassette", "seal", "--check").out == "2 cassettes examined, 0 not as sealed\n"


def test_the_same_run_recorded_anew_keeps_its_seal(command: Any, folder: Path) -> None:
    """A new recording of an unchanged run differs in the volatile block alone, which is no part of the seal."""

    @boundary("tool")
    def roll(sides: int) -> int:
        return 4

    def record(sides: int) -> None:
        with use_cassette("dice", mode="all"):
            roll(sides)

    record(6)
    command("cassette", "seal", "cassettes/dice.yaml")
    before = Path("cassettes/dice.yaml").read_text()
    record(6)
    assert Path("cassettes/dice.yaml").read_text() != before
    assert command("cassette", "seal", "cassettes/dice.yaml", "--check").code == 0
    record(8)
    assert command("cassette", "seal", "cassettes/dice.yaml", "--check").out == (
        "cassettes/dice.yaml: interaction 1 was changed\n1 cassette examined, 1 not as sealed\n"
    )


def test_what_is_missing_or_new_is_a_finding(command: Any, folder: Path) -> None:
    """A cassette that was never sealed, or that is gone, and records that were added or removed, are findings."""
    command("cassette", "seal")
    text = PATH.read_text()
    first, *others = re.split(r"(?<=\n)(?=---\n)", text)
    PATH.write_text("".join([first, *others[:-1], "...\n"]))
    (folder / "cassettes" / "new.yaml").write_text(text)
    problems = command("cassette", "seal", "--check", "--json").json["problems"]
    assert problems == {"cassettes/new.yaml": ["never sealed"], str(PATH): ["interaction 3 is gone"]}
    PATH.unlink()
    assert command("cassette", "seal", "--check", "--json").json["problems"][str(PATH)] == ["sealed, and gone"]
    assert command("cassette", "seal").code == 0  # forgets it
    assert command("cassette", "seal", "--check").code == 0


@pytest.mark.parametrize("text", ["{", "[]", '{"seals": {"a": 1}}', '{"seals": {"a": {"header": 1}}}'])
def test_a_damaged_file_of_seals_is_refused(command: Any, folder: Path, text: str) -> None:
    """A file of seals that is none is an error that says what to do, and stays as it is."""
    Path("agenttape-seals.json").write_text(text)
    ended = command("cassette", "seal")
    assert (ended.code, "restore it from version control" in ended.err) == (2, True)
    assert Path("agenttape-seals.json").read_text() == text


def test_seals_are_sorted(command: Any, folder: Path) -> None:
    """The file is the same whatever was sealed first, and has paths from its own folder."""
    (folder / "cassettes" / "a.yaml").write_text(PATH.read_text())
    command("cassette", "seal", PATH)
    command("cassette", "seal", "cassettes/a.yaml")
    separate = Path("agenttape-seals.json").read_text()
    command("cassette", "seal")
    assert Path("agenttape-seals.json").read_text() == separate
    assert list(json.loads(separate)["seals"]) == ["cassettes/a.yaml", str(PATH)]


@pytest.mark.parametrize("data", [b"\x7fELF\xd0\x00", b"", b"agenttape: 99\n...\n"], ids=["binary", "empty", "newer"])
@pytest.mark.parametrize("path", [PATH, JSONL], ids=["yaml", "jsonl"])
def test_what_cannot_be_read_is_not_sealed(command: Any, folder: Path, path: Path, data: bytes) -> None:
    """Nobody can vouch for a file that is no cassette; in a check, it is a finding beside the others."""
    command("cassette", "seal")
    path.write_bytes(data)
    assert command("cassette", "seal", path).code == 3
    ended = command("cassette", "seal", path, "--check", "--json")
    assert (ended.code, list(ended.json["problems"])) == (1, [str(path)])

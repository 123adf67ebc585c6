"""`show`: where in the tree a record stands, whatever the addresses of a cassette are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agenttape_core.schema import Outcome

from ...kit.records import call, written


def test_places_without_a_record_are_shown_once(tmp_path: Path, command: Any) -> None:
    """A record stands below the place just above it, which is shown once, whether or not it has a record itself."""
    calls = [call(number, address) for number, address in enumerate(["A", "A/b@1/x", "A/b@1/y", "C/z"], 1)]
    shown = command("show", written(tmp_path / "a.yaml", *calls)).out
    lines = [line for line in shown.splitlines() if ">" not in line and "<" not in line]
    words = ["1", "b@1", "2", "3", "C", "4"]
    assert [line.find(word) for line, word in zip(lines[1:], words, strict=True)] == [4, 8, 12, 12, 4, 8]


def test_a_deep_address_is_no_recursion(tmp_path: Path, command: Any) -> None:
    """An address of many places, which a stranger may have written, does not keep other records from being shown."""
    deep, after = call(1, "/".join(["a"] * 1_200)), call(2, "B/after", name="after")
    ended = command("show", written(tmp_path / "a.yaml", deep, after))
    assert ended.code == 0
    assert "2  call after" in ended.out


def test_what_was_given_up_says_so(tmp_path: Path, command: Any) -> None:
    """An answer that nobody waited for looks like any other, but for a line of its own."""
    left = call(outcome=Outcome(status="returned", given_up=0))
    assert "! given up" not in command("show", written(tmp_path / "a.yaml", call())).out
    shown = command("show", written(tmp_path / "b.yaml", left)).out
    assert "! given up by the program, while its thread went on" in shown

"""`show`: where in the tree a record stands, whatever the addresses of a cassette are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agenttape_core.schema import Header, Interaction, Outcome
from agenttape_core.storage import write_cassette


def written(path: Path, *addresses: str, given_up: int | None = None) -> str:
    """Write a cassette with calls at these addresses."""
    write_cassette(
        path,
        Header(name="run"),
        [
            Interaction(
                number=number,
                kind="call",
                name="f",
                address=address,
                fingerprint="0" * 32,
                request={},
                outcome=Outcome(status="returned", given_up=given_up),
            )
            for number, address in enumerate(addresses, 1)
        ],
    )
    return str(path)


def test_places_without_a_record_are_shown_once(tmp_path: Path, command: Any) -> None:
    """A record stands below the place just above it, which is shown once, whether or not it has a record itself."""
    shown = command("show", written(tmp_path / "a.yaml", "A", "A/b@1/x", "A/b@1/y", "C/z")).out
    lines = [line for line in shown.splitlines() if ">" not in line and "<" not in line]
    assert [
        (line.find(word), word) for line, word in zip(lines[1:], ["1", "b@1", "2", "3", "C", "4"], strict=True)
    ] == [
        (4, "1"),
        (8, "b@1"),
        (12, "2"),
        (12, "3"),
        (4, "C"),
        (8, "4"),
    ]


def test_a_deep_address_is_no_recursion(tmp_path: Path, command: Any) -> None:
    """An address of many places, which a stranger may have written, does not keep other records from being shown."""
    ended = command("show", written(tmp_path / "a.yaml", "/".join(["a"] * 1_200), "B/after"))
    assert ended.code == 0
    assert "2  call after" in ended.out


def test_what_was_given_up_says_so(tmp_path: Path, command: Any) -> None:
    """An answer that nobody waited for looks like any other, but for a line of its own."""
    assert "! given up" not in command("show", written(tmp_path / "a.yaml", "A")).out
    assert (
        "! given up by the program, while its thread went on"
        in command("show", written(tmp_path / "b.yaml", "A", given_up=0)).out
    )

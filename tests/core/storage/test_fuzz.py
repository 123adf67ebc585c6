"""Damaged files give cassette errors with a file, never anything else."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from agenttape_core.errors import CassetteError
from agenttape_core.schema import Header, Interaction, Timing
from agenttape_core.storage import Journal, open_cassette, recover, write_cassette

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CASES = 300
_TOKENS = [
    b"\x00",
    b"\xff",
    b"\n",
    b"---\n",
    b"...\n",
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b"'",
    b": ",
    b"- ",
    b"|",
    b"&a",
    b"*a",
]
_TOKENS += [
    b"!!python/name:os",
    b"<<: ",
    b"\\ud800",
    b"1e999",
    b"-1",
    b"9" * 40,
    b"null",
    b"interaction: 1\n",
    b"\t",
    b"\r",
]


def mutate(source: random.Random, data: bytes) -> bytes:
    """Cut, overwrite, insert, remove, repeat or swap a piece or two."""
    changed = bytearray(data)
    for _ in range(source.randint(1, 3)):
        start = source.randrange(len(changed) + 1)
        end = min(len(changed), start + source.randint(0, 30))
        how = source.randrange(6)
        if how == 0:
            del changed[start:end]
        elif how == 1:
            changed[start:start] = source.choice(_TOKENS)
        elif how == 2:
            changed[start : start + 1] = bytes([source.randrange(256)])
        elif how == 3:
            changed[start:start] = changed[start:end]
        elif how == 4:
            changed[start:end] = source.choice(_TOKENS)
        else:
            lines = changed.split(b"\n")
            source.shuffle(lines) if source.random() < 0.2 else lines.reverse()
            changed = bytearray(b"\n".join(lines))
    return bytes(changed)


def read_everything(path: Path) -> None:
    """Touch all that a cassette can be asked for."""
    cassette = open_cassette(path)
    assert cassette.header.name is not None
    for entry in cassette.entries:
        cassette.outcome(entry.number)
        cassette.ids(entry.number)
        cassette.interaction(entry.number)


def refusal(action: Callable[[], object]) -> CassetteError | None:
    """The cassette error that an action ends with, if it does; any other exception fails the test."""
    try:
        action()
    except CassetteError as error:
        return error
    return None


@pytest.mark.parametrize("suffix", [".yaml", ".jsonl", ".yaml.gz"])
def test_mutated_files_are_read_or_refused(
    tmp_path: Path, agent: Callable[[int], list[Interaction]], full_header: Header, suffix: str
) -> None:
    """Whatever a few hundred random damages do, the reader answers with a `CassetteError` that names the file."""
    source = random.Random(f"storage{suffix}")
    path = tmp_path / f"tape{suffix}"
    write_cassette(path, full_header, agent(2))
    whole = path.read_bytes()
    refused = 0
    for _ in range(CASES):
        path.write_bytes(mutate(source, whole))
        error = refusal(lambda: read_everything(path))
        if error:
            refused += 1
            assert error.path == path
            assert suffix == ".yaml.gz" or error.line is not None
    assert refused > CASES // 4


@pytest.mark.parametrize("suffix", [".yaml", ".jsonl", ".jsonl.gz"])
def test_random_bytes_are_refused(tmp_path: Path, suffix: str) -> None:
    """Files that never were cassettes are refused on opening."""
    source = random.Random(7)
    path = tmp_path / f"noise{suffix}"
    for size in range(200):
        path.write_bytes(source.randbytes(size))
        with pytest.raises(CassetteError):
            open_cassette(path)


def test_mutated_journals_are_recovered_or_refused(
    tmp_path: Path, agent: Callable[[int], list[Interaction]], full_header: Header
) -> None:
    """The same holds for journals."""
    journal = Journal(tmp_path / "tape.yaml", full_header)
    for interaction in agent(2):
        journal.append(interaction, Timing(duration_ms=1.0, offsets_ms=[0.1]), (interaction.number, "x"))
    left = journal.abandon(keep=True)
    assert left is not None
    whole, source = left.read_bytes(), random.Random(11)
    for _ in range(CASES // 2):
        left.write_bytes(mutate(source, whole))
        error = refusal(lambda: recover(left, tmp_path / "out.jsonl"))
        assert error is None or error.path == left

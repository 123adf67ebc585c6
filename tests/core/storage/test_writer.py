"""Writing a cassette: the layout of the text, and what happens when the disk does not cooperate."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agenttape_core.errors import CassetteWriteError, UnrecordableValueError
from agenttape_core.format import limits
from agenttape_core.schema import Header, Interaction, Outcome, Timing, Volatile
from agenttape_core.storage import open_cassette, write_cassette

MakeInteraction = Callable[..., Interaction]
as_user = pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="permissions do not bind this user")


def test_the_text_reads_as_a_transcript(tmp_path: Path, make: MakeInteraction) -> None:
    """The exact layout: fixed keys first, blocks of text, continuations, nothing that is empty, an end mark."""
    first = make(1, request={"model": "fake", "messages": [{"role": "human", "content": "Hi\nthere: you"}]})
    second = make(
        2,
        parent=1,
        ids=["run-1"],
        fingerprint="0" * 32,
        request={
            "model": "fake",
            "messages": [{"role": "human", "content": "Hi\nthere: you"}, {"role": "tool", "content": "yes"}],
        },
        outcome=Outcome(status="streamed", chunks=["a", [1.5, 2], {"x": {"z": []}}], ended="exhausted"),
    )
    volatile = Volatile(created="2026-01-02", timings={1: Timing(duration_ms=12.34, offsets_ms=[1, 2.06])})
    path = tmp_path / "tape.yaml"

    write_cassette(path, Header(name="tape", volatile=volatile), [first, second])

    assert path.read_text() == (
        "agenttape: 1\n"
        "name: tape\n"
        "volatile:\n"
        '  created: "2026-01-02"\n'
        "  timings: |\n"
        "    1 12.3 1.0 2.1\n"
        "---\n"
        "interaction: 1\n"
        "kind: chat\n"
        "name: FakeModel\n"
        "address: agent/model#1\n"
        "fingerprint: f0000000000000000000000000000001\n"
        "request:\n"
        "  model: fake\n"
        "  messages:\n"
        "  - role: human\n"
        "    content: |-\n"
        "      Hi\n"
        "      there: you\n"
        "outcome:\n"
        "  status: returned\n"
        "  value:\n"
        "    role: ai\n"
        "    content: answer 1\n"
        "---\n"
        "interaction: 2\n"
        "kind: chat\n"
        "name: FakeModel\n"
        "address: agent/model#2\n"
        'fingerprint: "00000000000000000000000000000000"\n'
        "parent: 1\n"
        "ids:\n"
        "- run-1\n"
        "continues: 1\n"
        "request:\n"
        "  messages:\n"
        "  - role: tool\n"
        '    content: "yes"\n'
        "outcome:\n"
        "  status: streamed\n"
        "  chunks:\n"
        "  - a\n"
        "  - [1.5, 2]\n"
        "  - x:\n"
        "      z: []\n"
        "  ended: exhausted\n"
        "...\n"
    )


def test_a_rename_that_fails_keeps_old_and_new(
    tmp_path: Path, make: MakeInteraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old cassette is untouched, and the complete new one is where the error says."""
    path = tmp_path / "tape.yaml"
    write_cassette(path, Header(name="old"), [])

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(CassetteWriteError, match="No space left on device; what was recorded is kept in"):
        write_cassette(path, Header(name="new"), [make(1)])
    monkeypatch.undo()

    assert open_cassette(path).header.name == "old"
    (kept,) = tmp_path.glob(".tape.yaml.*.tmp")
    assert open_cassette(kept.rename(tmp_path / "kept.yaml")).interaction(1) == make(1)


def test_a_write_that_fails_leaves_nothing_behind(
    tmp_path: Path, make: MakeInteraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a temporary file is of no use and is removed."""

    def refuse(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(CassetteWriteError, match="Input/output error"):
        write_cassette(tmp_path / "tape.yaml", Header(name="new"), [make(1)])

    assert list(tmp_path.iterdir()) == []


@as_user
def test_a_read_only_folder_is_a_write_error(tmp_path: Path) -> None:
    """The system's refusal becomes an error with the path of the cassette."""
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(CassetteWriteError):
            write_cassette(tmp_path / "tape.yaml", Header(name="x"), [])
    finally:
        tmp_path.chmod(0o700)


def test_a_folder_that_cannot_be_made_is_a_write_error(tmp_path: Path) -> None:
    """A file in the place of the folder is explained, not raised as it is."""
    (tmp_path / "file").write_text("")

    with pytest.raises(CassetteWriteError, match="folder cannot be created"):
        write_cassette(tmp_path / "file" / "deep" / "tape.yaml", Header(name="x"), [])


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX modes and links")
def test_links_and_modes_survive(tmp_path: Path) -> None:
    """A link to a cassette stays a link, and the permissions of the file stay as they were."""
    real, link = tmp_path / "real.yaml", tmp_path / "link.yaml"
    write_cassette(real, Header(name="old"), [])
    real.chmod(0o640)
    link.symlink_to(real)

    write_cassette(link, Header(name="new"), [])

    assert link.is_symlink()
    assert open_cassette(real).header.name == "new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


def test_nothing_is_written_that_could_not_be_read(
    tmp_path: Path, make: MakeInteraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values that are not plain, numbers that do not grow, and records over the limit are refused."""
    path = tmp_path / "tape.yaml"
    with pytest.raises(UnrecordableValueError, match=r"outcome\.value"):
        write_cassette(path, Header(name="x"), [make(1, outcome=Outcome(status="returned", value={1, 2}))])
    with pytest.raises(UnrecordableValueError, match=r"request\.messages\[0\]"):
        write_cassette(path, Header(name="x"), [make(1, request={"messages": [object()]})])
    with pytest.raises(UnrecordableValueError, match="input"):
        write_cassette(path, Header(name="x", input=b"raw"), [])
    with pytest.raises(UnrecordableValueError, match="duration"):
        timings = {1: Timing(duration_ms=float("inf"))}
        write_cassette(path, Header(name="x", volatile=Volatile(timings=timings)), [])
    with pytest.raises(CassetteWriteError, match="numbers must grow"):
        write_cassette(path, Header(name="x"), [make(2), make(2)])
    monkeypatch.setattr(limits, "MAX_RECORD_BYTES", 100)
    with pytest.raises(CassetteWriteError, match=r"record 1 .*larger than the limit"):
        write_cassette(path, Header(name="x"), [make(1)])

    assert not path.exists()

"""What the command ends with where it is stopped, misused, or given what cannot be read."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

WEATHER = "cassettes/weather.yaml"
JOURNAL = ".rain.yaml.4711-0a1b2c3d.journal"


@pytest.fixture
def broken(folder: Path) -> Path:
    """A cassette that is malformed, beside a good one."""
    path = folder / "broken.yaml"
    path.write_text((folder / WEATHER).read_text("utf-8").replace("outcome:\n  status: ", "outcome:\n  status: un", 1))
    return path


@pytest.mark.parametrize(
    "words",
    [
        ["nope"],
        ["check", "--nope"],
        ["ls", "--nope"],
        ["show", WEATHER, "second.yaml"],
        ["show", "--stats", "--timeline"],
        ["show", WEATHER, "--call", "x"],
        ["show", WEATHER, "--step", "1", "--call", "1"],
        ["diff", "-", "-"],
        ["diff", WEATHER, "."],
        ["show", "--timeline"],
        ["show", "--timeline", "."],
        ["cassette", "recover", "--nope"],
        ["cassette", "recover", WEATHER],
        ["cassette", "convert", "-"],
        ["cassette", "convert", WEATHER, "weather.txt"],
        ["import", "-"],
        ["verify"],
        ["verify", "agent.py:run", "--cassette", "-"],
        ["verify", "agent.py:run", "--cassette", WEATHER, "--runs", "1"],
    ],
    ids=" ".join,
)
def test_misused(command: Any, folder: Path, words: list[str]) -> None:
    """A command that is used wrongly ends with 2, and says so in words of the command, not of this machine."""
    (folder / "second.yaml").write_bytes((folder / WEATHER).read_bytes())
    ended = command(*words)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err
    assert str(folder) not in ended.err


@pytest.mark.parametrize("path", ["gone.yaml", "empty", "docker.yaml"])
@pytest.mark.parametrize("subcommand", ["check", "ls", "show", "show --stats", "show --timeline"])
def test_no_cassette(command: Any, folder: Path, subcommand: str, path: str) -> None:
    """A path that is no cassette ends with 3 and is named."""
    (folder / "empty").mkdir()
    ended = command(*subcommand.split(), path)
    assert ended.code == 3
    assert path in ended.out + ended.err


@pytest.mark.parametrize("words", [["recover", "gone"], ["convert", "gone.yaml", "a.jsonl"]])
def test_gone(command: Any, words: list[str]) -> None:
    """A path that is nothing ends with 3, whatever should be done with it."""
    ended = command("cassette", *words)
    assert (ended.code, words[1] in ended.err) == (3, True)


def test_recover_a_broken_journal(command: Any, folder: Path) -> None:
    """A journal that is malformed ends with 3 and is named and kept; the others are recovered all the same."""
    (folder / JOURNAL).write_text("{}\n")
    for words in ([], ["--json"]):
        ended = command("cassette", "recover", *words)
        assert (ended.code, JOURNAL in ended.out) == (3, True)
    assert (folder / JOURNAL).exists()


@pytest.mark.parametrize("words", [["gone.yaml"], ["gone"], ["broken.yaml"], ["broken.yaml", "--json"]])
def test_verify_without_a_cassette_to_read(command: Any, broken: Path, words: list[str]) -> None:
    """A cassette that is not there or is broken ends with 3, before any process looks for the function."""
    assert broken.exists()
    ended = command("verify", "agent.py:there_is_none", "--cassette", *words)
    assert (ended.code, ended.out) == (3, "")
    assert words[0] in ended.err


@pytest.mark.parametrize("is_cut", [True, False])
@pytest.mark.process
def test_record_onto_a_broken_cassette(command: Any, broken: Path, is_cut: bool) -> None:
    """To add to a cassette that cannot be read ends with 3; it stays as it is, and what was recorded is beside it."""
    broken.write_bytes(before := broken.read_bytes()[: -10 if is_cut else None])
    code = "from agenttape_core import boundary; boundary(abs)(-1)"
    ended = command("record", "--mode", "new_episodes", "--cassette", "broken.yaml", "--", sys.executable, "-c", code)
    assert ended.code == 3
    assert "broken.yaml" in ended.err
    assert broken.read_bytes() == before
    assert command("check", "--only", "files", "broken.recovered.yaml").code == (3 if is_cut else 0)


def test_interrupted(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C ends with 130, as in any other command, and without a traceback."""

    class Interrupted(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            raise KeyboardInterrupt

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(Interrupted()))
    assert command("show", "--stats", "-") == (130, "", "\nagenttape: interrupted\n")


@pytest.mark.process
@pytest.mark.parametrize("words", [["show", "--json", WEATHER], ["export", WEATHER], ["show", WEATHER, "--html", "-"]])
def test_nobody_reads_any_more(folder: Path, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """When the reader of a pipe has gone, as `head` does, that is no error."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)  # with it, nothing would be left to write at the exit
    reading, writing = os.pipe()
    os.close(reading)
    code = "import sys; from agenttape_core.cli import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", code, *words]
    try:
        done = subprocess.run(command, cwd=folder, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="permissions do not bind this user")
@pytest.mark.parametrize("words", [["check"], ["ls"], ["show", "cassettes/secret.yaml"]], ids=" ".join)
def test_without_permission(command: Any, folder: Path, words: list[str]) -> None:
    """A cassette that may not be read is named and ends with 3, also in a folder; another file is passed over."""
    for name in ("cassettes/secret.yaml", "other.yaml"):
        shutil.copy(folder / WEATHER, folder / name)
        (folder / name).chmod(0)
    ended = command(*words)
    assert ended.code == 3
    assert "cassettes/secret.yaml: the file cannot be read: Permission denied" in ended.out + ended.err
    assert "other.yaml" not in ended.out + ended.err

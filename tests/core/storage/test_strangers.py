"""Files of a stranger: they cost an error, and neither the machine nor another file."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from agenttape_core import boundary, use_cassette
from agenttape_core.errors import (
    CassetteFormatError,
    CassetteMissError,
    CassetteWriteError,
    ConfigurationError,
    visible,
)
from agenttape_core.format import limits
from agenttape_core.storage import cassette_path, open_cassette
from agenttape_core.storage.lock import WriterLock, holder, lock_path

posix = pytest.mark.skipif(sys.platform == "win32", reason="links and pipes are made as POSIX does it")
HEAD = "agenttape: 1\nname: x\n"


@boundary("tool")
def look(what: str) -> str:
    """Return what was asked."""
    return what


@posix
@pytest.mark.parametrize("how", ["link", "hard link", "pipe", "a file of somebody's"])
def test_a_lock_is_no_way_to_another_file(tmp_path: Path, how: str) -> None:
    """What stands where a lock belongs is not followed, emptied or waited for, unless it is a lock of ours."""
    victim, cassette = tmp_path / "victim.txt", tmp_path / "c.yaml"
    victim.write_text("precious\n")
    lock = lock_path(cassette)
    if how == "link":
        lock.symlink_to(victim)
    elif how == "hard link":
        lock.hardlink_to(victim)
    elif how == "pipe":
        os.mkfifo(lock)
    else:
        lock.write_text("precious\n")
    assert holder(cassette) is None
    with pytest.raises(CassetteWriteError, match="lock"):
        WriterLock(cassette, "1 c")
    assert victim.read_text() == "precious\n"
    assert how != "a file of somebody's" or lock.read_text() == "precious\n"


def test_a_lock_that_was_left_is_taken(tmp_path: Path) -> None:
    """The note of a process that died is ours, and the name in a note has one line."""
    cassette = tmp_path / "c.yaml"
    lock_path(cassette).write_text("123 .c.yaml.123-abc.journal")
    lock = WriterLock(cassette, "7 a\nb")
    assert lock_path(cassette).read_text() == "7 a?b"
    lock.release()


@pytest.mark.slow
@pytest.mark.parametrize(("text", "why"), [
    (HEAD + "input: [" + "x," * limits.MAX_FOREIGN_VALUES + "]\n...\n", "has not laid out"),
    (HEAD + "input:\n" + "- 1\n" * (limits.MAX_VALUES + 1) + "...\n", "lines in one record"),
])  # fmt: skip
def test_values_of_a_record_are_counted(tmp_path: Path, text: str, why: str) -> None:
    """A small packed file with millions of values is refused before they are made."""
    path = tmp_path / "c.yaml.gz"
    path.write_bytes(gzip.compress(text.encode(), 1))
    with pytest.raises(CassetteFormatError, match=f"c.yaml.gz:1: .*{why}"):
        _ = open_cassette(path).header


def test_values_of_json_are_counted(tmp_path: Path) -> None:
    """Commas in a text are no values."""
    path = tmp_path / "c.jsonl"
    path.write_text('{"agenttape":1,"name":"x","input":[' + "1," * limits.MAX_VALUES + '1]}\n{"end":true}\n')
    with pytest.raises(CassetteFormatError, match="values in one record"):
        _ = open_cassette(path).header
    path.write_text('{"agenttape":1,"name":"x","input":"' + "," * (limits.MAX_VALUES + 9) + '"}\n{"end":true}\n')
    assert len(open_cassette(path).header.input) > limits.MAX_VALUES


def test_what_is_unpacked_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is small while packed may not be large unpacked; nor is such a one written."""
    monkeypatch.setattr(limits, "MAX_UNPACKED_BYTES", 100_000)
    path = tmp_path / "c.jsonl.gz"
    path.write_bytes(gzip.compress(b" " * 2_000_000))
    with pytest.raises(CassetteFormatError, match="larger than the limit of"):
        open_cassette(path)
    with pytest.raises(CassetteWriteError, match="packs so well"), use_cassette(path, mode="all"):
        look("so it goes. " * 300_000)


@pytest.mark.parametrize(("name", "why"), [
    ("~/c.yaml", "only a shell takes ~"), ("~root/c", "only a shell takes ~"), ("a\ud800b", "lone surrogate"),
])  # fmt: skip
def test_names_that_no_file_should_have(name: str, why: str) -> None:
    """They are refused at entry."""
    with pytest.raises(ConfigurationError, match=why):
        cassette_path(name, "cassettes")


@posix
def test_a_pipe_is_no_cassette(tmp_path: Path) -> None:
    """It is refused and not waited for."""
    os.mkfifo(tmp_path / "c.yaml")
    with pytest.raises(CassetteFormatError, match="a regular file"):
        open_cassette(tmp_path / "c.yaml")


def test_a_web_server_takes_no_cassette() -> None:
    """A recording to it is refused before the program runs."""
    pytest.importorskip("fsspec", reason="fsspec is not installed")
    with pytest.raises(ConfigurationError, match="a web server takes no cassette"):
        use_cassette("http://127.0.0.1:9/c.yaml", mode="all", auto=False).__enter__()


def test_messages_spell_control_characters_out(tmp_path: Path) -> None:
    """What a cassette holds does nothing to a terminal or to a CI system that shows an error."""
    path = tmp_path / "c.yaml"
    evil = "\x1b]0;PWNED\x07\x1b[2J\n::set-output name=x::y"
    with use_cassette(path, mode="all"):
        look(evil)
    with pytest.raises(CassetteMissError) as missed, use_cassette(path, on_unused="ignore"):
        look("other")
    odd = CassetteFormatError(tmp_path / "a\x1b[2J\n::error::.yaml", f"unknown key {evil}")
    for said in (str(missed.value), missed.value.summary, str(odd)):
        assert "\x1b" not in said
        assert "\x07" not in said
        assert not [line for line in said.splitlines() if line.startswith("::")]
    assert visible("Köln 日本\tx\n") == "Köln 日本\tx\n"


@pytest.mark.process
@posix
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="it reads the memory of a process from /proc")
def test_a_bomb_is_cheap(tmp_path: Path) -> None:
    """Sixty kilobytes that are sixty megabytes of values cost less than 2 s of processor time and 300 MB."""
    path = tmp_path / "c.yaml.gz"
    path.write_bytes(gzip.compress((HEAD + "input: [" + "x," * 30_000_000 + "]\n...\n").encode(), 6))
    code = f"""
        import re, resource, sys
        from agenttape_core.errors import CassetteFormatError
        from agenttape_core.storage import open_cassette
        before = resource.getrusage(resource.RUSAGE_SELF)
        try:
            open_cassette({str(path)!r}).header
        except CassetteFormatError:
            used = resource.getrusage(resource.RUSAGE_SELF)
            status = open("/proc/self/status").read()  # ru_maxrss counts the process that started this one
            peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", status)[1])
            sys.exit(peak > 300 * 1024 or used.ru_utime - before.ru_utime > 2)
        sys.exit(9)
    """
    assert subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False).returncode == 0

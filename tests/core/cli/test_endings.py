"""How commands end and speak: stopped, misused or given what can't be read, on a terminal and elsewhere."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from agenttape_core.cli.output import print_table, printable
from agenttape_core.tools.reading import prices

from .conftest import record

WEATHER = "cassettes/weather.yaml"


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
    (folder / JOURNAL.format(4711)).write_text("{}\n")
    for words in ([], ["--json"]):
        ended = command("cassette", "recover", *words)
        assert (ended.code, JOURNAL.format(4711) in ended.out) == (3, True)
    assert (folder / JOURNAL.format(4711)).exists()


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
@pytest.mark.parametrize(
    "words", [["export", WEATHER], pytest.param(["show", WEATHER, "--html", "-"], marks=pytest.mark.night)]
)
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


HOSTILE = "\x07\x1b\x7f\x9b\u202e\u2066\U000e0041"
"""Bell, escape, delete, the control sequence introducer, overrides of direction, an invisible tag."""
JOURNAL = ".rain.yaml.{}-0a1b2c3d.journal"


@pytest.mark.parametrize(
    "words", [["show"], ["show", "--json"], ["show", "--call", "1"], ["diff", WEATHER], ["export"]], ids=" ".join
)
def test_nothing_acts_on_a_terminal(command: Any, folder: Path, words: list[str]) -> None:
    """Controls of one byte, of Unicode, and what turns text around are shown as escapes; letters are not."""
    text = f"{HOSTILE}2J [bold]Zürich[/bold]"
    ended = command(*words, record(folder / "evil.yaml", text).name)
    assert ended.code == 0
    assert not set(HOSTILE) & set(ended.out)
    assert "2J [bold]" in ended.out
    assert ("Zürich" in ended.out) is (words != ["export"])
    if "--json" in words:
        assert ended.json["records"][0]["request"]["messages"][0]["content"] == text


def test_complaints_do_not_act_on_a_terminal(command: Any) -> None:
    """What is said of a file on standard error is as harmless."""
    ended = command("show", "\x9b2J\u202e.yaml")
    assert ended.code == 3
    assert "\\x9b2J\\u202e.yaml" in ended.err


@pytest.mark.parametrize(
    ("words", "label"),
    [
        (["check"], "checking"),
        (["ls"], "reading"),
        (["show", "--stats"], "reading"),
        (["check", "--only", "secrets"], "scanning"),
        (["cassette", "recover"], "recovering"),
        (["show", WEATHER, "--html", "page.html"], "reading"),
    ],
)
def test_progress(command: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], label: str) -> None:
    """How far long work is, is shown on a terminal, on standard error, and never beside JSON."""
    record(folder / "second.yaml")
    for process in (4711, 4712):
        (folder / JOURNAL.format(process)).write_text("{}\n")
    for is_terminal, added in ((True, []), (True, ["--json"]), (False, [])):
        monkeypatch.setattr("sys.stderr", told := io.StringIO())
        monkeypatch.setattr(told, "isatty", lambda shown=is_terminal: shown)
        ended = command(*words, *added)
        assert ended.out
        assert label not in ended.out
        assert (label in told.getvalue()) is (is_terminal and not added)


@pytest.mark.parametrize("subcommand", ["ls", "show --stats", "show --html=page.html"])
@pytest.mark.process
def test_prices_of_the_project(command: Any, folder: Path, kinds: Mapping[str, Path], subcommand: str) -> None:
    """What calls cost follows the table that the settings name."""
    (folder / "priced.yaml").write_bytes(kinds["langchain"].read_bytes())
    (folder / "prices.json").write_text('{"gpt-5-mini": {"input": 1000000, "output": 1000000}}')
    (folder / "pyproject.toml").write_text('[tool.agenttape]\nprices = "prices.json"\n')
    told = command(*subcommand.split(), "priced.yaml", "--json").json
    (total,) = (
        command("ls", "priced.yaml", "--json").json if "html" in subcommand else told if subcommand == "ls" else [told]
    )
    assert total["dollars"] == total["input_tokens"] + total["output_tokens"] > 0
    if "html" in subcommand:
        assert f'"dollars":{total["dollars"]}' in Path(told["written"]).read_text("utf-8")


@pytest.mark.parametrize("subcommand", ["ls", "show --stats"])
def test_without_prices(command: Any, subcommand: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no prices are installed, commands that show costs say how to get some; tokens are counted all the same."""
    monkeypatch.setattr(prices, "_installed", prices.NoPrices)
    assert "pip install 'agenttape-core[prices]'" in command(*subcommand.split(), "cassettes").out


@pytest.mark.parametrize("wide", [False, True], ids=["narrow", "wide"])
def test_tables_are_drawn_as_rich_draws_them(capsys: pytest.CaptureFixture[str], wide: bool) -> None:
    """Without a terminal, columns stand as rich puts them, also where letters are wide or cells are too long."""
    rows = [
        ["日本", "1,234 "],
        ["e\u0301 [b]", " 5"],
        ["\x1b[2J", ""],
        ["one\ttwo" if wide else "one", "x" * 300 * wide],
    ]
    print_table(("what", "how much"), rows, right=frozenset({"how much"}))
    table = Table(box=None, pad_edge=False)
    table.add_column("what", overflow="fold")
    table.add_column("how much", justify="right", overflow="fold")
    for row in rows:
        table.add_row(*map(printable, row))
    drawn = io.StringIO()
    Console(file=drawn, width=200, soft_wrap=True, highlight=False, emoji=False, markup=False).print(table)
    assert capsys.readouterr().out == drawn.getvalue()

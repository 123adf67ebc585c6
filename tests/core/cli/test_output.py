"""How commands speak: nothing of a cassette acts on a terminal, long work shows how far it is, and settings count."""

from __future__ import annotations

import io
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

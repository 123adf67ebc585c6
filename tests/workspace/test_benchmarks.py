"""The benchmarks work; what they measure is for people to read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from agenttape_core.cli.app import agenttape

ROOT = Path(__file__).resolve().parents[2]


def parse(words: list[str]) -> None:
    """Parse a command line, without running the command.

    Raises:
        click.UsageError: There is no such command, or it has no such option.
    """
    command: click.Command = agenttape
    while isinstance(command, click.Group):
        context = command.make_context(words[0], words, resilient_parsing=True)
        _, chosen, words = command.resolve_command(context, words)
        assert chosen is not None
        command = chosen
    command.make_context(command.name, words)


def test_commands_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command has each subcommand and option that a benchmark measures."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from commands import COMMANDS, command_line

    (path := tmp_path / "any.yaml").touch()
    for subcommand in COMMANDS:
        parse(command_line(subcommand, path, tmp_path))


@pytest.mark.parametrize("words", [["coverage", "any.yaml"], ["show", "--coverage", "any.yaml"]])
def test_another_command_is_refused(words: list[str]) -> None:
    """A command or an option that does not exist is an error where it is parsed."""
    with pytest.raises(click.UsageError):
        parse(words)


@pytest.mark.process
@pytest.mark.night
def test_quick(tmp_path: Path) -> None:
    """All measurements can be made, and their table is written between the markers of a page."""
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- measured -->\nold\n<!-- end -->\nafter\n")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("AGENTTAPE_")}
    subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "run.py", "--quick", "--write", page],
        check=True,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
    )
    written = page.read_text()
    assert "| open a cassette of 20 interactions (yaml) | " in written
    assert "Measured with " in written
    assert (written.startswith("before\n"), written.endswith("after\n"), "old" in written) == (True, True, False)

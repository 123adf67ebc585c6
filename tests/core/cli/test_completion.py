"""Completion in a shell, asked for as click's own scripts ask."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from agenttape_core.cli.app import VERBS

AGENTTAPE = Path(sys.executable).with_name("agenttape")


def completed(*words: str) -> list[list[str]]:
    """Return what Bash is told to complete the last word with: pairs of what it is and its text."""
    asked = {"COMP_WORDS": " ".join(("agenttape", *words)), "COMP_CWORD": str(len(words))}
    environment = {**os.environ, **asked, "_AGENTTAPE_COMPLETE": "bash_complete"}
    done = subprocess.run([AGENTTAPE], env=environment, capture_output=True, text=True, check=True)
    return [line.split(",") for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([""], [["plain", verb] for verb in VERBS]),
        (["ti"], [["plain", "timeline"]]),
        (["show", "cass"], [["file", "cass"]]),
        (["ls", "a.yaml", ""], [["file", ""]]),
        (["show", "--int"], [["plain", "--interaction"]]),
        (["stale", "--check", "pa"], [["plain", "package"]]),
    ],
)
def test_bash(words: Sequence[str], told: list[list[str]]) -> None:
    """Verbs, options and their choices are completed; where a cassette is to be named, files are."""
    assert completed(*words) == told


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts(shell: str) -> None:
    """The installed command prints the script that a shell is to run."""
    environment = {**os.environ, "_AGENTTAPE_COMPLETE": f"{shell}_source"}
    done = subprocess.run([AGENTTAPE], env=environment, capture_output=True, text=True, check=False)
    if done.returncode and "Bash" in done.stderr:
        pytest.skip("there is no Bash that is new enough")
    assert f"_AGENTTAPE_COMPLETE={shell}_complete" in done.stdout


def test_it_is_quick() -> None:
    """Verbs are completed without importing any of them."""
    code = (
        "import sys; from agenttape_core.cli.app import agenttape; import click\n"
        "context = click.Context(agenttape)\n"
        "assert len(agenttape.shell_complete(context, '')) > 5\n"
        "sys.exit(any(name.startswith('agenttape_core.cli.verbs.') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

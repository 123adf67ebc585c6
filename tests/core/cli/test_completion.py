"""Completion in a shell, as click's own scripts ask for it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete, get_completion_class

from agenttape_core.cli.app import GROUPS, OF_CASSETTES, agenttape

pytestmark = pytest.mark.process

AGENTTAPE = Path(sys.executable).with_name("agenttape")
VARIABLE = "_AGENTTAPE_COMPLETE"


def completion(shell: str) -> ShellComplete:
    """Return the completion of the command in a shell."""
    found = get_completion_class(shell)
    assert found is not None
    return found(agenttape, {}, "agenttape", VARIABLE)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([""], [("plain", name) for group in GROUPS.values() for name in group]),
        (["cassette", ""], [("plain", name) for name in OF_CASSETTES]),
        (["sh"], [("plain", "show")]),
        (["show", "cass"], [("file", "cass")]),
        (["ls", "a.yaml", ""], [("file", "")]),
        (["show", "--ti"], [("plain", "--timeline")]),
        (["check", "--only", "pa"], [("plain", "package")]),
        (["review", "acc"], [("plain", "accept"), ("file", "acc")]),
        (["review", "list", "cas"], [("file", "cas")]),
    ],
)
def test_words(words: Sequence[str], told: list[tuple[str, str]]) -> None:
    """Commands, options and their choices are completed; where a cassette is to be named, files are."""
    items = completion("bash").get_completions([*words[:-1]], words[-1])
    assert [(item.type, item.value) for item in items] == told


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_scripts(shell: str) -> None:
    """The script that a shell is to run asks the command back."""
    assert f"{VARIABLE}={shell}_complete" in completion(shell).source()


def test_the_installed_command() -> None:
    """The installed command prints the script, and answers it."""
    asked = {VARIABLE: "zsh_source"}, {VARIABLE: "zsh_complete", "COMP_WORDS": "agenttape sh", "COMP_CWORD": "1"}
    script, words = (
        subprocess.run([AGENTTAPE], env={**os.environ, **each}, capture_output=True, text=True, check=True).stdout
        for each in asked
    )
    assert f"{VARIABLE}=zsh_complete" in script
    assert words.split() == ["plain", "show", "_"]


def test_it_is_quick() -> None:
    """Commands are completed without importing any of them."""
    code = (
        "import sys; from agenttape_core.cli.app import agenttape; import click\n"
        "context = click.Context(agenttape)\n"
        "assert len(agenttape.shell_complete(context, '')) > 5\n"
        "sys.exit(any(name.startswith('agenttape_core.cli.commands.') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

"""Real commands with real processes, in a folder with small programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from agenttape_core.cli.app import run

from ....kit.ended import Ended

TOOLS = """
import os
from agenttape_core import boundary

@boundary("tool")
def look_up(city):
    return f"{city}: {os.getpid()}"
"""
"""What differs from run to run, unless it is replayed."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a module of tools, in the environment of a user's shell."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("AGENTTAPE_", "_AGENTTAPE_", "PYTEST_", "COV_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "tools.py").write_text(TOOLS, encoding="utf-8")
    return tmp_path


@pytest.fixture
def forked_python(folder: Path, python: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `python` be a fork, which takes a third of the time; `sys.executable` still is the real one."""
    monkeypatch.setenv("PATH", f"{python}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def forked_functions(python: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `sys.executable`, which runs a command's function, be a fork as well."""
    monkeypatch.setattr(sys, "executable", str(python / "python"))


@pytest.fixture
def program(folder: Path) -> Callable[[str, str], str]:
    """Write a program, and return its name."""

    def program(name: str, text: str) -> str:
        (folder / name).write_text(dedent(text), encoding="utf-8")
        return name

    return program


@pytest.fixture
def agenttape(folder: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Run `agenttape`, in this process; the command that it runs has its own."""

    def agenttape(*words: str) -> Ended:
        capfd.readouterr()
        code = run(words)
        return Ended(code, *capfd.readouterr())

    return agenttape


def cassettes(folder: Path) -> list[str]:
    """The files that recordings have left, hidden ones too."""
    found = (folder / "cassettes").rglob("*") if (folder / "cassettes").exists() else []
    return sorted(path.relative_to(folder / "cassettes").as_posix() for path in found if path.is_file())

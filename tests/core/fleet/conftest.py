"""The command in this process, in a folder of its own, with the desk as its program."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agenttape_core.cli.app import run

from . import desk

APP = f"{desk.__name__}:answer"


class Ended(NamedTuple):
    """The end of a command: its exit code, and its output."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its output as data."""
        return json.loads(self.out)


Command = Callable[..., Ended]


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run `agenttape fleet` in a folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(desk, "how", "as recorded")

    def run_it(*words: object) -> Ended:
        capsys.readouterr()
        code = run(["fleet", *map(str, words)])
        captured = capsys.readouterr()
        return Ended(code, captured.out, captured.err)

    return run_it

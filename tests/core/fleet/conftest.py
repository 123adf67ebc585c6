"""The command in this process, in a folder of its own, with the desk as its program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agenttape_core.cli.app import run

from ...kit.ended import Ended
from . import desk

APP = f"{desk.__name__}:answer"


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

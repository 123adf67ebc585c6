"""Cassettes of plain functions and of every framework, and the command in this process."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import boundary, use_cassette
from agenttape_core.cli.app import run

from ...kit.ended import Ended
from ..session.world import call
from .recorded_kinds import KINDS, record_kinds


def answer(model: str, question: str) -> Any:
    """Ask a model, as an integration does."""
    messages = [{"role": "user", "content": question}]
    return call("answer", lambda: f"{question} Yes.", "chat", model=model, messages=messages)


@boundary("tool")
def look_up(city: str) -> str:
    """Tell the weather in a city that exists."""
    if city == "Atlantis":
        raise LookupError("it has sunk")
    return f"{city}: sunny"


def record(path: Path, question: str = "Rain?") -> Path:
    """Record a run of three calls, one of which fails."""
    with use_cassette(path, mode="all"):
        answer("gpt-5", question)
        look_up("Paris")
        with pytest.raises(LookupError):
            look_up("Atlantis")
    return path


@pytest.fixture(scope="session")
def weather(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cassette of the folder, which tests copy: to record it takes longer than most of them do."""
    return record(tmp_path_factory.mktemp("weather") / "weather.yaml")


@pytest.fixture
def folder(tmp_path: Path, weather: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a cassette and files that are none."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cassettes").mkdir()
    shutil.copy(weather, tmp_path / "cassettes")
    (tmp_path / "docker.yaml").write_text("services: {}\n")
    (tmp_path / "cassettes" / "weather.snapshot.yaml").write_text("value: 1\n")
    return tmp_path


@pytest.fixture
def command(folder: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a command line in the folder."""

    def command(*words: object) -> Ended:
        capsys.readouterr()
        code = run(list(map(str, words)))
        captured = capsys.readouterr()
        return Ended(code, captured.out, captured.err)

    return command


@pytest.fixture
def taped(folder: Path, forked_tests: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose tests pytest runs with our plugin alone, as the others take longer than the runs."""
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "agenttape_core.pytest_plugin")
    (folder / "pytest.ini").write_text("[pytest]\n")
    return folder


@pytest.fixture(scope="session")
def kinds(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Mapping[str, Path]:
    """A cassette of each kind: `functions`, `langchain`, `langgraph`, `llamaindex`. They are shared: copy them."""
    base = tmp_path_factory.getbasetemp()
    return record_kinds((base if worker_id == "master" else base.parent) / "kinds")


@pytest.fixture(params=sorted(KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    """Each kind of cassette in turn."""
    return str(request.param)


@pytest.fixture
def recorded(kind: str, kinds: Mapping[str, Path], folder: Path) -> Path:
    """A cassette of each kind in turn, the test's own, as a path from the folder of the test: `kinds/KIND.yaml`."""
    copy = Path("kinds", f"{kind}.yaml")
    (folder / copy.parent).mkdir()
    shutil.copy(kinds[kind], folder / copy)
    return copy

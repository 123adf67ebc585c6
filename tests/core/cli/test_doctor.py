"""`agenttape doctor`: nothing is wrong in a clean project, and each planted fault is found."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agenttape_core.cli.commands import doctor


def wrong(result: Any) -> list[str]:
    """Return what is wrong."""
    return [fact["what"] for fact in result.json["facts"] if fact["is_wrong"]]


@pytest.mark.slow
def test_a_clean_project(folder: Path, command: Any) -> None:
    """In a clean project nothing is wrong, and the guard was tried."""
    result = command("doctor", "--json")
    assert (result.code, wrong(result)) == (0, [])
    facts = {fact["what"]: fact["said"] for fact in result.json["facts"]}
    assert facts["guard"] == "a replay refuses connections"
    assert facts["cassettes"] == "1 cassette"
    assert "agenttape-core" in facts["packages"]
    assert command("doctor").out.count("ok ") == 4


def test_planted_faults(folder: Path, command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken cassette, an edited one, a journal, a judge without a run, and a broken integration are each found."""
    cassettes = folder / "cassettes"
    text = (cassettes / "weather.yaml").read_text()
    (cassettes / "cut.yaml").write_text(text[: len(text) // 2])
    (cassettes / "edited.yaml").write_text(text.replace("Rain?", "Snow?", 1))
    (cassettes / ".lost.yaml.1-ab.journal").write_text("")
    (cassettes / "gone.polite.judge.yaml").write_text(text)
    point = EntryPoint("house", "house_tape:integration", "agenttape.integrations")
    monkeypatch.setattr(doctor, "entry_points", lambda group: [point])
    result = command("doctor", "--json")
    assert result.code == 1
    assert wrong(result) == [
        "integration house",
        "cassettes/cut.yaml",
        "cassettes/edited.yaml",
        "cassettes/.lost.yaml.1-ab.journal",
        "cassettes/gone.polite.judge.yaml",
    ]
    said = {fact["what"]: fact["said"] for fact in result.json["facts"]}
    assert said["cassettes"] == "2 of 4 cassettes"
    assert said["cassettes/cut.yaml"].startswith("line ")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("installed", "found"),
    [
        (("langchain-core", "langgraph"), ["langchain-core", "langgraph"]),
        (("langchain-core", "langgraph", "langchain", "agenttape-langchain"), []),
        (("langchain-core", "langgraph", "agenttape-langchain"), ["langgraph"]),
        (("langchain-core", "llama-index-core", "agenttape-langchain"), ["llama-index-core"]),
    ],
)
def test_frameworks_that_nothing_records(
    folder: Path, command: Any, monkeypatch: pytest.MonkeyPatch, installed: tuple[str, ...], found: list[str]
) -> None:
    """A framework without its package is wrong; LangGraph is not where only LangChain has brought it."""
    there = [SimpleNamespace(name=name, version="1") for name in ("agenttape-core", *installed)]
    monkeypatch.setattr(doctor, "distributions", lambda: there)
    assert wrong(command("doctor", "--json")) == found


@pytest.mark.slow
def test_settings_and_empty_folders(folder: Path, command: Any) -> None:
    """Settings that differ from the defaults are told, a bad one ends with 2, a folder without cassettes is wrong."""
    (folder / "pyproject.toml").write_text('[tool.agenttape]\non_unused = "warn"\n')
    facts = {fact["what"]: fact["said"] for fact in command("doctor", "--json").json["facts"]}
    assert facts["settings"] == "cassette_dir='cassettes', on_unused='warn'"
    (folder / "empty").mkdir()
    assert command("doctor", "empty").code == 1
    (folder / "pyproject.toml").write_text('[tool.agenttape]\nunusd = "warn"\n')
    assert command("doctor").code == 2

"""Coverage of workflows: the steps that never ran, and the types of events that never came."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from workflows import Workflow, step
from workflows.events import Event, StartEvent, StopEvent

from agenttape_core import open_cassette, use_cassette
from agenttape_core.cli.app import run
from agenttape_core.cli.measures import Coverage
from agenttape_core.errors import ConfigurationError
from agenttape_llamaindex import TapeEventHandler


class Look(Event):
    title: str


class Refuse(Event):
    reason: str


class Library(Workflow):
    @step
    async def begin(self, event: StartEvent) -> Look | Refuse:
        title = event.get("title")
        return Look(title=title) if title else Refuse(reason="no title")

    @step
    async def look(self, event: Look) -> StopEvent:
        return StopEvent(result=f"{event.title} is there")

    @step
    async def refuse(self, event: Refuse) -> StopEvent:
        return StopEvent(result=event.reason)


@pytest.mark.parametrize("drawn", [Library, Library()], ids=["class", "object"])
async def test_steps_and_events(tmp_path: Path, drawn: Any) -> None:
    """Coverage names exactly the step that never ran and the event that never came, until a run has both."""
    found = Coverage()
    found.hold_against(drawn)
    for title, never in (("Dune", ["refuse"]), ("", [])):
        with use_cassette(tmp_path / "run.yaml", mode="all"):
            await Library().run(title=title)
        found.add(open_cassette(tmp_path / "run.yaml"))
        assert found.never["nodes"] == never
        assert found.never["events"] == [name.capitalize() for name in never]
    assert (found.percent, found.unknown) == (100, [])
    assert {each["name"]: each["count"] for each in found.to_dict()["events"]} == {
        "Look": 1,
        "Refuse": 1,
        "StartEvent": 2,
        "StopEvent": 2,
    }


async def test_events_that_share_a_step(tmp_path: Path) -> None:
    """Which of the events of one step came is told by an observed run, which names them, and by no other."""

    class Shared(Workflow):
        @step
        async def begin(self, event: StartEvent) -> Look | Refuse:
            return Look(title="Dune")

        @step
        async def end(self, event: Look | Refuse) -> StopEvent:
            return StopEvent(result="done")

    async def covered(workflow: type[Workflow], *paths: Path) -> Coverage:
        """Return what recordings cover of a workflow."""
        found = Coverage()
        found.hold_against(workflow)
        for path in paths:
            found.add(open_cassette(path))
        return found

    with use_cassette(tmp_path / "run.yaml", mode="all"):
        await Shared().run()
    found = await covered(Shared, tmp_path / "run.yaml")
    assert (found.unknown, found.never["events"], found.percent) == (["Look", "Refuse"], [], 100)
    with TapeEventHandler(tmp_path / "observed.yaml"):
        await Shared().run()
    observed = await covered(Shared, tmp_path / "observed.yaml")
    assert {each["name"]: each["count"] for each in observed.to_dict()["events"]}["Look"] == 1
    assert (observed.unknown, observed.never["events"], observed.percent) == ([], ["Refuse"], 83.3)


async def test_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command takes a workflow as a graph, and refuses what nobody can draw."""
    monkeypatch.setitem(sys.modules, "library_app", SimpleNamespace(flow=Library, other=object()))
    with use_cassette(tmp_path / "run.yaml", mode="all"):
        await Library().run(title="Dune")
    assert run(["check", "--only", "coverage", str(tmp_path), "--graph", "library_app:flow", "--fail-under", "90"]) == 1
    shown = capsys.readouterr().out
    assert "nodes that never ran: refuse" in shown
    assert "events that never came: Refuse" in shown
    assert run(["check", "--only", "coverage", str(tmp_path), "--graph", "library_app:other"]) == 2
    assert "no installed integration can draw it" in capsys.readouterr().err
    with pytest.raises(ConfigurationError):
        Coverage().hold_against(object())

"""The tree of an observed workflow reads as that of a recorded one: who acts, and what is handed off to whom."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent

from agenttape_core import compare_cassettes, use_cassette
from agenttape_core.cli.app import run

from .acceptance import FRAMEWORK_WARNINGS
from .observed import observing
from .scripted import Reply, ScriptedLLM, World

pytestmark = FRAMEWORK_WARNINGS


def _script(messages: Any, tools: Any) -> Reply:
    if "handoff" in tools and messages[-1].role != "tool":
        return [("handoff", {"to_agent": "writer", "reason": "it is about rain"})]
    return "It rains"


async def _desk() -> str:
    llm = ScriptedLLM(World(), _script)
    planner = FunctionAgent(name="planner", description="Plans", llm=llm, can_handoff_to=["writer"])
    writer = FunctionAgent(name="writer", description="Writes", llm=llm)
    return str(await AgentWorkflow(agents=[planner, writer], root_agent="planner").run("Rain?"))


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An observed and a recorded run of one program."""
    folder = tmp_path_factory.mktemp("desk")
    with observing(folder / "seen.yaml"):
        asyncio.run(_desk())
    with use_cassette(folder / "recorded.yaml", mode="all"):
        asyncio.run(_desk())
    return folder / "seen.yaml", folder / "recorded.yaml"


def _printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert not run(list(arguments))
    return capsys.readouterr().out


@pytest.mark.parametrize("which", [0, 1])
def test_the_acting_agent(which: int, seen: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """Each step of an agent says which one it is, below the workflow, whoever recorded it."""
    shown = _printed(capsys, "show", str(seen[which]))
    first, second = (next(line for line in shown.splitlines() if f"run_agent_step{n}" in line) for n in ("  ", "#2"))
    assert "[planner]" in first
    assert "[writer]" in second
    workflow = next(line for line in shown.splitlines() if "agent AgentWorkflow.run" in line)
    assert first.index("node") == second.index("node") > workflow.index("agent")


def test_a_hand_off_can_be_read(seen: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """A tool of the framework, which runs on replay, is shown with its name, its arguments and its result."""
    shown = _printed(capsys, "show", str(seen[0]))
    assert "FunctionTool.call  handoff" in shown
    assert "> to_agent='writer', reason='it is about rain'" in shown
    assert "< Agent writer is now handling the request" in shown


@pytest.mark.parametrize("subcommand", ["show", "show --timeline"])
def test_ticks_are_left_out(subcommand: str, seen: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """The ticks of a workflow do not stand between its steps."""
    shown = _printed(capsys, *subcommand.split(), str(seen[0]))
    assert "checkpoint AgentWorkflow" not in shown
    assert ("checkpoints, shown one by one by --step N" in shown) is (subcommand == "show")


def test_what_was_not_seen_is_named(seen: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """The gap says which calls no handler sees."""
    assert "not seen: memory, http, call; the run was recorded by an event handler" in _printed(
        capsys, "show", str(seen[0])
    )


@pytest.mark.parametrize("order", [1, -1])
def test_observed_and_recorded_calls_have_one_place(order: int, seen: tuple[Path, Path]) -> None:
    """A comparison of both calls nothing moved, and all calls the same; it lists no step that only one of them sees."""
    comparison = compare_cassettes(*seen[::order])
    assert comparison.identical, str(comparison)
    counts = comparison.counts
    assert counts["moved"] == counts["changed"] == counts["only in other" if order == 1 else "only in first"] == 0

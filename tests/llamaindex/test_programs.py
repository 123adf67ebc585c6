"""Programs run on every replay: their models, tools and embeddings are served, and everything observable is equal."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .acceptance import FRAMEWORK_WARNINGS, Run, record_and_replay
from .programs import PROGRAMS

pytestmark = FRAMEWORK_WARNINGS

AGENTS = [
    "function_agent",
    "function_agent_that_does_not_stream",
    "parallel_tools",
    "agent_whose_tool_fails",
    "agent_with_structured_output",
    "react_agent",
    "code_act_agent",
    "handoff",
    "tool_that_asks_a_human",
    "agent_with_memory",
    "agent_with_history",
]
ENGINES = [
    "rag",
    "response_modes",
    "concurrent_synthesis",
    "router",
    "streaming_router",
    "sub_questions",
    "streaming_sub_questions",
    "citations",
    "agentic_rag",
    "ingestion",
    "extraction",
]
WORKFLOWS = ["human_input", "resumed_from_a_snapshot", "parallel_steps", "equal_parallel_steps"]

Runs = Callable[[str], tuple[Run, Run]]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Return the recorded and the replayed run of a program, each made once."""
    made: dict[str, tuple[Run, Run]] = {}

    def of(name: str) -> tuple[Run, Run]:
        if name not in made:
            made[name] = record_and_replay(PROGRAMS[name], tmp_path_factory.mktemp(name) / "program.yaml")
        return made[name]

    return of


@pytest.mark.parametrize("name", [*AGENTS, *ENGINES, *WORKFLOWS])
def test_a_replayed_program_is_the_same_run(name: str, runs: Runs) -> None:
    """Values, streamed events, instrumentation events and spans are equal in their order, with all ids and times."""
    recorded, replayed = runs(name)
    assert replayed.value == recorded.value
    assert replayed.log == recorded.log


def test_a_replayed_chat_is_the_same_run(runs: Runs) -> None:
    """Turns, tokens, histories, events and spans are equal for each chat engine, whichever thread streams a turn."""
    recorded, replayed = runs("chat_engines")
    assert replayed.value == recorded.value
    assert replayed.multiset == recorded.multiset


def test_an_agent_that_is_a_tool_answers_the_same(runs: Runs) -> None:
    """An agent within another's tool is served with the tool: the streamed events and the answer are equal."""
    recorded, replayed = runs("agent_as_tool")
    assert replayed.value == recorded.value
    assert "ask_expert" in {row.name for row in recorded.cassette.interactions}


def test_the_function_that_fills_in_an_object_is_no_tool(runs: Runs) -> None:
    """The function that the framework makes of a class runs; only models are recorded."""
    recorded, _ = runs("extraction")
    assert {item.kind for item in recorded.cassette.interactions} == {"chat", "embeddings"}

"""`verify` compares what a replay's graphs and nodes write with what its recording says of that."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from agenttape_core import boundary, use_cassette
from agenttape_core.engine import Policy
from agenttape_core.experiments.verify.calls import written_otherwise

_made = itertools.count()


@boundary
def think(text: str) -> str:
    """Return what a model says to a text."""
    return f"heard {text}"


def _graph(node: Any) -> Any:
    return StateGraph(MessagesState).add_node("node", node).add_edge(START, "node").compile()


@tool
def ask_expert(question: str) -> str:
    """Ask another agent."""
    expert = _graph(lambda state: {"messages": [("ai", think(str(state["messages"][-1].content)))]})
    return str(expert.invoke({"messages": [("user", question)]})["messages"][-1].content)


@tool
def file_report(question: str) -> str:
    """Ask another agent, and write down what it says: its code is not run in a replay."""
    answer: str = ask_expert.func(question)  # type: ignore[attr-defined]
    Path("report.txt").write_text(answer)
    return answer


@tool
def reckon(question: str) -> str:
    """Run a graph that calls nothing: its code is not run either."""
    return str(_graph(lambda _: {"messages": [("ai", "4")]}).invoke({"messages": [("user", question)]})["messages"][-1])


def _supervisor(*asked: Any) -> None:
    calls = [{"name": each.name, "args": {"question": "why?"}, "id": str(n)} for n, each in enumerate(asked)]
    graph = StateGraph(MessagesState).add_node(ToolNode(list(asked))).add_edge(START, "tools").compile()
    graph.invoke({"messages": [AIMessage("", tool_calls=calls)]})


def _places(program: Callable[[], None], path: Path) -> list[str]:
    """Return the places in which a replay of a program has written something else."""
    for mode in ("all", "none"):
        with use_cassette(path, mode=mode) as session:
            think("hello")  # a recording without a call is none
            if mode == "none":
                session.ledger.watch_steps()
            program()
    return list(written_otherwise(session))


@pytest.mark.parametrize("program", [lambda: _supervisor(ask_expert), lambda: _supervisor(file_report, reckon)])
def test_a_sound_replay(program: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is found where all is as recorded, also below tools whose code is rightly not run."""
    monkeypatch.chdir(tmp_path)
    assert _places(program, tmp_path / "sound.yaml") == []


def test_an_agent_within_a_tool_that_is_replayed_as_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps of an agent are missed where the tool that runs it is replayed, although no answer is another."""
    monkeypatch.setattr(Policy, "steps_into", lambda *_: False)
    assert _places(lambda: _supervisor(ask_expert), tmp_path / "block.yaml") == [
        "step agent LangGraph at LangGraph/tools@1/ask_expert/LangGraph",
        "step node node at LangGraph/tools@1/ask_expert/LangGraph/node@1",
    ]


def test_what_a_node_writes(tmp_path: Path) -> None:
    """A node that writes another id is found by the place of the id, although the program returns nothing of it."""

    def _ids() -> None:
        _graph(lambda _: {"messages": [HumanMessage("bad", id=f"id {next(_made)}")]}).invoke({"messages": []})

    (found,) = _places(_ids, tmp_path / "ids.yaml")
    assert found == "output.messages[0].id of node node at LangGraph/node@1"

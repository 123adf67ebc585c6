"""A conversation is forked by editing one of its messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph

from agenttape_core import use_cassette
from agenttape_langgraph import steps_of, time_travel

from ..fakes import PlainChat, World

if TYPE_CHECKING:
    from pathlib import Path

ANSWERS = 20


def test_message_is_edited_by_its_id(world: World, tmp_path: Path) -> None:
    """Before an edited message nothing is executed; each answer that follows it is, and is listed."""

    def talking(world: World) -> Any:
        """Two nodes that take turns, until there are twenty answers."""
        model = PlainChat(world=world, reply=lambda messages, n: AIMessage(f"answer {n} to {len(messages)}"))

        def say(state: MessagesState) -> dict[str, Any]:
            return {"messages": [model.invoke(state["messages"])]}

        builder = StateGraph(MessagesState).add_node("think", say).add_node("act", say)
        builder.add_edge(START, "think").add_edge("think", "act")
        return builder.add_conditional_edges("act", lambda state: END if len(state["messages"]) > ANSWERS else "think")

    path, thread = tmp_path / "talk.yaml", {"configurable": {"thread_id": "1"}}
    with use_cassette(path, mode="all"):
        recorded = talking(world).compile(checkpointer=InMemorySaver()).invoke({"messages": [("user", "Hi")]}, thread)
    before = len(world.reached)
    assert (before, len(steps_of(path))) == (ANSWERS, ANSWERS + 1)
    edited = AIMessage("EDITED", id=recorded["messages"][7].id)

    fork = time_travel(
        path, talking(world).compile(), step=8, state_update={"messages": [edited]}, to=tmp_path / "other.yaml"
    )

    messages = fork.values["messages"]
    assert messages[7] == edited
    assert messages[:7] == recorded["messages"][:7]
    assert len(fork.prefix) == 7
    assert len(fork.live) == len(world.reached) - before == len(messages) - 8 == ANSWERS - 7

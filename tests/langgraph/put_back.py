"""Programs that `verify` replays with an old defect put back, by undoing what corrects it.

Only child processes import this with `PUT_BACK` set, before they open a session.
"""

from __future__ import annotations

import os
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from agenttape_langchain import ambient

CONFIG: Any = {"configurable": {"thread_id": "1"}}
if "PUT_BACK" in os.environ:
    vars(ambient)["keeping_order"] = lambda merge: merge


def merged_handlers() -> list[Any]:
    """Return the ids of messages of a subgraph: whoever of the handlers is told first draws the first."""

    def judge(_: MessagesState) -> Any:
        return {"messages": [HumanMessage("bad")]}

    inner = StateGraph(MessagesState).add_node("judge", judge).add_edge(START, "judge").compile()
    builder = StateGraph(MessagesState).add_sequence([(f"judge {number}", inner) for number in range(5)])
    graph = builder.add_edge(START, "judge 0").compile(checkpointer=InMemorySaver())
    list(graph.stream({"messages": [("user", "Good?")]}, CONFIG, stream_mode="messages", subgraphs=True))
    return [message.id for message in graph.get_state(CONFIG).values["messages"]]

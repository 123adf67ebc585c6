"""Programs that `verify` replays with old defects put back, by undoing what corrects them.

Only child processes import this with `PUT_BACK` set: there, each program runs without what it depends on.
"""

from __future__ import annotations

import operator
import os
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Annotated, Any, TypedDict
from unittest.mock import patch

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from agenttape_core import boundary, use_cassette
from agenttape_core.engine import Policy
from agenttape_core.integration import RecordedRuns
from agenttape_core.scheduling import Scheduler
from agenttape_langchain import automatic

CONFIG: Any = {"configurable": {"thread_id": "1"}}
THREADS = ["ann", "ben", "cem", "dia", "eva"]
BRANCHES = "abc"
if "PUT_BACK" in os.environ:
    vars(automatic)["keeping_order"] = lambda merge: merge  # before the first session, which takes it


def merged_handlers() -> list[Any]:
    """Return the ids of messages of a subgraph: whoever of the handlers is told first draws the first."""

    def judge(_: MessagesState) -> Any:
        return {"messages": [HumanMessage("bad")]}

    inner = StateGraph(MessagesState).add_node("judge", judge).add_edge(START, "judge").compile()
    builder = StateGraph(MessagesState).add_sequence([(f"judge {number}", inner) for number in range(5)])
    graph = builder.add_edge(START, "judge 0").compile(checkpointer=InMemorySaver())
    list(graph.stream({"messages": [("user", "Good?")]}, CONFIG, stream_mode="messages", subgraphs=True))
    return [message.id for message in graph.get_state(CONFIG).values["messages"]]


def conversations() -> dict[str, str]:
    """Return what each of several conversations is told, which begin in another order in each process."""
    model = GenericFakeChatModel(messages=iter([AIMessage(f"Hello for the {n}. time") for n in range(len(THREADS))]))

    def answer(_: MessagesState) -> Any:
        return {"messages": [model.invoke("Greet.")]}

    graph = StateGraph(MessagesState).add_node(answer).add_edge(START, "answer").compile()
    answers = {
        thread: graph.invoke({"messages": [("user", "Hi")]}, {"configurable": {"thread_id": thread}})
        for thread in set(THREADS)
    }
    return {thread: answers[thread]["messages"][-1].content for thread in THREADS}


class _Found(TypedDict, total=False):
    found: Annotated[list[str], operator.add]


def branches() -> list[Any]:
    """Return what parallel branches stream; when recorded, the last one is answered first."""
    turns = {name: threading.Event() for name in BRANCHES}
    turns[BRANCHES[-1]].set()

    @boundary
    def find(name: str) -> str:
        turns[name].wait()
        return name

    def branch(name: str) -> Callable[[_Found], _Found]:
        def node(_: _Found) -> _Found:
            get_stream_writer()(find(name))
            time.sleep(0.002)  # in the recording, whose times tell moments that are further apart than a millisecond
            turns[BRANCHES[BRANCHES.index(name) - 1]].set()
            return {"found": [name]}

        return node

    builder = StateGraph(_Found)
    for name in BRANCHES:
        builder.add_node(name, branch(name)).add_edge(START, name)
    return list(builder.compile().stream({"found": []}, stream_mode="custom"))


def sub_agents() -> str:
    """Return what a tool says that runs an agent of its own: in a replay, its steps are part of the run."""

    @boundary
    def think() -> str:
        return "so it is"

    def expert(_: MessagesState) -> Any:
        return {"messages": [("ai", think())]}

    @tool
    def ask_expert(question: str) -> str:
        """Ask another agent."""
        inner = StateGraph(MessagesState).add_node("expert", expert)
        told: Any = inner.add_edge(START, "expert").compile().invoke({"messages": [("user", question)]})
        return str(told["messages"][-1].content)

    graph: Any = StateGraph(MessagesState).add_node(ToolNode([ask_expert])).add_edge(START, "tools").compile()
    calls: Any = [{"name": "ask_expert", "args": {"question": "Why?"}, "id": "1"}]
    return str(graph.invoke({"messages": [AIMessage("", tool_calls=calls)]})["messages"][-1].content)


def _without_order(begin: Callable[..., None]) -> Callable[..., None]:
    return lambda self, recorded=None, **how: begin(self, recorded, **{**how, "imposes": False})


def several() -> dict[str, Any]:
    """Run what depends on an order, and an agent within a tool, each under a cassette, and return what each returns."""
    with ExitStack() as undone:
        if "PUT_BACK" in os.environ:
            undone.enter_context(patch.object(RecordedRuns, "begin", lambda _, begin, *_given: begin()))
            undone.enter_context(patch.object(Scheduler, "__init__", _without_order(Scheduler.__init__)))
            undone.enter_context(patch.object(Policy, "steps_into", lambda *_: False))
        found: dict[str, Any] = {}
        for program in (conversations, branches, sub_agents):
            with use_cassette(program.__name__, mode="once"):
                found[program.__name__] = program()
        return found

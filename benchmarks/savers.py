"""A thread of many steps whose messages grow, kept by our saver and by LangGraph's own for SQLite."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from measure import FULL, Row, Scale

from agenttape_langgraph import TapeSaver

_STEPS = 200
_ROUNDS = 3
_CONFIG: Any = {"configurable": {"thread_id": "1"}, "recursion_limit": 10_000}


def _replies(steps: int) -> list[AIMessage]:
    """Answers of about 600 characters that no compression makes of each other."""
    draw = random.Random(1)  # noqa: S311 - the same words in every run
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 9))) for _ in range(3_000)]
    return [AIMessage(" ".join(draw.choices(words, k=90)), id=f"answer-{step}") for step in range(steps)]


def _graph(saver: BaseCheckpointSaver[Any], replies: list[AIMessage]) -> Any:
    """A graph that loops, with one more message at each step."""
    builder = StateGraph(MessagesState)
    builder.add_node("answer", lambda state: {"messages": [replies[len(state["messages"]) - 1]]})
    builder.add_edge(START, "answer")
    builder.add_conditional_edges("answer", lambda state: "answer" if len(state["messages"]) <= len(replies) else END)
    return builder.compile(checkpointer=saver)


def _kept(make: Callable[[Path], Any], folder: Path, name: str, steps: int) -> tuple[float, float, float]:
    """The size of the file in MB, and the least time for running and for reading the history, in ms."""
    replies, runs, reads, size = _replies(steps), [], [], 0.0
    for attempt in range(_ROUNDS):
        path = folder / f"{name}-{steps}-{attempt}.sqlite"
        with make(path) as saver:
            graph = _graph(saver, replies)
            began = time.perf_counter()
            graph.invoke({"messages": [HumanMessage("Plan my trip.", id="question")]}, _CONFIG)
            ran = time.perf_counter()
            assert len(list(graph.get_state_history(_CONFIG))) == steps + 2
            runs.append(ran - began)
            reads.append(time.perf_counter() - ran)
        size = path.stat().st_size / 1e6
    return size, min(runs) * 1000, min(reads) * 1000


class _Theirs:
    """LangGraph's saver as a context manager."""

    def __init__(self, path: Path) -> None:
        self._closing = closing(sqlite3.connect(path, check_same_thread=False))

    def __enter__(self) -> SqliteSaver:
        return SqliteSaver(self._closing.__enter__())

    def __exit__(self, *_: object) -> None:
        self._closing.__exit__(*_)


def threads(folder: Path, scale: Scale = FULL) -> Iterator[Row]:
    """Measure file, run and history of a thread; the steps are those that the comparison is promised for."""
    steps = _STEPS if scale is FULL else min(scale.turns)
    ours = _kept(TapeSaver, folder, "ours", steps)
    theirs = _kept(_Theirs, folder, "theirs", steps)
    twice = _kept(TapeSaver, folder, "twice", 2 * steps)
    for name, (size, ran, read) in (("`TapeSaver`", ours), ("`SqliteSaver`", theirs)):
        found = f"{size:.2f} MB; run in {ran:.0f} ms, history read in {read:.0f} ms"
        yield Row(f"thread of {steps} steps with growing messages, {name}", found)
    yield Row(
        f"the file of that thread, `SqliteSaver` / `TapeSaver`; `TapeSaver` with {2 * steps} steps / {steps}",
        f"{theirs[0] / ours[0]:.0f}x; {twice[0] / ours[0]:.1f}x",
    )

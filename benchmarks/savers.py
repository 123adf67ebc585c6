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


def replies(steps: int, seed: str = "1") -> list[AIMessage]:
    """Return answers of about 600 characters that no compression makes of each other, others for each seed."""
    draw = random.Random(seed)  # noqa: S311 - the same words in every run
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 9))) for _ in range(3_000)]
    return [AIMessage(" ".join(draw.choices(words, k=90)), id=f"answer-{step}") for step in range(steps)]


def graph_of(saver: BaseCheckpointSaver[Any], answers: list[AIMessage]) -> Any:
    """A graph that loops, with one more message at each step."""
    builder = StateGraph(MessagesState)
    builder.add_node("answer", lambda state: {"messages": [answers[len(state["messages"]) - 1]]})
    builder.add_edge(START, "answer")
    builder.add_conditional_edges("answer", lambda state: "answer" if len(state["messages"]) <= len(answers) else END)
    return builder.compile(checkpointer=saver)


def _kept(make: Callable[[Path], Any], folder: Path, name: str, steps: int) -> tuple[float, float, float]:
    """The size of the file in MB, and the least time for running and for reading the history, in ms."""
    answers, runs, reads, size = replies(steps), [], [], 0.0
    for attempt in range(_ROUNDS):
        path = folder / f"{name}-{steps}-{attempt}.sqlite"
        with make(path) as saver:
            graph = graph_of(saver, answers)
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


_THREADS, _TURNS, _LARGE = 100, 6, 1_000_000
"""The threads of a service and the turns of each, and the characters of a large value."""


def _place(thread: int) -> Any:
    return {"configurable": {"thread_id": str(thread)}}


def _served(saver: Any, threads: int) -> dict[str, float]:
    """Return the least time in ms of what a service does with many short threads."""
    graph, places = graph_of(saver, replies(_TURNS)), range(threads)
    question = {"messages": [HumanMessage("Plan my trip.", id="question")]}
    return {
        f"run {threads} threads": _least(lambda: [graph.invoke(question, _place(one)) for one in places], 1),
        "read the latest state of each": _least(lambda: [saver.get_tuple(_place(one)) for one in places]),
        "list all checkpoints": _least(lambda: list(saver.list(None))),
        "list those of one step": _least(lambda: list(saver.list(None, filter={"step": 3}))),
        "list the inputs": _least(lambda: list(saver.list(None, filter={"source": "input"}))),
        "delete half of the threads": _least(lambda: [saver.delete_thread(str(one)) for one in places[::2]], 1),
    }


def large_graph(saver: BaseCheckpointSaver[Any], steps: int, seed: str = "1") -> tuple[Any, dict[str, Any]]:
    """Return a graph that loops with a large value that does not change, and its input."""
    builder = StateGraph(dict)
    builder.add_node("count", lambda state: {**state, "n": state["n"] + 1})
    builder.add_edge(START, "count")
    builder.add_conditional_edges("count", lambda state: "count" if state["n"] < steps else END)
    text = " ".join(str(reply.content) for reply in replies(_LARGE // 500, seed))[:_LARGE]
    return builder.compile(checkpointer=saver), {"n": 0, "text": text}


def _large(saver: Any, steps: int) -> dict[str, float]:
    """Return the least time in ms of running and reading a thread with a large value that does not change."""
    graph, start = large_graph(saver, steps)
    return {
        f"run {steps} steps with a value of 1 MB": _least(lambda: graph.invoke(start, _CONFIG), 1),
        "read that state": _least(lambda: saver.get_tuple(_CONFIG)),
    }


def _least(call: Callable[[], object], rounds: int = 5) -> float:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return min(times) * 1000


def services(folder: Path, scale: Scale = FULL) -> Iterator[Row]:
    """Measure what a service does, one operation after the other, with either saver."""
    count, steps = (_THREADS, 10) if scale is FULL else (4, 2)
    found: dict[str, dict[str, float]] = {}
    for name, make in (("ours", TapeSaver), ("theirs", _Theirs)):
        with make(folder / f"{name}-many.sqlite") as saver:  # type: ignore[operator]
            found[name] = _served(saver, count)
        with make(folder / f"{name}-large.sqlite") as saver:  # type: ignore[operator]
            found[name] |= _large(saver, steps)
    for what, mine in found["ours"].items():
        other = found["theirs"][what]
        yield Row(
            f"{what}: `TapeSaver`, `SqliteSaver`", f"{mine:.1f} ms, {other:.1f} ms: {mine / other:.2f}x", "≤ 1.5x"
        )


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

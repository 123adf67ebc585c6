"""Each operation of our saver and of LangGraph's own for SQLite: in one process, in turns, the least of many rounds."""

from __future__ import annotations

import asyncio
import gc
import random
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from measure import FULL, Row, Scale
from savers import graph_of, large_graph, replies

from agenttape_langgraph import TapeSaver


@dataclass(frozen=True)
class Shape:
    """The threads that are measured.

    Args:
        name: The name in the table.
        steps: The answers of each thread, or the steps of a thread with a large value.
        rounds: The rounds of each operation; as many threads are made, to be deleted.
        is_large: Whether the state has a value of 1 MB.
    """

    name: str
    steps: int
    rounds: int
    is_large: bool = False

    def run(self, saver: Any, thread: str) -> None:
        """Make a thread."""
        at: Any = {"configurable": {"thread_id": thread}, "recursion_limit": 10_000}
        if self.is_large:
            graph, start = large_graph(saver, self.steps, thread)
            graph.invoke(start, at)
            return
        graph = graph_of(saver, replies(self.steps, thread))
        graph.invoke({"messages": [HumanMessage("Plan my trip.", id="question")]}, at)


SHAPES = (Shape("3 steps", 3, 60), Shape("200 steps", 200, 12), Shape("3 steps with 1 MB", 3, 12, is_large=True))
_NEW = 1_000_000
"""Characters of a value that no checkpoint has yet; of hexadecimal digits, which pack to a half."""
_QUICK = (Shape("2 steps", 2, 3),)


def _place(thread: str, **more: Any) -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": "", **more}}


def operations(saver: Any) -> dict[str, Callable[[], object]]:
    """Return the operations on one thread, each to be repeated."""
    texts = (random.Random(number).randbytes(_NEW // 2).hex() for number in count())  # noqa: S311 - the same for both
    found = list(saver.list(_place("0")))
    newest, middle, numbers = found[0], found[len(found) // 2], count(1)
    named, step = middle.config, middle.metadata["step"]

    def put() -> None:
        number = next(numbers)
        checkpoint = {**newest.checkpoint, "id": f"{newest.checkpoint['id'][:-6]}{number:06}"}
        channels = {**checkpoint["channel_values"], "n": number}
        saver.put(newest.config, {**checkpoint, "channel_values": channels}, newest.metadata, {})

    def put_writes() -> None:
        saver.put_writes(newest.config, [("n", 1), ("text", "x" * 300)], f"task-{next(numbers)}")

    def put_new() -> None:
        number = next(numbers)
        checkpoint = {**newest.checkpoint, "id": f"{newest.checkpoint['id'][:-6]}{number:06}"}
        checkpoint["channel_values"] = {**checkpoint["channel_values"], "new": next(texts)}
        saver.put(_place("new"), checkpoint, newest.metadata, {})

    return {
        "get the newest": lambda: saver.get_tuple(_place("0")),
        "get a named one": lambda: saver.get_tuple(named),
        "get of an empty thread": lambda: saver.get_tuple(_place("none")),
        "list all": lambda: list(saver.list(_place("0"))),
        "list with a limit of 2": lambda: list(saver.list(_place("0"), limit=2)),
        "list with a filter": lambda: list(saver.list(_place("0"), filter={"step": step})),
        "list before one": lambda: list(saver.list(_place("0"), before=named, limit=1)),
        "put": put,
        "put of a new value of 1 MB": put_new,
        "put_writes": put_writes,
    }


async def _listed(found: AsyncIterator[Any]) -> list[Any]:
    return [one async for one in found]


def async_operations(saver: Any) -> dict[str, Callable[[], Coroutine[Any, Any, object]]]:
    """Return the same operations of an event loop."""
    numbers = count(1)

    async def put() -> None:
        newest = await saver.aget_tuple(_place("1"))
        checkpoint = {**newest.checkpoint, "id": f"{newest.checkpoint['id'][:-6]}{next(numbers):06}"}
        await saver.aput(newest.config, checkpoint, newest.metadata, {})

    return {
        "aget the newest": lambda: saver.aget_tuple(_place("0")),
        "alist all": lambda: _listed(saver.alist(_place("0"))),
        "alist with a limit of 2": lambda: _listed(saver.alist(_place("0"), limit=2)),
        "aget and aput": put,
    }


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _least(ours: Callable[[], object], theirs: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Return the least time of either in ms, measured in turns."""
    gc.collect()
    times = [(_timed(ours), _timed(theirs)) for _ in range(rounds)]
    return min(one for one, _ in times) * 1000, min(other for _, other in times) * 1000


def _theirs(folder: Path) -> closing[Any]:
    return closing(sqlite3.connect(folder / "theirs.sqlite", check_same_thread=False))


def _alone(call: Callable[[Any], object], folder: Path, rounds: int) -> tuple[float, float]:
    """Return the least time of either in ms of the first call of a saver that was just opened."""
    times = []
    for _ in range(rounds):
        with TapeSaver(folder / "ours.sqlite") as ours, _theirs(folder) as connection:
            theirs = SqliteSaver(connection)
            for saver in (ours, theirs):
                saver.get_tuple(_place("1"))  # SQLite reads the names of the tables, and prepares the queries
            times.append((_timed(lambda saver=ours: call(saver)), _timed(lambda saver=theirs: call(saver))))  # type: ignore[misc]
    return min(one for one, _ in times) * 1000, min(other for _, other in times) * 1000


def _plain(shape: Shape, folder: Path) -> Iterator[tuple[str, float, float]]:
    with TapeSaver(folder / "ours.sqlite") as ours, _theirs(folder) as connection:
        theirs = SqliteSaver(connection)
        for thread in range(2 * shape.rounds + 2):
            for saver in (ours, theirs):
                shape.run(saver, str(thread))
        others = operations(theirs)
        for what, call in operations(ours).items():
            yield what, *_least(call, others[what], shape.rounds)
        numbers, same = count(2), count(2)
        delete = partial(_least, lambda: ours.delete_thread(str(next(numbers))))
        yield "delete_thread, in a series", *delete(lambda: theirs.delete_thread(str(next(same))), shape.rounds)
    doubled = (number // 2 for number in count(2 * (shape.rounds + 2)))
    yield "delete_thread, alone", *_alone(lambda saver: saver.delete_thread(str(next(doubled))), folder, shape.rounds)
    yield "get the newest, not read before", *_alone(lambda saver: saver.get_tuple(_place("0")), folder, shape.rounds)


async def _in_loop(shape: Shape, folder: Path) -> list[tuple[str, float, float]]:
    found = []
    async with AsyncExitStack() as stack:
        ours = await stack.enter_async_context(TapeSaver(folder / "ours.sqlite"))
        theirs = await stack.enter_async_context(AsyncSqliteSaver.from_conn_string(str(folder / "theirs.sqlite")))
        others = async_operations(theirs)
        for what, call in async_operations(ours).items():
            times = []
            for _ in range(shape.rounds):
                pair = []
                for one in (call, others[what]):
                    began = time.perf_counter()
                    await one()
                    pair.append(time.perf_counter() - began)
                times.append(pair)
            found.append((what, min(one for one, _ in times) * 1000, min(other for _, other in times) * 1000))
    return found


def measured(shape: Shape, folder: Path) -> Iterator[tuple[str, float, float]]:
    """Yield each operation with the least time of either saver, in ms."""
    folder.mkdir()
    yield from _plain(shape, folder)
    yield from asyncio.run(_in_loop(shape, folder))


def savers_in_turns(folder: Path, scale: Scale = FULL) -> Iterator[Row]:
    """Measure each operation with either saver."""
    for number, shape in enumerate(SHAPES if scale is FULL else _QUICK):
        for what, ours, theirs in measured(shape, folder / str(number)):
            found = f"{ours:.2f} ms, {theirs:.2f} ms: {ours / theirs:.2f}x"
            yield Row(f"{what}, a thread of {shape.name}: `TapeSaver`, `SqliteSaver`", found, "<= 1.5x")

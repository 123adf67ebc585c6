"""Calls at the same time: each caller gets its own recording, whichever was faster when it was made.

While recording, the fake model holds its answers back until all have been asked for, and then gives them in the order
that the test says. On replay they come at once, in the order in which they are asked for.
"""

# ruff: noqa: D103 - what is no test says by its name what it does

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import StructuredTool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from agenttape_langchain import tape

from ..kit.replaying import Twice
from .fakes import NativeChat, World, calling, in_turn

SAME = "the same question"
ORDERS = {"in order": [0, 1, 2, 3], "backwards": [3, 2, 1, 0], "mixed": [2, 0, 3, 1]}


class Turnstile:
    """Lets callers out in a given order, once all of them are in. `None` lets everybody through at once.

    Args:
        order: Which caller leaves first, second and so on, by the order of their coming in; round after round.
    """

    def __init__(self, order: Sequence[int] | None) -> None:
        self._order = list(order or ())
        self._arrived = 0
        self._left = 0
        self._lock = threading.Condition()
        self._waiting: dict[int, asyncio.Event] = {}

    def _enter(self) -> int:
        self._arrived += 1
        return self._arrived - 1

    def _may_leave(self, mine: int) -> bool:
        size = len(self._order)
        begin = mine - mine % size
        return self._arrived >= begin + size and self._left == begin + self._order.index(mine % size)

    def pass_through(self) -> None:
        """Wait for one's turn, in a thread."""
        if not self._order:
            return
        with self._lock:
            mine = self._enter()
            self._lock.notify_all()
            assert self._lock.wait_for(lambda: self._may_leave(mine), timeout=20)
            self._left += 1
            self._lock.notify_all()

    async def apass_through(self) -> None:
        """Wait for one's turn, in a task."""
        if not self._order:
            return
        mine, turn = self._enter(), asyncio.Event()
        self._waiting[mine] = turn
        self._call_next()
        await turn.wait()
        self._left += 1
        self._call_next()

    def _call_next(self) -> None:
        for mine, turn in self._waiting.items():
            if self._may_leave(mine):
                turn.set()


class HeldChat(NativeChat):
    """Numbers its answers by the order in which they leave."""

    turnstile: Any = None

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        if not self.world.gone:
            self.turnstile.pass_through()
        return self.result(messages)

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        if not self.world.gone:
            await self.turnstile.apass_through()
        return self.result(messages)


# -- four identical calls ------------------------------------------------------------------------------------------


async def by_batch(model: Any) -> list[str]:
    return [answer.text for answer in model.batch([SAME] * 4)]


async def by_abatch(model: Any) -> list[str]:
    return [answer.text for answer in await model.abatch([SAME] * 4)]


async def by_chain_batch(model: Any) -> list[str]:
    return [answer.text for answer in (RunnableLambda(str) | model).batch([SAME] * 4)]


async def by_chain_abatch(model: Any) -> list[str]:
    return [answer.text for answer in await (RunnableLambda(str) | model).abatch([SAME] * 4)]


async def by_gather(model: Any) -> list[str]:
    return [answer.text for answer in await asyncio.gather(*(model.ainvoke(SAME) for _ in range(4)))]


async def by_task_group(model: Any) -> list[str]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(model.ainvoke(SAME)) for _ in range(4)]
    return [task.result().text for task in tasks]


async def by_loop_of_its_own(model: Any) -> list[str]:
    """In a loop that begins inside the session."""
    return await asyncio.to_thread(asyncio.run, by_gather(model))


def _pool(model: Any, prepared: Callable[[Callable[..., Any]], Callable[..., Any]]) -> list[str]:
    with ThreadPoolExecutor(4) as pool:
        return [future.result().text for future in [pool.submit(prepared(model.invoke), SAME) for _ in range(4)]]


async def by_thread_pool(model: Any) -> list[str]:
    """Threads without a context, as plain threaded code has them."""
    return await asyncio.to_thread(_pool, model, lambda call: call)


async def by_thread_pool_with_contexts(model: Any) -> list[str]:
    return await asyncio.to_thread(_pool, model, lambda call: functools.partial(copy_context().run, call))


FOUR: dict[str, Callable[[Any], Awaitable[list[str]]]] = {
    "batch": by_batch,
    "abatch": by_abatch,
    "chain batch": by_chain_batch,
    "chain abatch": by_chain_abatch,
    "gather": by_gather,
    "task group": by_task_group,
    "own loop": by_loop_of_its_own,
    "thread pool": by_thread_pool,
    "thread pool with contexts": by_thread_pool_with_contexts,
}


@pytest.mark.sweep
@pytest.mark.parametrize("way", ["automatic", "taped"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("shape", FOUR)
async def test_identical_calls(shape: str, order: str, way: str, world: World, twice: Twice) -> None:
    """Of four identical calls each gets what it got when recorded, also in a second round after the first."""
    model: Any = HeldChat(world=world, turnstile=Turnstile(ORDERS[order]))
    automatic = way == "automatic"
    asked = model if automatic else tape(model)

    async def run() -> list[str]:
        return [*await FOUR[shape](asked), *await FOUR[shape](asked)]

    recorded = await twice.awaited(run, auto=automatic)
    assert sorted(recorded) == sorted(f"answer {n} to {SAME}" for n in range(1, 9))


# -- six branches --------------------------------------------------------------------------------------------------


@pytest.mark.sweep
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("kind", ["agent", "tool node"])
async def test_identical_tool_calls(kind: str, is_async: bool, world: World, twice: Twice) -> None:
    """Four identical calls of one tool in one turn: each tool message has its own answer and its own id."""

    def _around(node: Any) -> Any:
        builder = StateGraph(MessagesState)
        builder.add_node("tools", node)
        builder.add_edge(START, "tools")
        builder.add_edge("tools", END)
        return builder.compile()

    turnstile = Turnstile(ORDERS["mixed"])
    held = [turnstile]

    def draw() -> str:
        held[0].pass_through()
        return f"card {world.reach('tool')}"

    async def adraw() -> str:
        await held[0].apass_through()
        return f"card {world.reach('tool')}"

    card = StructuredTool.from_function(draw, adraw, name="draw", description="Draw a card.")
    four = [("draw", {})] * 4

    graph: Any
    if kind == "agent":
        graph = create_agent(NativeChat(world=world, reply=in_turn(four)), [card])
        asked: Any = {"messages": [("user", "Draw.")]}
    else:
        graph = _around(ToolNode([card]))
        asked = {"messages": [calling(*four, number=1).model_copy(update={"id": "m1"})]}

    async def run() -> Any:
        return await graph.ainvoke(asked) if is_async else graph.invoke(asked)

    with twice.records():
        recorded = await run()
    cards = [message.text for message in recorded["messages"] if isinstance(message, ToolMessage)]
    assert len(set(cards)) == 4
    held[0] = Turnstile(None)
    with twice.replays() as replay:
        assert await run() == recorded
    assert {replayed.match_rule for replayed in replay.report.replayed} == {"exact"}


# -- synchronous tools of an asynchronous program -----------------------------------------------------------------


async def test_threads_of_replayed_tools_have_no_place_in_the_order(world: World, twice: Twice) -> None:
    """Synchronous tools of an asynchronous program work in threads, which a replay that serves them does not have."""

    class Starts(BaseCallbackHandler):
        """A synchronous handler, which LangChain calls in threads where the program is asynchronous."""

        def __init__(self) -> None:
            self.seen: list[str] = []

        def on_tool_start(self, serialized: Any, input_str: str, **kwargs: Any) -> None:
            """Note the input of a tool."""
            self.seen.append(input_str)

        def on_tool_end(self, output: Any, **kwargs: Any) -> None:
            """Note its output."""
            self.seen.append(str(output))

    both = threading.Barrier(2)

    def look(what: str) -> str:
        """Look."""
        both.wait()
        return f"{what} {world.reach(what)}"

    async def program() -> list[str]:
        tool, handler = StructuredTool.from_function(look), Starts()
        await asyncio.gather(*(tool.arun({"what": what}, callbacks=[handler]) for what in ("up", "down")))
        return handler.seen

    await twice.awaited(program)
    assert twice.replay.report.nondeterminism == ()

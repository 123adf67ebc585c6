"""What a program does between two answers comes again in its order, though it was only observed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent, ToolCall, ToolCallResult
from llama_index.core.tools import FunctionTool
from tests.kit.world import gone
from workflows import Context, Workflow, step
from workflows.events import Event, StartEvent, StopEvent

from agenttape_core import open_cassette, use_cassette
from agenttape_core.integration import Session
from agenttape_llamaindex import TapeEventHandler

from .acceptance import FRAMEWORK_WARNINGS
from .observed import observing
from .scripted import Reply, ScriptedLLM, World, at_once
from .test_observed_order import Child

pytestmark = FRAMEWORK_WARNINGS
Wait = Callable[[], Awaitable[None]]
BETWEEN_ANSWERS = "what is done between the answers of calls that are awaited at once may come in another order"


class RoundsApart:
    """Lets calls that wait together answer some rounds of the loop apart, in the order in which they came.

    A handler records that order, and how many rounds are in between. It doesn't see which steps of a round come before
    an answer of code that runs in each round, as this does.

    Args:
        together: How many calls wait for each other.
        rounds: The rounds between two of their answers.
        last_first: Whether they answer in the reverse order.
    """

    def __init__(self, together: int, rounds: int, *, last_first: bool = False) -> None:
        self._together, self._rounds, self._last_first = together, rounds, last_first
        self._waiting: list[asyncio.Event] = []

    async def __call__(self) -> None:
        """Wait."""
        mine = asyncio.Event()
        self._waiting.append(mine)
        place = len(self._waiting)
        if place == self._together:
            waiting, self._waiting = self._waiting, []
            for each in waiting:
                each.set()
        await mine.wait()
        for _ in range((self._together - place + 1 if self._last_first else place) * self._rounds):
            await asyncio.sleep(0)


class Work(Event):
    """Work for a worker."""

    number: int


class Mark(Event):
    """What a worker does."""

    text: str


class Done(Event):
    """Work that is done."""

    text: str


class Fan(Workflow):
    """Works on parts in four workers, each of which writes to the stream when it begins and when it ends."""

    def __init__(self, llm: ScriptedLLM) -> None:
        super().__init__(timeout=None)
        self._llm = llm

    @step
    async def begin(self, ctx: Context, ev: StartEvent) -> Work | None:
        for number in range(8):
            ctx.send_event(Work(number=number))
        return None

    @step(num_workers=4)
    async def work(self, ctx: Context, ev: Work) -> Done:
        ctx.write_event_to_stream(Mark(text=f"begin {ev.number}"))
        text = (await self._llm.acomplete(f"part {ev.number}")).text
        ctx.write_event_to_stream(Mark(text=f"end {ev.number}"))
        return Done(text=text)

    @step
    async def join(self, ctx: Context, ev: Done) -> StopEvent | None:
        done = ctx.collect_events(ev, [Done] * 8)
        return StopEvent(result=[each.text for each in done]) if done else None


async def workers(world: World, wait: Wait) -> tuple[Any, list[str]]:
    """Run a fan-out, and return its result and what it streamed."""
    handler = Fan(ScriptedLLM(world, wait=wait)).run()
    marks = [event.text async for event in handler.stream_events() if isinstance(event, Mark)]
    return await handler, marks


async def agents(world: World, wait: Wait) -> tuple[Any, list[Any]]:
    """Run three agents with two tools each, and return their answers and what they streamed, as it came."""
    streamed: list[Any] = []

    async def look(number: int) -> str:
        """Look."""
        seen = world.reach("look")
        await wait()
        return f"{number}: {seen}"

    def script(messages: Any, _: Any) -> Reply:
        return "done" if len(messages) > 2 else [("look", {"number": number}) for number in range(2)]

    async def run(number: int) -> str:
        tools, llm = [FunctionTool.from_defaults(async_fn=look)], ScriptedLLM(world, script, wait)
        handler = FunctionAgent(tools=tools, llm=llm, streaming=False).run(f"Question {number}")
        async for event in handler.stream_events():
            if isinstance(event, ToolCall | ToolCallResult):
                streamed.append((type(event).__name__, number, event.tool_kwargs["number"]))  # noqa: PERF401 - all do
        return str(await handler)

    return await asyncio.gather(*map(run, range(3))), streamed


PROGRAMS = {"workers": (workers, 4), "agents": (agents, 3)}


async def observed_and_replayed(name: str, wait: Wait, where: Path) -> tuple[Any, Any, Session]:
    """Observe a program and replay it, and return what it gave both times, and the session of the replay."""
    program, path = PROGRAMS[name][0], where / "seen.jsonl"
    with observing(path):
        observed = await program(World(), wait)
    with use_cassette(path) as session:
        replayed = await program(gone(), at_once)
    return observed, replayed, session


@pytest.mark.sweep
@pytest.mark.parametrize("rounds", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("name", PROGRAMS)
async def test_what_is_between_two_answers_is_equal_or_reported(name: str, rounds: int, tmp_path: Path) -> None:
    """The results are those of the run; if events come in another order, the report says so."""
    observed, replayed, session = await observed_and_replayed(name, RoundsApart(PROGRAMS[name][1], rounds), tmp_path)
    assert replayed[0] == observed[0]
    assert replayed == observed or session.report.unobserved == (BETWEEN_ANSWERS,)
    assert session.report.nondeterminism == ()


@pytest.mark.parametrize("name", PROGRAMS)
async def test_a_session_keeps_the_order_between_two_answers(name: str, tmp_path: Path) -> None:
    """A session counts the steps between answers, and what it recorded is streamed in that order again."""
    program, together = PROGRAMS[name]
    with use_cassette(tmp_path / "c.yaml", mode="record"):
        recorded = await program(World(), RoundsApart(together, 3))
    with use_cassette(tmp_path / "c.yaml") as session:
        assert await program(gone(), at_once) == recorded
    assert session.report.nondeterminism == session.report.unobserved == ()


@pytest.mark.parametrize("steps", [True, False], ids=["with steps", "without"])
@pytest.mark.parametrize("count", [2, 3])
async def test_attempts_after_a_pause_of_all_keep_their_order(count: int, steps: bool, tmp_path: Path) -> None:
    """Where all tasks sleep before another attempt, the answers to those come in their order, too."""

    async def attempts(world: World, wait: Wait, count: int) -> list[str]:
        """Ask in two tasks which both sleep before they ask again, and return what came, in the order it came."""
        out: list[str] = []
        both = asyncio.Barrier(2)

        async def one(number: int) -> None:
            for attempt in range(count):
                out.append((await ScriptedLLM(world, wait=wait).acomplete(f"question {number}, {attempt}")).text)
                await asyncio.sleep(0.01)
                await both.wait()  # or a busy machine might let one ask again before the other was answered

        await asyncio.gather(one(0), one(1))
        return out

    with TapeEventHandler(tmp_path / "seen.jsonl", steps=steps):
        observed = await attempts(World(), RoundsApart(2, 50, last_first=True), count)
    assert len(open_cassette(tmp_path / "seen.jsonl").header.volatile.schedule) == count  # an order for each
    with use_cassette(tmp_path / "seen.jsonl") as session:
        assert await attempts(gone(), at_once, count) == observed
    assert session.report.nondeterminism == ()


async def test_a_sleep_ends_before_the_answer_that_it_ended_before(tmp_path: Path) -> None:
    """A task that only slept ends before the answer that came later, by the recorded times."""

    async def sleeps_beside_a_call(world: World, wait: Wait) -> list[str]:
        """Ask in one task and only sleep in another, and return which of them ended first."""
        out: list[str] = []
        asked = asyncio.Event()

        async def answered() -> None:
            asked.set()
            await ScriptedLLM(world, wait=wait).acomplete("question")
            out.append("answered")

        async def slept() -> None:
            await asked.wait()
            await asyncio.sleep(0.001)
            out.append("slept")

        await asyncio.gather(answered(), slept())
        return out

    with TapeEventHandler(tmp_path / "seen.jsonl"):
        observed = await sleeps_beside_a_call(World(), lambda: asyncio.sleep(0.05))
    with use_cassette(tmp_path / "seen.jsonl") as session:
        replayed = await sleeps_beside_a_call(gone(), at_once)
    assert replayed == observed
    assert session.report.nondeterminism == session.report.unobserved == ()


async def test_another_order_of_threads_is_reported(tmp_path: Path) -> None:
    """Children in threads get the answers of the run, and the report doesn't claim that each got its own."""

    class InThreads(Workflow):
        """Runs children in threads with loops of their own.

        Args:
            llm: The model that children ask.
            begin: Called in each thread with its number before its child begins.
        """

        def __init__(self, llm: ScriptedLLM, begin: Callable[[int], object]) -> None:
            super().__init__(timeout=None)
            self._llm, self._begin = llm, begin

        @step
        async def go(self, ev: StartEvent) -> StopEvent:
            def work(number: int) -> Any:
                self._begin(number)
                return asyncio.run(self._run())

            return StopEvent(result=await asyncio.gather(*(asyncio.to_thread(work, number) for number in range(3))))

        async def _run(self) -> Any:
            return await Child(self._llm).run()

    class LastBeginsFirst:
        """Lets threads begin in the reverse of their order: each when the one behind it has asked.

        Args:
            threads: How many there are.
        """

        def __init__(self, threads: int) -> None:
            self._asked = [threading.Event() for _ in range(threads)]
            self._asked[-1].set()
            self._open = threads - 1

        def begin(self, number: int) -> None:
            """Wait for the turn of a thread."""
            self._asked[number].wait()

        async def wait(self) -> None:
            """Let the next thread begin, once one has asked; then each answers when it asks."""
            if self._open:
                self._open -= 1
                self._asked[self._open].set()

    async def in_threads(path: Path) -> tuple[Any, Any, Session]:
        """Observe children in threads that begin in reverse, and replay them with threads that begin in their order."""
        turns = LastBeginsFirst(3)
        with observing(path):
            observed = await InThreads(ScriptedLLM(World(), wait=turns.wait), turns.begin).run()
        with use_cassette(path) as session:
            replayed = await InThreads(ScriptedLLM(gone()), lambda number: None).run()
        return observed, replayed, session

    observed, replayed, session = await in_threads(tmp_path / "seen.jsonl")
    assert sorted(replayed) == sorted(observed)
    assert session.report.unobserved or session.report.nondeterminism

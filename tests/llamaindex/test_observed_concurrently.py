"""Work that was observed side by side keeps its own answers, and a replay of it waits for nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.tools import FunctionTool
from tests.kit.world import gone
from workflows import Context, Workflow, step
from workflows.events import Event, StartEvent, StopEvent

from agenttape_core import use_cassette
from agenttape_llamaindex import TapeEventHandler

from .acceptance import FRAMEWORK_WARNINGS
from .observed import observing
from .scripted import Reply, ScriptedLLM, World, at_once

pytestmark = FRAMEWORK_WARNINGS


class Staggered:
    """Answers later calls sooner: each waits for 20 rounds of the loop less than the one before, for 13 at least."""

    def __init__(self) -> None:
        self._calls = 0

    async def __call__(self) -> None:
        """Wait."""
        self._calls += 1
        for _ in range(max(200 - 20 * self._calls, 13)):
            await asyncio.sleep(0)


class Mid(Event):
    """Between the two steps of a child."""

    text: str


class Work(Event):
    """Work for a step."""

    number: int


class Done(Event):
    """Work that is done."""

    result: Any


class Child(Workflow):
    """Asks the same two questions as each of its kind."""

    def __init__(self, llm: ScriptedLLM) -> None:
        super().__init__(timeout=None)
        self._llm = llm

    @step
    async def first(self, ev: StartEvent) -> Mid:
        return Mid(text=(await self._llm.acomplete("first question")).text)

    @step
    async def second(self, ev: Mid) -> StopEvent:
        return StopEvent(result=(ev.text, (await self._llm.acomplete("second question")).text))


class Parent(Workflow):
    """Runs children in one of its steps.

    Args:
        llm: The model that children ask.
        branch: What the step does in each of its branches, which it gathers.
    """

    def __init__(self, llm: ScriptedLLM, branch: Callable[[ScriptedLLM, int], Awaitable[Any]]) -> None:
        super().__init__(timeout=None)
        self._llm, self._branch = llm, branch

    @step
    async def go(self, ev: StartEvent) -> StopEvent:
        return StopEvent(result=await asyncio.gather(*(self._branch(self._llm, number) for number in range(3))))


class Fan(Workflow):
    """Runs children in the workers of a step."""

    def __init__(self, llm: ScriptedLLM) -> None:
        super().__init__(timeout=None)
        self._llm = llm

    @step
    async def go(self, ctx: Context, ev: StartEvent) -> Work | None:
        for number in range(3):
            ctx.send_event(Work(number=number))
        return None

    @step(num_workers=3)
    async def work(self, ev: Work) -> Done:
        return Done(result=(ev.number, await Child(self._llm).run()))

    @step
    async def join(self, ctx: Context, ev: Done) -> StopEvent | None:
        done = ctx.collect_events(ev, [Done] * 3)
        return StopEvent(result=[each.result for each in done]) if done else None


async def child(llm: ScriptedLLM, number: int) -> Any:
    """Run a child."""
    return await Child(llm).run()


async def child_of_child(llm: ScriptedLLM, number: int) -> Any:
    """Run a child that runs children."""
    return await Parent(llm, child).run()


async def child_after_a_call(llm: ScriptedLLM, number: int) -> Any:
    """Ask, and then run a child."""
    return (await llm.acomplete("plan")).text, await Child(llm).run()


async def child_or_call(llm: ScriptedLLM, number: int) -> Any:
    """Run a child, or ask what a child asks."""
    return await Child(llm).run() if number % 2 else (await llm.acomplete("second question")).text


PROGRAMS: dict[str, Callable[[ScriptedLLM], Workflow]] = {
    "children": lambda llm: Parent(llm, child),
    "grandchildren": lambda llm: Parent(llm, child_of_child),
    "children after calls": lambda llm: Parent(llm, child_after_a_call),
    "children beside calls": lambda llm: Parent(llm, child_or_call),
    "children in workers": Fan,
}


@pytest.mark.sweep
@pytest.mark.parametrize("steps", [True, False], ids=["with steps", "without"])
@pytest.mark.parametrize("name", PROGRAMS)
async def test_child_workflows_keep_their_answers(name: str, steps: bool, tmp_path: Path) -> None:
    """Each child gets its own answers, though all ask the same, and those that asked last were answered first."""
    program = PROGRAMS[name]
    with observing(tmp_path / "seen.jsonl", steps=steps):
        observed = await program(ScriptedLLM(World(), wait=Staggered())).run()
    with use_cassette(tmp_path / "seen.jsonl") as session:
        assert await program(ScriptedLLM(gone())).run() == observed
    assert session.report.nondeterminism == ()


class _Pool(ThreadPoolExecutor):
    """Keeps the future of its last job."""

    last: Future[Any]

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.last = super().submit(fn, *args, **kwargs)
        return self.last


async def test_a_thread_that_ends_before_the_first_call_is_not_held(tmp_path: Path) -> None:
    """What came of a thread before the observed order began is delivered, and nothing waits until a patience ends."""

    async def thread_ends_before_the_first_call(llm: ScriptedLLM) -> list[str]:
        """Let a thread answer while no call has begun and the loop is busy; its branch is the one answered first.

        Args:
            llm: The model: the call that begins last is to be answered first.
        """
        begin, posted = threading.Event(), threading.Event()

        async def beside(pool: _Pool) -> str:
            job = asyncio.get_running_loop().run_in_executor(pool, begin.wait)
            pool.last.add_done_callback(lambda _: posted.set())  # behind the one that posts its result into the loop
            begin.set()
            await job
            return (await llm.acomplete("with a thread")).text

        async def here() -> str:
            posted.wait()
            await asyncio.sleep(0)  # the result of the thread is before this step, and this step is ready
            return (await llm.acomplete("without")).text

        with _Pool(1) as pool:
            return list(await asyncio.gather(beside(pool), here()))

    with TapeEventHandler(tmp_path / "seen.jsonl"):
        observed = await thread_ends_before_the_first_call(ScriptedLLM(World(), wait=Staggered()))
    with use_cassette(tmp_path / "seen.jsonl") as session:
        assert await thread_ends_before_the_first_call(ScriptedLLM(World())) == observed
    assert session.report.nondeterminism == ()  # the line notes there each wait that only its patience has ended


@pytest.fixture
def given_up(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return the tasks that the loops of this process waited for in vain: something else ended the wait."""
    found, wait = list[object](), asyncio.wait

    async def noting(tasks: Any, **kwargs: Any) -> Any:
        done, pending = await wait(tasks, **kwargs)
        if not any(isinstance(each, asyncio.Task) for each in done):
            found.append(pending)
        return done, pending

    monkeypatch.setattr(asyncio, "wait", noting)
    return found


@pytest.mark.sweep
@pytest.mark.parametrize("streaming", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("steps", [True, False], ids=["with steps", "without"])
async def test_agents_side_by_side_wait_for_nothing(
    steps: bool, streaming: bool, given_up: list[object], tmp_path: Path
) -> None:
    """Neither the order of the calls of all runs nor the order of the steps of each waits until its patience ends."""

    def _agents(world: World, wait: Any, runs: int, **options: Any) -> Awaitable[list[str]]:
        """Run agents side by side, each of which calls two tools in parallel and then answers."""

        async def look(number: int) -> str:
            """Look."""
            seen = world.reach("look")
            await wait()
            return f"{number}: {seen}"

        def script(messages: Any, _: Any) -> Reply:
            return "done" if len(messages) > 2 else [("look", {"number": number}) for number in range(2)]

        async def run(number: int) -> str:
            tools, llm = [FunctionTool.from_defaults(async_fn=look)], ScriptedLLM(world, script, wait)
            return str(await FunctionAgent(tools=tools, llm=llm, **options).run(f"Question {number}"))

        async def together() -> list[str]:
            return await asyncio.gather(*map(run, range(runs)))

        return together()

    with TapeEventHandler(tmp_path / "seen.jsonl", steps=steps):
        observed = await _agents(World(), Staggered(), 4, streaming=streaming)
    with use_cassette(tmp_path / "seen.jsonl") as session:
        assert await _agents(gone(), at_once, 4, streaming=streaming) == observed
    assert "a thread had not come as far as in the recording" not in session.report.nondeterminism
    assert given_up == []

"""What a workflow made of work that ended at the same time, it makes of it again when it was only observed."""

from __future__ import annotations

import asyncio
import random
import threading
import time
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
from workflows.retry_policy import retry_policy, stop_after_attempt, wait_fixed

from agenttape_core import open_cassette, use_cassette
from agenttape_core.errors import CassetteMissError
from agenttape_llamaindex import TapeEventHandler

from .acceptance import FRAMEWORK_WARNINGS
from .observed import observing
from .programs import Parallel
from .scripted import Reply, ScriptedLLM, World, at_once

pytestmark = FRAMEWORK_WARNINGS


# -- What a workflow made of work that ended at the same time, it makes of it again when it was only observed ----------


class Latency:
    """Waits for a few milliseconds at random, so that some answers come at the same time."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def delay(self) -> float:
        """Return the seconds before another attempt."""
        return self._random.choice((0.005, 0.01, 0.02))

    async def __call__(self) -> None:
        """Wait."""
        await asyncio.sleep(self._random.choice((0, 0, 0.001, 0.003)))


async def agent(world: World, wait: Latency) -> Any:
    """An agent that calls five tools at once."""

    async def look(number: int) -> str:
        """Look."""
        seen = world.reach("look")
        await wait()
        return f"{number}: {seen}"

    def script(messages: Any, _: Any) -> Reply:
        return "done" if len(messages) > 2 else [("look", {"number": number}) for number in range(5)]

    made = FunctionAgent(tools=[FunctionTool.from_defaults(async_fn=look)], llm=ScriptedLLM(world, script))
    output: Any = await made.run("Look around")
    return output.tool_calls


async def fan_out(world: World, wait: Latency, parts: int = 6) -> Any:
    """A workflow that works on parts at once, and joins them in the order in which they come."""
    return await Parallel(ScriptedLLM(world, wait=wait), timeout=20).run(parts=parts)


class One(Event):
    """Work for one step."""


class Other(Event):
    """Work for another step."""


class Sleep(Event):
    """A pause of a step."""


class Said(Event):
    """Something that is never said."""


class Done(Event):
    """Work that is done."""

    text: str


async def attempts(world: World, wait: Latency) -> Any:
    """Two steps that fail at the same time, and whose delays before their next attempts are over in some order."""
    llm, begun = ScriptedLLM(world), list[str]()
    first, second = wait.delay(), wait.delay()

    async def tried(name: str) -> Done:
        begun.append(name)
        if begun.count(name) < 3:
            raise ConnectionError(name)
        return Done(text=(await llm.acomplete(" ".join(begun))).text)

    class Trying(Workflow):
        @step
        async def begin(self, ctx: Context, ev: StartEvent) -> One | Other | None:
            ctx.send_event(One())
            ctx.send_event(Other())
            return None

        @step(retry_policy=retry_policy(wait=wait_fixed(first), stop=stop_after_attempt(5)))
        async def one(self, ev: One) -> Done:
            return await tried("one")

        @step(retry_policy=retry_policy(wait=wait_fixed(second), stop=stop_after_attempt(5)))
        async def other(self, ev: Other) -> Done:
            return await tried("other")

        @step
        async def join(self, ctx: Context, ev: Done) -> StopEvent | None:
            done = ctx.collect_events(ev, [Done] * 2)
            return StopEvent(result=[each.text for each in done]) if done else None

    return await Trying(timeout=20).run()


def hold_up() -> None:
    """Hold up the loop until the delays of failed steps are over."""
    time.sleep(0.04)


async def held_up(world: World) -> Any:
    """A step that is to be tried again by the time that another one, which holds up the loop, ends."""
    llm, begun = ScriptedLLM(world), list[str]()

    class HeldUp(Workflow):
        @step
        async def begin(self, ctx: Context, ev: StartEvent) -> One | Other | None:
            ctx.send_event(One())
            ctx.send_event(Other())
            return None

        @step(retry_policy=retry_policy(wait=wait_fixed(0.03), stop=stop_after_attempt(2)))
        async def one(self, ev: One) -> Done:
            begun.append("one")
            if begun.count("one") == 1:
                raise ConnectionError
            return Done(text=(await llm.acomplete(" ".join(begun))).text)

        @step
        async def other(self, ev: Other) -> Done:
            for _ in range(30):  # turns of the loop, so that it knows by then that the other one has failed
                await asyncio.sleep(0)
            if not world.gone:
                hold_up()
            return Done(text="other")

        @step
        async def join(self, ctx: Context, ev: Done) -> StopEvent | None:
            begun.append("join")
            done = ctx.collect_events(ev, [Done] * 2)
            return StopEvent(result=[*begun, *(each.text for each in done)]) if done else None

    return await HeldUp(timeout=20).run()


async def waits_for_an_event(world: World, seconds: float) -> Any:
    """A step that waits for an event in vain, while another one asks an LLM."""
    out = list[str]()
    llm = ScriptedLLM(world, wait=lambda: asyncio.sleep(seconds))

    class Waiting(Workflow):
        @step
        async def begin(self, ctx: Context, ev: StartEvent) -> One:
            return One()

        @step
        async def one(self, ctx: Context, ev: One) -> Other | Done:
            ctx.send_event(Other())
            try:
                await ctx.wait_for_event(Said, timeout=0.02)
            except TimeoutError:
                out.append("nothing was said")
            return Done(text="waited")

        @step
        async def other(self, ev: Other) -> Done:
            return Done(text=(await llm.acomplete("question")).text)

        @step
        async def join(self, ctx: Context, ev: Done) -> StopEvent | None:
            done = ctx.collect_events(ev, [Done] * 2)
            return StopEvent(result=[*out, *(each.text for each in done)]) if done else None

    return await Waiting(timeout=20).run()


@pytest.mark.parametrize(
    "program",
    [held_up, lambda world: waits_for_an_event(world, 0.05), lambda world: waits_for_an_event(world, 0)],
    ids=["held_up", "late", "early"],
)
async def test_waits_are_over_when_they_were(program: Any, tmp_path: Path) -> None:
    """A delay before another attempt, or a wait for an event, is over between the same ends of steps."""
    with TapeEventHandler(tmp_path / "seen.jsonl"):
        observed = await program(World())
    for _ in range(2):
        with use_cassette(tmp_path / "seen.jsonl"):
            assert await program(gone()) == observed


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("program", [agent, fan_out, attempts])
async def test_racing_work(program: Any, seed: int, tmp_path: Path) -> None:
    """The same results come, in the order of the observed run, whatever ended first, and whether it has its steps."""
    with observing(tmp_path / "seen.jsonl", steps=seed % 2 == 0):
        observed = await program(World(), Latency(seed))
    with use_cassette(tmp_path / "seen.jsonl") as session:
        assert repr(await program(gone(), Latency(seed))) == repr(observed)
    assert session.report.unused == ()


async def test_a_slow_answer_is_waited_for(tmp_path: Path) -> None:
    """Steps that took more than a second, asking or sleeping, end before one whose work takes no time in the replay."""

    async def slow() -> None:
        await asyncio.sleep(1.1)

    async def ended(wait: Any, seconds: float) -> list[str]:
        llm = ScriptedLLM(World(), wait=wait)

        class Both(Workflow):
            @step
            async def begin(self, ctx: Context, ev: StartEvent) -> One | Other | Sleep | None:
                ctx.send_event(One())
                ctx.send_event(Other())
                ctx.send_event(Sleep())
                return None

            @step
            async def one(self, ev: One) -> Done:
                return Done(text=(await llm.acomplete("one")).text)

            @step
            async def sleep(self, ev: Sleep) -> Done:
                await asyncio.sleep(1.05)
                return Done(text="slept")

            @step
            async def other(self, ev: Other) -> Done:
                await asyncio.sleep(seconds)
                return Done(text="other")

            @step
            async def join(self, ctx: Context, ev: Done) -> StopEvent | None:
                done = ctx.collect_events(ev, [Done] * 3)
                return StopEvent(result=[each.text for each in done]) if done else None

        found: list[str] = await Both(timeout=20).run()
        return found

    with TapeEventHandler(tmp_path / "seen.jsonl"):
        observed = await ended(slow, 1.3)
    for pace in ("none", "virtual"):
        with use_cassette(tmp_path / "seen.jsonl", pace=pace):
            assert await ended(at_once, 0) == observed


async def test_a_changed_workflow_goes_on(tmp_path: Path) -> None:
    """Where another result is taken up than was, the recorded order ends, and the miss says what differs."""
    with TapeEventHandler(tmp_path / "seen.jsonl"):
        await fan_out(World(), Latency(0))
    with pytest.raises(CassetteMissError, match="Parallel"), use_cassette(tmp_path / "seen.jsonl"):
        await fan_out(World(), Latency(0), parts=3)


async def test_only_an_order_that_matters_is_kept(tmp_path: Path) -> None:
    """Calls that follow each other, or end as they began, need no order."""
    llm = ScriptedLLM(World())
    with TapeEventHandler(tmp_path / "seen.jsonl"):
        for text in ("one", "two"):
            await llm.acomplete(text)
        await asyncio.gather(llm.acomplete("three"), llm.acomplete("four"))
    volatile = open_cassette(tmp_path / "seen.jsonl").header.volatile
    assert (volatile.turns, [group for group in volatile.schedule if "b" in group.order]) == ([], [])


# -- Work that was observed side by side keeps its own answers, and a replay of it waits for nothing -------------------


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


class Finished(Event):
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
    async def work(self, ev: Work) -> Finished:
        return Finished(result=(ev.number, await Child(self._llm).run()))

    @step
    async def join(self, ctx: Context, ev: Finished) -> StopEvent | None:
        done = ctx.collect_events(ev, [Finished] * 3)
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

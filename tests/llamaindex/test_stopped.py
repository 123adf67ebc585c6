"""Workflows that are cancelled, run out of time, are tried again or miss, and the time that they take."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.agent.workflow import AgentStream, FunctionAgent
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.workflow import Context, StartEvent, StopEvent, Workflow, WorkflowTimeoutError, step
from tests.kit.gate import hang
from tests.kit.times import took
from workflows.errors import WorkflowCancelledByUser

from agenttape_core import Variation, late, use_cassette
from agenttape_core.errors import CassetteMissError
from agenttape_llamaindex import ReplayLLM

from .acceptance import FRAMEWORK_WARNINGS, record_and_replay, run
from .fakes import CallingLLM, LeafLLM
from .programs import PROGRAMS, Interview, Parallel, followed
from .scripted import ScriptedLLM, World

pytestmark = FRAMEWORK_WARNINGS


# -- Workflows run on every replay: misses in steps, retries, time limits and halts ------------------------------------


def test_a_miss_in_a_step_ends_its_run_at_once(tmp_path: Path) -> None:
    """The miss is raised from the stream of events, long before the time limit of the workflow."""

    async def interview(world: World, topic: str) -> Any:
        """Read all events of an interview."""
        return await followed(Interview(ScriptedLLM(world), timeout=60).run(topic=topic))

    path, world = tmp_path / "miss.yaml", World()
    run(PROGRAMS["human_input"], world, path, "once")
    with pytest.raises(CassetteMissError, match=r"\+ .*Oslo"):
        run(lambda world: interview(world, "Oslo"), world, path, "none")


def test_a_miss_in_a_step_is_the_result_of_its_run(tmp_path: Path) -> None:
    """The miss is raised from the awaited run, even while other steps go on."""
    path, world = tmp_path / "miss.yaml", World()
    run(PROGRAMS["parallel_steps"], world, path, "once")

    async def other(world: World) -> Any:
        return await Parallel(ScriptedLLM(world), timeout=60).run(parts=6)

    with pytest.raises(CassetteMissError, match=r"Part [45]"):
        run(other, world, path, "none")


class Shelf(BaseRetriever):
    """Finds one text for all."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [NodeWithScore(node=TextNode(text="The Louvre is in Paris.", id_="louvre"), score=1.0)]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("is_awaited", [False, True])
@pytest.mark.parametrize("is_stand_in", [False, True])
def test_a_miss_of_a_streamed_answer_is_raised_in_its_reader(
    tmp_path: Path, *, is_awaited: bool, is_stand_in: bool
) -> None:
    """A chat engine asks in its own thread or task, whose reader would wait for the end forever."""

    async def program(llm: Any, prompt: str) -> list[str]:
        engine = ContextChatEngine.from_defaults(retriever=Shelf(), llm=llm, system_prompt=prompt)
        if is_awaited:
            return [token async for token in (await engine.astream_chat("Where?")).async_response_gen()]
        return list(engine.stream_chat("Where?").response_gen)

    path, world = tmp_path / "c.yaml", World()
    assert run(lambda world: program(ScriptedLLM(world), "Be brief."), world, path, "once").value
    with pytest.raises(CassetteMissError, match=r"(?s)- .*brief.*\+ .*kind"):
        if is_stand_in:
            asyncio.run(program(ReplayLLM(path), "Be kind."))
        else:
            run(lambda world: program(ScriptedLLM(world), "Be kind."), world, path, "none")


def test_a_time_limit_is_one_of_real_time(tmp_path: Path) -> None:
    """A workflow whose clock stands still times out all the same."""

    class Waits(Workflow):
        """Waits for ever."""

        @step
        async def wait(self, ev: StartEvent) -> StopEvent:
            """Never end."""
            await asyncio.Event().wait()
            return StopEvent()

    async def waits(world: World) -> Any:
        with pytest.raises(WorkflowTimeoutError):
            await Waits(timeout=0.05).run()

    run(waits, World(), tmp_path / "timeout.yaml", "once")


def test_sleeps_at_once_do_not_use_up_a_time_limit(tmp_path: Path) -> None:
    """A workflow that sleeps for a moment in many places is not taken to have slept for their sum."""

    class Sleeps(Workflow):
        """Sleeps in many steps at once."""

        @step
        async def begin(self, ctx: Context, ev: StartEvent) -> StopEvent:
            """Sleep a hundred times at once: the frozen clock passes a hundred times as far."""
            await asyncio.gather(*(asyncio.sleep(0.05) for _ in range(100)))
            return StopEvent(result="slept")

    recorded = run(lambda _: Sleeps(timeout=3).run(), World(), tmp_path / "sleeps.yaml", "once")
    assert recorded.value == "slept"


def test_retries_are_made_again_without_their_delays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each attempt is replayed without waiting between them, however long the policy says; the clock advances."""

    class Patient:
        """A policy that waits a given time, up to three attempts."""

        delay = 0.01

        def next(self, elapsed_time: float, attempts: int, error: Exception) -> float | None:
            """Return how long to wait."""
            return self.delay if attempts < 3 else None

    class Flaky(Workflow):
        """Asks a model that fails twice."""

        def __init__(self, llm: ScriptedLLM, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.llm = llm

        @step(retry_policy=Patient())
        async def ask(self, ctx: Context, ev: StartEvent) -> StopEvent:
            """Ask."""
            answer = await self.llm.acomplete("How are you?")
            return StopEvent(result=f"{answer.text} at attempt {ctx.retry_info().retry_number}")

    async def flaky(world: World) -> Any:
        """Fail twice, and answer then."""

        def script(messages: Any, tools: Any) -> str:
            if len(world.reached) < 3:
                raise ConnectionError(f"down {len(world.reached)}")
            return "Fine"

        return await followed(Flaky(ScriptedLLM(world, script), timeout=60).run())

    recorded, replayed = record_and_replay(flaky, tmp_path / "retries.yaml")
    assert replayed.value == recorded.value
    assert replayed.log == recorded.log
    assert "at attempt 2" in recorded.value["result"]
    monkeypatch.setattr(Patient, "delay", 20.0)
    with use_cassette(tmp_path / "retries.yaml"):
        began = time.time()
        assert asyncio.run(asyncio.wait_for(flaky(World()), 10)) == recorded.value
        assert time.time() - began >= 40


# -- Calls that a program, a workflow or a stop button cancels are cancelled again in a replay -------------------------

SOON = 0.5
"""Seconds; no test waits for so long, see `hang`."""


class Slow(LeafLLM):
    """Never completes."""

    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Never answer."""
        self._world.reach("slow")
        await hang()
        return CompletionResponse(text=prompt)


class Stuck(CallingLLM):
    """Streams three tokens, and never a fourth one."""

    async def astream_chat(self, messages: Any, **kwargs: Any) -> Any:
        """Return a stream that hangs."""
        self._world.reach("stuck")

        async def chunks() -> Any:
            for number in range(3):
                yield ChatResponse(
                    message=ChatMessage(role="assistant", content="abc"[: number + 1]), delta="abc"[number]
                )
            await hang()

        return chunks()


class Asks(Workflow):
    """Asks a model that never answers."""

    def __init__(self, world: World, **options: Any) -> None:
        super().__init__(**options)
        self.world = world

    @step
    async def ask(self, ev: StartEvent) -> StopEvent:
        """Ask."""
        return StopEvent(result=(await Slow(self.world).acomplete("Hi")).text)


async def workflow_timeout(world: World) -> Any:
    """Let a workflow run out of time while the model answers."""
    with pytest.raises(WorkflowTimeoutError) as raised:
        await Asks(world, timeout=SOON).run()
    return str(raised.value)


class Thread(LeafLLM):
    """Completes too late, in the thread of its caller."""

    def __init__(self, world: World, release: threading.Event) -> None:
        super().__init__(world)
        self._release = release

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Answer when nobody waits any more."""
        self._world.reach("thread")
        self._release.wait()
        return CompletionResponse(text=prompt)


class AsksInAThread(Workflow):
    """Asks in a step that is no coroutine, which a thread runs."""

    def __init__(self, llm: LeafLLM, **options: Any) -> None:
        super().__init__(**options)
        self.llm = llm

    @step
    def ask(self, ev: StartEvent) -> StopEvent:
        """Ask."""
        return StopEvent(result=self.llm.complete("Hi").text)


async def step_in_a_thread(world: World) -> Any:
    """Let a workflow run out of time while a thread goes on."""
    release = threading.Event()
    try:
        with pytest.raises(WorkflowTimeoutError) as raised:
            await AsksInAThread(Thread(world, release), timeout=SOON).run()
        return str(raised.value)
    finally:
        release.set()


async def cancelled_run(world: World) -> Any:
    """Cancel a workflow while the model answers."""
    handler = Asks(world, timeout=60).run()
    await asyncio.sleep(SOON)
    await handler.cancel_run()
    with pytest.raises(WorkflowCancelledByUser):
        await handler


async def fallback(world: World) -> Any:
    """Ask another model after a while."""
    try:
        return (await asyncio.wait_for(Slow(world).acomplete("Hi"), SOON)).text
    except TimeoutError:
        return (await LeafLLM(world).acomplete("Hi")).text


async def stop_button(world: World) -> Any:
    """Stop an agent after three tokens."""
    handler = FunctionAgent(llm=Stuck(world), tools=[], streaming=True).run("Hi")
    read: list[str] = []
    async for event in handler.stream_events():
        if isinstance(event, AgentStream):
            read.append(event.delta)
            if len(read) == 3:
                await handler.cancel_run()
                break
    with pytest.raises(WorkflowCancelledByUser):
        await handler
    return read


CANCELLED = [workflow_timeout, step_in_a_thread, cancelled_run, fallback, stop_button]


@pytest.mark.parametrize("program", CANCELLED, ids=lambda p: p.__name__)
def test_the_same_call_is_cancelled_again(program: Callable[[World], Awaitable[Any]], tmp_path: Path) -> None:
    """The same timeout fires, the same fallback answers, the same tokens come before the stop."""

    def run(world: World, mode: str) -> tuple[Any, Any]:
        async def main() -> Any:
            with use_cassette(tmp_path / "c.yaml", mode=mode) as session:
                return await program(world), session

        return asyncio.run(main())

    live, recording = run(World(), "once")
    outcome = recording.interactions[0].outcome
    assert outcome.status == "cancelled" or outcome.given_up is not None
    world = World()
    world.gone = True
    replayed, replay = run(world, "none")
    assert replayed == live
    assert (world.trespasses, len(replay.report.replayed)) == ([], len(recording.interactions))


# -- Virtual time of workflows: their time limit -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "options", "result"),
    [
        (60, {}, ("answered", 45)),
        (30, {}, ("ended", 30)),
        (60, {"vary": Variation(changes={1: late(60)})}, ("ended", 60)),
    ],
)
def test_the_time_limit_of_a_workflow_is_virtual(tmp_path: Path, limit: float, options: Any, result: Any) -> None:
    """A model takes its recorded time, and a workflow ends when it would have ended."""

    class Asks(Workflow):
        """Asks once."""

        @step
        async def ask(self, _: StartEvent) -> StopEvent:
            """Ask."""
            return StopEvent(result=(await ScriptedLLM(World()).acomplete("Why?")).text)

    def run(path: Path, limit: float, **options: Any) -> Any:
        """Run the workflow, and return the seconds that it took in its loop, and whether it was ended."""

        async def runs() -> Any:
            loop = asyncio.get_running_loop()
            async with use_cassette(path, on_unused="ignore", **options):
                began = loop.time()
                try:
                    await Asks(timeout=limit).run()
                except WorkflowTimeoutError:
                    return "ended", round(loop.time() - began, 1)
                return "answered", round(loop.time() - began, 1)

        return asyncio.run(runs())

    run(tmp_path / "run.yaml", 60, mode="all")
    took(tmp_path / "run.yaml", {1: 45})
    assert run(tmp_path / "run.yaml", limit, pace="virtual", **options) == result

"""Calls that a program, a workflow or a stop button cancels are cancelled again in a replay."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.agent.workflow import AgentStream, FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step
from tests.kit.gate import hang
from tests.kit.world import World
from workflows.errors import WorkflowCancelledByUser, WorkflowTimeoutError

from agenttape_core import use_cassette

from .acceptance import FRAMEWORK_WARNINGS
from .fakes import CallingLLM, LeafLLM

pytestmark = FRAMEWORK_WARNINGS
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


PROGRAMS = [workflow_timeout, step_in_a_thread, cancelled_run, fallback, stop_button]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
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

"""Parallel work of workflows and agents is taken up in the recorded order, and streams its events in that order."""

from __future__ import annotations

import asyncio
import io
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.llms import ChatMessage, ChatResponse
from llama_index.core.llms.callbacks import llm_chat_callback
from tqdm import tqdm
from workflows import Context, Workflow, step
from workflows.events import Event, StartEvent, StopEvent
from workflows.retry_policy import retry_policy, stop_after_attempt, wait_fixed

from agenttape_core import use_cassette
from agenttape_llamaindex import TapeEventHandler

from .scripted import ScriptedLLM, World

Waits = Callable[[], Awaitable[None]]


def told(event: Event) -> tuple[str, str]:
    """Return what an event says."""
    return type(event).__name__, repr(event.model_dump())


class Part(Event):
    """A part of the work."""

    n: int


class Done(Event):
    """What came of it."""

    text: str


class Fan(Workflow):
    """A fan-out of eight calls, whose join asks in the order in which they came."""

    def __init__(self, llm: ScriptedLLM) -> None:
        super().__init__(timeout=30)
        self.llm = llm

    @step
    async def start(self, ctx: Context, event: StartEvent) -> Part | None:
        """Send the parts."""
        for n in range(8):
            ctx.send_event(Part(n=n))
        return None

    @step(num_workers=3)
    async def work(self, ctx: Context, event: Part) -> Done:
        """Ask."""
        done = Done(text=str(await self.llm.acomplete(f"part {event.n}")))
        ctx.write_event_to_stream(done)
        return done

    @step
    async def join(self, ctx: Context, event: Done) -> StopEvent | None:
        """Ask about all of them."""
        got = ctx.collect_events(event, [Done] * 8)
        asked = " ".join(done.text for done in got or ())
        return StopEvent(result=str(await self.llm.acomplete(asked))) if got else None


def taped(path: Path) -> Any:
    """Record to a cassette by a session."""
    return use_cassette(path, mode="once")


@pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20")  # of LlamaIndex's own code
@pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince211")
@pytest.mark.parametrize(
    ("recording", "failing", "pauses"),
    [(taped, (1, 3), (0,)), (taped, (1, 3), (0.005, 0.01)), (TapeEventHandler, (1,), (0, 0.005))],
)
async def test_attempts_come_as_they_did(
    recording: Any, failing: Sequence[int], pauses: tuple[float, ...], tmp_path: Path
) -> None:
    """Steps that are tried again come between the others where they did, however fast the calls of these are."""

    class Failing(Fan):
        """A fan-out in which parts fail twice, and are tried again a moment later.

        Args:
            llm: The LLM.
            failing: The parts.
        """

        def __init__(self, llm: ScriptedLLM, failing: Sequence[int]) -> None:
            super().__init__(llm)
            self.failing = failing
            self.tried: list[int] = []

        @step(num_workers=3, retry_policy=retry_policy(wait=wait_fixed(0.001), stop=stop_after_attempt(4)))
        async def work(self, ctx: Context, event: Part) -> Done:
            """Ask, and fail of some the first two times."""
            self.tried.append(event.n)
            done = Done(text=str(await self.llm.acomplete(f"part {event.n}, {self.tried}")))
            if event.n in self.failing and self.tried.count(event.n) < 3:
                raise ValueError("again")
            ctx.write_event_to_stream(done)
            return done

    source, world = random.Random(5), World()

    async def wait() -> None:
        if pause := source.choice(pauses):
            await asyncio.sleep(pause)

    async def program() -> Any:
        flow = Failing(ScriptedLLM(world, wait=wait), failing)
        run = flow.run()
        return [told(event) async for event in run.stream_events()], str(await run), flow.tried

    with recording(tmp_path / "tried.yaml"):
        recorded = await program()
    world.gone = True
    compared = slice(0 if recording is taped else 1, None)  # a handler cannot tell when an event was streamed
    with use_cassette(tmp_path / "tried.yaml") as session:
        assert (await program())[compared] == recorded[compared]
    assert session.report.nondeterminism == ()


def test_synchronous_calls_in_threads_take_turns(tmp_path: Path) -> None:
    """What threads do between their calls and streams of an LLM comes out as it did, and nothing is told."""
    world = World()
    llm = ScriptedLLM(world)

    def program() -> list[str]:
        out: list[str] = []

        def one(name: str) -> None:
            out.append(llm.complete(name).text)
            out.append(str(llm.chat([ChatMessage(name)])))
            out.extend(part.delta or "" for part in llm.stream_complete(f"{name}?"))

        with ThreadPoolExecutor(3) as pool:
            list(pool.map(one, "abcd"))
        return out

    with use_cassette(tmp_path / "threads.yaml", mode="once"):
        recorded = program()
    world.gone = True
    for _ in range(3):
        with use_cassette(tmp_path / "threads.yaml") as session:
            assert program() == recorded
        assert session.report.nondeterminism == ()


class Slow(ScriptedLLM):
    """A model whose stream is there at once, and whose words take a few rounds of the loop each."""

    @llm_chat_callback()
    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> AsyncIterator[ChatResponse]:
        """Answer word by word."""
        said = self._said(messages, kwargs)

        async def words() -> AsyncIterator[ChatResponse]:
            for chunk in self._streamed(*said):
                for _ in range(5):
                    await asyncio.sleep(0)
                yield chunk

        return words()


def test_a_stream_that_was_opened_alone_comes_when_it_did(tmp_path: Path) -> None:
    """The opening of a stream and its words come beside a task that goes on, in each run."""
    world = World()

    async def program() -> list[Any]:
        out, llm = list[Any](), Slow(world)

        async def reading() -> None:
            for question in ("Of ships?", "Of towers?"):
                async for part in await llm.astream_chat([ChatMessage(question)]):
                    out.append(part.delta)

        async def working() -> None:
            for number in range(120):
                out.append(number)
                await asyncio.sleep(0)

        await asyncio.gather(reading(), working())
        return out

    with use_cassette(tmp_path / "c.yaml", mode="once"):
        recorded = asyncio.run(program())
    world.gone = True
    for _ in range(2):
        with use_cassette(tmp_path / "c.yaml") as session:
            assert asyncio.run(program()) == recorded
        assert session.report.nondeterminism == ()


def test_the_monitor_of_progress_bars_is_no_part_of_the_run(tmp_path: Path) -> None:
    """A program that began the thread of tqdm in its recording replays where that thread is there already."""
    llm = ScriptedLLM(World())

    async def program() -> list[str]:
        return [(await llm.acomplete(word)).text for word in tqdm("ab", file=io.StringIO())]

    if tqdm.monitor is not None:
        tqdm.monitor.exit()
        tqdm.monitor = None
    with use_cassette(tmp_path / "c.yaml", mode="once"):
        recorded = asyncio.run(program())
    assert tqdm.monitor.is_alive()
    with use_cassette(tmp_path / "c.yaml") as session:
        assert asyncio.run(program()) == recorded
    assert session.report.nondeterminism == ()

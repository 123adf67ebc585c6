"""What came at once in an event loop while it was observed comes in that order again; what nobody saw is named."""

from __future__ import annotations

import asyncio
import random
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import RunnableLambda
from pydantic import BaseModel, Field

from agenttape_core import use_cassette
from agenttape_core.results import Verification
from agenttape_langchain import TapeCallbackHandler

from .fakes import FakeChat, World

NAMES, WORDS = "abc", 3
BETWEEN = ("what is done between the answers of calls that are awaited at once may come in another order",)


class Turnstile:
    """Lets the chunks of several streams pass in one order. A chunk has passed when its reader wants another one."""

    def __init__(self, order: list[str]) -> None:
        self._left = order
        self._changed = asyncio.Condition()

    async def enter(self, name: str) -> None:
        """Wait for the turn of a stream."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._left[0] == name)

    async def leave(self) -> None:
        """Give the turn to the next one."""
        async with self._changed:
            self._left.pop(0)
            self._changed.notify_all()


class Speaker(BaseChatModel):
    """Says its name, word by word, when it has the turn; without a turnstile, it is gone."""

    name: str = ""
    turnstile: Any = None

    @property
    def _llm_type(self) -> str:
        return "speaker"

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        self.turnstile.wait()
        time.sleep(0.005)  # so that recorded times, which are rounded, overlap
        return ChatResult(generations=[ChatGeneration(message=AIMessage(self.name))])

    async def _astream(self, *_: Any, **__: Any) -> AsyncIterator[ChatGenerationChunk]:
        for number in range(WORDS):
            await self.turnstile.enter(self.name)
            yield ChatGenerationChunk(message=AIMessageChunk(f"{self.name}{number}"))
            await self.turnstile.leave()


async def spoken(names: str, order: list[str] | None, *, inside: bool, config: Any = None) -> list[str]:
    """Read streams at once, and return their words as they come; inside of one run, or each as one of its own."""
    turnstile = Turnstile(order) if order is not None else None
    words: list[str] = []

    async def read(name: str, config: Any) -> None:
        async for chunk in Speaker(name=name, turnstile=turnstile).astream(f"Speak, {name}", config):
            words.extend([chunk.text] if chunk.text else [])

    async def read_all(_: Any, config: Any = None) -> None:
        await asyncio.gather(*(read(name, config) for name in names))

    if inside:
        await RunnableLambda(read_all).ainvoke(0, config)
    else:
        await read_all(0, config)
    return words


@pytest.mark.parametrize("inside", [True, False], ids=["in one run", "each a run"])
@pytest.mark.parametrize("seed", range(2))
async def test_chunks_of_an_event_loop(seed: int, inside: bool, tmp_path: Path) -> None:
    """Chunks of streams that are read at once come in the recorded order, in each replay."""
    order = [name for name in NAMES for _ in range(WORDS)]
    random.Random(seed).shuffle(order)
    with TapeCallbackHandler(tmp_path / "seen.jsonl") as handler:
        observed = await spoken(NAMES, [*order], inside=inside, config={"callbacks": [handler]})
    assert handler.errors == []
    assert [word[0] for word in observed] == order
    for _ in range(2):
        with use_cassette(tmp_path / "seen.jsonl") as session:
            assert await spoken(NAMES, None, inside=inside) == observed
        assert session.report.nondeterminism == ()
        assert session.report.unobserved in ((), BETWEEN)  # a turnstile takes no time, as no provider does


@pytest.mark.parametrize("seed", range(3))
async def test_what_tasks_do_between_answers_comes_in_its_order(seed: int, tmp_path: Path) -> None:
    """Answers come amid the steps of other tasks where they came, or the report names it."""

    class Provider(BaseChatModel):
        """Takes some milliseconds for each answer; without a seed, it is gone."""

        draws: Any = None

        @property
        def _llm_type(self) -> str:
            return "provider"

        def _generate(self, *_: Any, **__: Any) -> ChatResult:
            raise AssertionError

        async def _agenerate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
            await asyncio.sleep(self.draws.uniform(0.004, 0.03))
            return ChatResult(generations=[ChatGeneration(message=AIMessage(f"{messages[-1].text}!"))])

    async def asked(draws: random.Random | None, config: Any = None) -> list[str]:
        """Ask in five tasks which go on for some steps after each answer, and return what they did in its order."""
        model, done = Provider(draws=draws), list[str]()

        async def ask(number: int) -> None:
            for turn in range(3):
                done.append((await model.ainvoke(f"{number}.{turn}", config)).text)
                for step in range(4):
                    await asyncio.sleep(0)
                    done.append(f"{number}.{turn}.{step}")

        await asyncio.gather(*map(ask, range(5)))
        return done

    with TapeCallbackHandler(tmp_path / "seen.jsonl") as handler:
        observed = await asked(random.Random(seed), {"callbacks": [handler]})
    with use_cassette(tmp_path / "seen.jsonl") as session:
        replayed = await asked(None)
    assert replayed == observed or session.report.unobserved == BETWEEN
    assert session.report.nondeterminism == ()


async def test_one_stream_after_the_other(tmp_path: Path) -> None:
    """A program that awaits one call at a time has no note."""
    with TapeCallbackHandler(tmp_path / "seen.jsonl") as handler:
        config = {"callbacks": [handler]}
        observed = [await spoken(name, [name] * WORDS, inside=False, config=config) for name in NAMES]
    with use_cassette(tmp_path / "seen.jsonl") as session:
        assert [await spoken(name, None, inside=False) for name in NAMES] == observed
    assert (session.report.nondeterminism, session.report.unobserved) == ((), ())


def test_answers_of_threads(tmp_path: Path) -> None:
    """Where calls of threads overlapped, a replay says that what they did between their answers is not known."""

    def drive(meeting: Any, **config: Any) -> Any:
        ask = RunnableLambda(lambda name: Speaker(name=name, turnstile=meeting).invoke(f"Speak, {name}").text)
        return ask.batch(["a", "b"], config or None)

    with TapeCallbackHandler(tmp_path / "seen.jsonl") as handler:
        observed = drive(threading.Barrier(2), callbacks=[handler])
    with use_cassette(tmp_path / "seen.jsonl") as session:
        assert drive(None) == observed
    assert session.report.unobserved == BETWEEN


# -- what the program draws ----------------------------------------------------------------------------------------

IDS, NUMBERS, TIMES = (f"{what} that the program draws are other ones" for what in ("ids", "random numbers", "times"))


class Named(BaseModel):
    """Something with an id of its own."""

    id: uuid.UUID = Field(default_factory=uuid.uuid4)


def in_a_thread(work: Callable[[], object]) -> None:
    """Work in a thread without a context."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


DRAWN: dict[str, tuple[Callable[[], object], tuple[str, ...]]] = {
    "nothing": (lambda: None, ()),
    "a seed of its own": (lambda: random.Random(1).random(), ()),
    "an id": (uuid.uuid4, (IDS,)),
    "an id of a field": (Named, (IDS,)),
    "an id in a thread": (lambda: in_a_thread(uuid.uuid4), (IDS,)),
    "a time in a thread": (lambda: in_a_thread(time.time), (TIMES,)),
    "numbers": (lambda: [random.random(), random.choice("abc")], (NUMBERS,)),
    "a generator": (random.Random, (NUMBERS,)),
    "a time": (time.time, (TIMES,)),
    "a date": (datetime.now, (TIMES,)),
    "several": (lambda: (time.time(), uuid.uuid1()), (TIMES, IDS)),
    "an id of the framework": (lambda: ToolMessage("", tool_call_id="1").pretty_repr(), ()),
}


@pytest.mark.parametrize("name", DRAWN)
def test_what_is_drawn_is_named(name: str, world: World, tmp_path: Path) -> None:
    """Each replay names the kinds of what its program drew; a program that draws nothing has no note."""
    draw, told = DRAWN[name]

    def drive(**config: Any) -> str:
        def work(said: str) -> str:
            draw()
            return str(FakeChat(world=world).invoke(said).content)

        return RunnableLambda(work).invoke("Rain?", config or None)

    with TapeCallbackHandler(tmp_path / "seen.jsonl") as handler:
        observed = drive(callbacks=[handler])
    assert handler.errors == []
    for _ in range(2):
        with use_cassette(tmp_path / "seen.jsonl") as session:
            assert drive() == observed
        assert (session.report.nondeterminism, session.report.unobserved) == ((), told)


def test_what_a_session_has_recorded_is_complete(world: World, tmp_path: Path) -> None:
    """A session keeps what is drawn, so that its replays have nothing to say, and give the same."""

    def drive() -> tuple[str, uuid.UUID]:
        return str(FakeChat(world=world).invoke("Rain?").content), uuid.uuid4()

    with use_cassette(tmp_path / "taped.jsonl", mode="all"):
        recorded = drive()
    with use_cassette(tmp_path / "taped.jsonl") as session:
        assert drive() == recorded
    assert session.report.unobserved == ()


def test_a_verification_says_so() -> None:
    """The report of a verification has a line for it, and its data a list."""
    found = Verification("f", [], [], "failed", {}, unobserved=[IDS])
    line = f"  the run was only observed, and a handler does not see all (a session does): {IDS}"
    assert line in str(found).splitlines()
    assert found.to_dict()["unobserved"] == [IDS]

"""LLMs that call their own methods: only a call that's carried on is a delegation, all others are replayed whole."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

import pytest
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback

from agenttape_core import Interaction, use_cassette
from agenttape_core.scheduling import turn
from agenttape_core.storage import Cassette
from agenttape_llamaindex import tape

from .acceptance import FRAMEWORK_WARNINGS
from .fakes import CALLS, LeafLLM, as_async, done, with_events
from .observed import interactions, observing
from .scripted import World

pytestmark = FRAMEWORK_WARNINGS

QUERY = [ChatMessage(role="user", content="Rewrite this.")]


def said(text: str) -> ChatResponse:
    """Return a chat with a text."""
    return ChatResponse(message=ChatMessage(role="assistant", content=text))


class Carrying(LeafLLM):
    """Carries the answer of one inner call on, through a helper and in another form."""

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        return said(self._asked(messages))

    def _asked(self, messages: Sequence[ChatMessage]) -> str:
        return self.complete(str(messages[-1].content)).text

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        return self.chat(messages)

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        def one() -> Iterator[CompletionResponse]:
            text = self.complete(prompt).text
            yield CompletionResponse(text=text, delta=text)

        return one()

    @llm_completion_callback()
    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return list(super().stream_complete(prompt))[-1]


class Rewriting(LeafLLM):
    """Calls itself for a query, and then makes a request of its own."""

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        self.complete("Rewrite this.")
        return self._chat("own")

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        response = self.chat(QUERY)
        response.message.blocks = said(f"own {self._world.reach('own')}").message.blocks  # in place
        return response

    @llm_chat_callback()
    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Any:
        self.complete("Rewrite this.")
        return self._chunks("own")

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        def texts() -> Iterator[CompletionResponse]:
            yield from self._texts("own")
            self.complete("Was that good?")

        return texts()

    @llm_chat_callback()
    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Any:
        async def chunks() -> Any:
            await super(Rewriting, self).achat(QUERY)
            async for chunk in as_async(self._chunks("own")):
                yield chunk

        return chunks()

    @llm_completion_callback()
    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        self.complete("Rewrite this.")
        raise ValueError(f"own {self._world.reach('own')}")


class Saying(LeafLLM):
    """Answers each of two requests by an equal text."""

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        self.complete("Yes or no?")
        self._world.reach("own")
        return said("yes, no".partition(",")[0])

    def _complete(self, what: str) -> CompletionResponse:
        self._world.reach(what)
        return CompletionResponse(text="yes or no".partition(" ")[0])


class Stamping(LeafLLM):
    """Adds an id to the answer that it carries on, or to its message."""

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        response = super().chat(messages)
        response.additional_kwargs["id"] = self._world.reach("id")
        return response

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        response = await super().achat(messages)
        response.message.additional_kwargs["id"] = self._world.reach("id")
        return response


class Twice(LeafLLM):
    """Makes two inner calls, in a row or at once, and returns one of the answers."""

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        first = super().chat(messages)
        super().chat(QUERY)
        return first

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        calls = (self._once(asked) for asked in (messages, QUERY))
        return (await asyncio.gather(*calls))[0]

    async def _once(self, messages: Sequence[ChatMessage]) -> ChatResponse:
        return await super().achat(messages)

    @llm_chat_callback()
    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Any:
        def both() -> Iterator[ChatResponse]:
            yield from super(Twice, self).stream_chat(QUERY)
            yield from super(Twice, self).stream_chat(messages)

        return both()

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Makes another attempt after an error."""
        try:
            return super().complete(prompt)
        except ValueError:
            self.fails = False
            return super().complete(prompt)


def asked(llm: Any, name: str) -> Any:
    """Return the outcome of a call of an LLM, and the events that it fired."""

    def call() -> Any:
        try:
            return done(CALLS[name](llm))
        except ValueError as error:
            return str(error)

    return with_events(call)


def recorded(
    tmp_path: Path, make: Callable[[World], Any], name: str, *, auto: bool = True
) -> tuple[Interaction, Any, Any]:
    """Record a call and replay it without the world; return its interaction, and both outcomes with their events."""
    world = World()
    prepared: Callable[[Any], Any] = (lambda llm: llm) if auto else tape
    with use_cassette(tmp_path / "c.yaml", mode="all", auto=auto):
        first = asked(prepared(make(world)), name)
    world.gone = True
    with use_cassette(tmp_path / "c.yaml", auto=auto) as replay:
        second = asked(prepared(make(world)), name)
    assert second[0] == first[0]
    assert world.trespasses == []
    assert len(replay.report.replayed) == 1
    (interaction,) = interactions(tmp_path / "c.yaml")
    return interaction, first, second


def observed(tmp_path: Path, make: Callable[[World], Any], name: str) -> Interaction:
    """Observe a call, and return its one interaction."""
    with observing(tmp_path / "seen.yaml"):
        asked(make(World()), name)
    (interaction,) = interactions(tmp_path / "seen.yaml")
    return interaction


CARRIED = [("chat", ["chat"]), ("achat", ["achat", "chat"]), ("stream_complete", ["stream_complete"])]


@pytest.mark.sweep
@pytest.mark.parametrize("auto", [True, False], ids=["automatic", "taped"])
@pytest.mark.parametrize(("name", "methods"), CARRIED)
def test_one_call_that_is_carried_on(tmp_path: Path, name: str, methods: list[str], *, auto: bool) -> None:
    """The inner call is recorded, and on replay the outer method runs, with all its events."""
    interaction, first, second = recorded(tmp_path, Carrying, name, auto=auto)
    assert interaction.metadata == {"delegated_by": methods}
    assert second[1] == first[1]
    seen = observed(tmp_path, Carrying, name)
    assert (seen.outcome, seen.metadata) == (interaction.outcome, interaction.metadata)


def test_a_replay_parses_no_whole_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A conversation is replayed without its requests being read from the file, whether calls of it delegate or not."""
    world = World()
    for mode in ("once", "none"):
        with use_cassette(tmp_path / "c.jsonl", mode=mode):
            answers = LeafLLM(world).complete("Hi").text, asyncio.run(Carrying(world).achat(QUERY)).message.content
        assert answers == ("text 1", "text 2")
        monkeypatch.setattr(Cassette, "interaction", None)
        world.gone = True


def test_plain_call_of_a_stream(tmp_path: Path) -> None:
    """The stream is recorded, and read again on replay."""
    interaction, first, second = recorded(tmp_path, Carrying, "acomplete")
    assert (interaction.outcome.status, interaction.metadata) == ("streamed", {"delegated_by": ["acomplete"]})
    assert second[1] == first[1]


@pytest.mark.parametrize("auto", [True, False], ids=["automatic", "taped"])
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (Rewriting, "chat"),
        (Rewriting, "achat"),
        (Rewriting, "stream_chat"),
        (Rewriting, "stream_complete"),
        (Rewriting, "astream_chat"),
        (Rewriting, "acomplete"),
        (Saying, "chat"),
        (Stamping, "chat"),
        (Stamping, "achat"),
        (Twice, "chat"),
        (Twice, "achat"),
        (Twice, "stream_chat"),
        (lambda world: Twice(world, fails=True), "complete"),
    ],
)
def test_call_that_does_more_is_replayed_whole(
    tmp_path: Path, make: Callable[[World], Any], name: str, *, auto: bool
) -> None:
    """The outcome of the outer call is recorded, and nothing of it runs on replay."""
    interaction, _, _ = recorded(tmp_path, make, name, auto=auto)
    assert interaction.metadata == {}
    seen = observed(tmp_path, make, name)
    assert (seen.outcome, seen.metadata) == (interaction.outcome, {})


def test_stream_closed_early_is_replayed_whole(tmp_path: Path) -> None:
    """What a delegating stream would have done next is not known: what was read of it is recorded."""

    class Passing(LeafLLM):
        @llm_chat_callback()
        def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Any:
            yield from super().stream_chat(messages)

    def first_chunk(llm: Any) -> Any:
        stream = llm.stream_chat(QUERY)
        chunk = next(stream)
        stream.close()
        return chunk

    world = World()
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        before = first_chunk(Passing(world))
    world.gone = True
    with use_cassette(tmp_path / "c.yaml"):
        assert first_chunk(Passing(world)) == before
    (interaction,) = interactions(tmp_path / "c.yaml")
    assert (interaction.outcome.ended, interaction.metadata) == ("closed", {})


class Napping(LeafLLM):
    """Passes calls on after a wait and before another: each takes the seconds that its prompt finds in `naps`."""

    naps: ClassVar[dict[str, float]] = {}

    def _draw(self) -> tuple[Any, ...]:
        return random.random(), uuid4(), time.time()

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        self._draw()
        time.sleep(self.naps[prompt])
        answer = super().complete(prompt, **kwargs)
        time.sleep(self.naps[prompt])
        return answer

    @llm_completion_callback()
    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        self._draw()
        await asyncio.sleep(self.naps[prompt])
        await asyncio.get_running_loop().run_in_executor(None, uuid4)
        answer = super().complete(prompt, **kwargs)
        await asyncio.sleep(self.naps[prompt])
        return answer

    @llm_completion_callback()
    async def astream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        async def chunks() -> AsyncIterator[CompletionResponse]:
            for chunk in super(Napping, self).stream_complete(prompt, **kwargs):
                await asyncio.sleep(self.naps[prompt])
                yield chunk

        await asyncio.sleep(self.naps[prompt])
        return chunks()

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        return said((await asyncio.to_thread(self.complete, str(messages[-1].content))).text)


async def _streamed(llm: LeafLLM, prompt: str, came: list[str]) -> None:
    async for chunk in await llm.astream_complete(prompt):
        came.append(f"{prompt} {chunk.text}")  # noqa: PERF401 - each as it comes


async def _completed(llm: LeafLLM, prompt: str, came: list[str]) -> None:
    came.append(f"{prompt} {(await llm.acomplete(prompt)).text}")


async def _chatted(llm: LeafLLM, prompt: str, came: list[str]) -> None:
    came.append(f"{prompt} {await llm.achat([ChatMessage(content=prompt)])}")


def _called(llm: LeafLLM, prompt: str, came: list[str]) -> None:
    came.append(f"{prompt} {llm.complete(prompt).text}")


@pytest.mark.parametrize("ask", [_completed, _streamed, _chatted, _called])
def test_what_a_method_does_besides_the_call_that_it_carries_on_is_part_of_the_call(
    tmp_path: Path, ask: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its waits and draws in a replay change neither the order of the answers, nor the clock, nor the ids."""
    monkeypatch.setattr(turn, "_SETTLED", 0.001)  # in a replay, each nap is longer

    async def side_by_side(llm: LeafLLM, came: list[str]) -> None:
        await asyncio.gather(*(ask(llm, prompt, came) for prompt in "abc"))

    def program() -> list[Any]:
        llm, came = Napping(world), list[str]()
        if asyncio.iscoroutinefunction(ask):
            asyncio.run(side_by_side(llm, came))
        else:
            with ThreadPoolExecutor(3) as pool:
                list(pool.map(lambda prompt: ask(llm, prompt, came), "abc"))
        return [*came, datetime.now(UTC), uuid4(), random.random()]

    world = World()
    Napping.naps = {"a": 0.03, "b": 0.001, "c": 0.015}
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        recorded = program()
    world.gone = True
    Napping.naps = {"a": 0.002, "b": 0.04, "c": 0.02}
    with use_cassette(tmp_path / "c.yaml") as replay:
        assert program() == recorded
    assert replay.report.nondeterminism == replay.report.entropy == ()

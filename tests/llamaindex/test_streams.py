"""Streams: closed early, broken midway, never read, and what of them is stored."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, TextBlock, ToolCallBlock
from llama_index.core.callbacks import CallbackManager
from llama_index.core.llms.mock import MockFunctionCallingLLM
from pydantic import BaseModel

from agenttape_core import open_cassette, use_cassette
from agenttape_llamaindex import tape

from .fakes import HELLO, Callbacks, LeafLLM, as_async, events_of
from .scripted import World


def first_two(llm: Any) -> list[Any]:
    """Return the first two chunks of a stream, and close it."""
    stream = llm.stream_chat(HELLO)
    chunks = [next(stream), next(stream)]
    stream.close()
    return chunks


async def afirst_two(llm: Any) -> list[Any]:
    """Return the first two chunks of an async stream, and close it."""
    stream = await llm.astream_chat(HELLO)
    chunks = [await anext(stream), await anext(stream)]
    await stream.aclose()
    return chunks


@pytest.mark.parametrize("read", [first_two, lambda llm: asyncio.run(afirst_two(llm))], ids=["sync", "async"])
def test_closed_early(tmp_path: Path, world: World, read: Any) -> None:
    """A stream that its reader closes is recorded as closed, and replays with the same events."""
    llm = tape(LeafLLM(world))
    with use_cassette(tmp_path / "c.yaml", mode="all"), events_of() as told:
        recorded = read(llm)
    world.gone = True
    with use_cassette(tmp_path / "c.yaml"), events_of() as again:
        assert read(llm) == recorded
    outcome = next(iter(open_cassette(tmp_path / "c.yaml").records())).outcome
    assert (outcome.status, outcome.ended, len(outcome.chunks)) == ("streamed", "closed", 2)
    assert [event[:2] for event in again] == [event[:2] for event in told]


@pytest.mark.parametrize("form", ["stream_chat", "astream_chat", "stream_complete", "astream_complete"])
def test_broken_midway(form: str, tmp_path: Path, world: World) -> None:
    """The chunks before an error arrive again, and then the error; each event and callback that began ends again."""
    got: list[list[Any]] = []

    async def read() -> None:
        stream = getattr(llm, form)("Once" if "complete" in form else HELLO)
        async for chunk in await stream if form.startswith("a") else as_async(stream):
            got[-1].append(chunk)

    llm, told, called = tape(LeafLLM(world, fails_after=2)), [], []
    for mode in ("all", "none"):
        got.append([])
        llm.callback_manager = CallbackManager([listener := Callbacks()])
        with use_cassette(tmp_path / "c.yaml", mode=mode), events_of() as events, pytest.raises(ConnectionError):
            asyncio.run(read())
        told.append([event[:2] for event in events])
        called.append(listener.told)
        world.gone = True
    assert got[0] == got[1]
    assert len(got[0]) == 2
    assert told[0] == told[1]
    assert called[0] == called[1]


def test_storage_grows_with_what_is_new(tmp_path: Path) -> None:
    """A stream of twice the chunks takes about twice the space, although each chunk says all there is so far."""

    def long_stream(pieces: int) -> Any:
        """Return an LLM whose stream has so many chunks, each with all so far: text, and a growing tool call."""

        def generate(messages: Any, **_: Any) -> Any:
            for number in range(1, pieces + 1):
                call = ToolCallBlock(tool_call_id="c", tool_name="write", tool_kwargs='{"text": "' + "word " * number)
                yield ChatMessage(role="assistant", blocks=[TextBlock(text="word " * number), call])

        return tape(MockFunctionCallingLLM(response_generator=generate))

    sizes, streams = [], []
    for pieces in (100, 200):
        llm = long_stream(pieces)
        with use_cassette(tmp_path / f"{pieces}.jsonl", mode="all"):
            recorded = list(llm.stream_chat(HELLO))
        with use_cassette(tmp_path / f"{pieces}.jsonl"):
            streams.append(list(llm.stream_chat(HELLO)) == recorded)
        outcome = next(iter(open_cassette(tmp_path / f"{pieces}.jsonl").records())).outcome
        sizes.append(len(str(outcome.chunks)))
    assert streams == [True, True]
    assert sizes[1] < 2.5 * sizes[0]


def test_plain_text_is_stored_as_text(tmp_path: Path) -> None:
    """A chunk that only adds text is stored as that text."""

    def generate(messages: Any, **_: Any) -> Any:
        text = ""
        for piece in ("Hel", "lo", " you"):
            text += piece
            yield ChatMessage(role="assistant", content=text)

    class Pieces(MockFunctionCallingLLM):
        def stream_chat(self, messages: Any, **kwargs: Any) -> Any:
            before = ""
            for message in generate(messages):
                yield ChatResponse(message=message, delta=message.content[len(before) :])
                before = message.content

    llm = tape(Pieces())
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        recorded = list(llm.stream_chat(HELLO))
    with use_cassette(tmp_path / "c.yaml"):
        assert list(llm.stream_chat(HELLO)) == recorded
    outcome = next(iter(open_cassette(tmp_path / "c.yaml").records())).outcome
    assert outcome.chunks == [{"$chat_chunk": piece} for piece in ("Hel", "lo", " you")]


def test_raw_chunks_keep_the_order_of_their_fields(tmp_path: Path) -> None:
    """A provider's objects of several classes come back equal as text, too."""

    class First(BaseModel):
        """What a provider sends first."""

        kind: str = "first"
        text: str = ""
        number: int = 0

    class Then(BaseModel):
        """What it sends then: some of the same fields, in another order."""

        number: int = 1
        extra: str = "x"
        kind: str = "then"

    class Raw(MockFunctionCallingLLM):
        model: str = "raw"

        def stream_chat(self, messages: Any, **kwargs: Any) -> Any:
            for raw in (First(text="a"), Then(), First(number=2), {"b": 1, "a": 2}, {"a": 2, "b": 1}, {"a": 2, "c": 3}):
                yield ChatResponse(message=ChatMessage(role="assistant", content="a"), raw=raw)

    with use_cassette(tmp_path / "c.yaml", mode="all"):
        recorded = [chunk.model_dump_json() for chunk in tape(Raw()).stream_chat(HELLO)]
    with use_cassette(tmp_path / "c.yaml"):
        assert [chunk.model_dump_json() for chunk in tape(Raw()).stream_chat(HELLO)] == recorded


def test_secret_that_is_split_between_chunks(tmp_path: Path) -> None:
    """A secret is redacted that arrives in pieces, although each chunk says all there is so far."""
    secret = "sk-" + "proj-" + "a1B2c3D4e5F6g7H8i9J0k1L2"

    def generate(messages: Any, **_: Any) -> Any:
        for end in range(4, len(secret) + 4, 4):
            arguments = '{"key": "' + secret[:end]
            call = ToolCallBlock(tool_call_id="c", tool_name="save", tool_kwargs=arguments)
            yield ChatMessage(role="assistant", blocks=[TextBlock(text=f"It is {secret[:end]}"), call])

    llm = tape(MockFunctionCallingLLM(response_generator=generate))
    asked = [ChatMessage(role="user", content=f"Save {secret}")]
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        recorded = list(llm.stream_chat(asked))
    text = (tmp_path / "c.yaml").read_text("utf-8")
    pieces = [secret[n : n + 4] for n in range(4, len(secret), 4)]
    assert secret not in text
    assert [piece for piece in pieces if f'"{piece}"' in text or f" {piece}\n" in text] == []
    with use_cassette(tmp_path / "c.yaml"):
        replayed = list(llm.stream_chat(asked))
    assert replayed[-1].message == recorded[-1].message

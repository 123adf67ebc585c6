"""Checks about streams: chunks that grow, each with a delta."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Iterator
from copy import deepcopy
from typing import Any

from llama_index.core.base.llms.types import ChatResponse, MessageRole

from agenttape_core.testing import expect

from ..calls import COMPLETIONS, read
from ..comparison import content_of, text_of
from ..llm_hooks import LLMHooks
from ..suite import check, shown

EVERYTHING = 1_000_000
"""More chunks than a stream has."""


class StreamChecks(LLMHooks):
    """The checks about streams."""

    @check
    def test_streams_are_generators(self) -> None:
        """Streaming calls return generators; the asynchronous ones are coroutines that return them."""
        for call in self.streaming():
            began = self.begin(self.make(), call)
            if call.startswith("a"):
                awaited = inspect.isawaitable(began)
                read(_checked(began, call), EVERYTHING) if awaited else None
                expect(awaited, f"{call} returned a {type(began).__name__}, which cannot be awaited")
            else:
                expect(isinstance(began, Iterator), f"{call} returned a {type(began).__name__}")
                read(began, EVERYTHING)

    @check
    def test_chunks_are_cumulative(self) -> None:
        """The text of each chunk is the sum of all deltas so far."""
        for call in self.streaming():
            chunks = self.ask(self.make(), call)
            expect(chunks, f"{call} streams nothing")
            total = ""
            for number, chunk in enumerate(chunks, 1):
                total += chunk.delta or ""
                where = f"{call}, chunk {number} of {len(chunks)}"
                expect(text_of(chunk) == total, f"{where}: says {text_of(chunk)!r}, the deltas make {total!r}")

    @check
    def test_chunks_are_of_the_assistant(self) -> None:
        """Each chunk of a chat is a `ChatResponse` whose message is the assistant's."""
        for call in self.calls_of("stream_chat", "astream_chat"):
            for chunk in self.ask(self.make(), call):
                expect(isinstance(chunk, ChatResponse), f"{call} streams a {type(chunk).__name__}")
                expect(chunk.message.role == MessageRole.ASSISTANT, f"{call}: the role is {chunk.message.role!r}")

    @check
    def test_last_chunk_is_the_whole_answer(self) -> None:
        """The last chunk has the answer of the call that does not stream."""
        for call in self.streaming():
            plain = "complete" if call in COMPLETIONS else "chat"
            chunks = self.ask(self.make(), call)
            expect(chunks, f"{call} streams nothing")
            self.expect_same(f"{plain}, then the last chunk of {call}", self.ask(self.make(), plain), chunks[-1])

    @check
    def test_async_streams_are_the_same(self) -> None:
        """`astream_chat` yields the chunks of `stream_chat`, `astream_complete` those of `stream_complete`."""
        for call in self.calls_of("stream_chat", "stream_complete"):
            first, second = self.ask(self.make(), call), self.ask(self.make(), f"a{call}")
            self.expect_same(f"{call}, then a{call}", first, second)

    @check
    def test_chunks_stay_as_they_are(self) -> None:
        """A chunk that was yielded is not changed later."""
        for call in self.streaming():
            kept = Kept()
            chunks = read(self.begin(self.make(), call), EVERYTHING, kept)
            for number, (first, last) in enumerate(zip(kept.contents, chunks, strict=True), 1):
                changed = f"{call}: chunk {number} said {shown(first)}, and {shown(content_of(last))} later"
                expect(first == content_of(last), changed)

    @check
    def test_stream_can_be_closed_early(self) -> None:
        """A stream that is closed after its first chunk ends there, and the next call is answered."""
        for call in self.streaming():
            llm = self.make()
            chunks = read(self.begin(llm, call), 1)
            expect(len(chunks) == 1, f"{call} streams nothing")
            expect(self.ask(llm, call), f"{call} streams nothing after a stream was closed early")


class Kept:
    """Keeps what each chunk says when it arrives."""

    def __init__(self) -> None:
        self.contents: list[Any] = []

    def __call__(self, chunk: Any) -> None:
        """Keep it."""
        self.contents.append(deepcopy(content_of(chunk)))


async def _checked(began: Any, call: str) -> Any:
    stream = await began
    expect(isinstance(stream, AsyncIterator), f"awaiting {call} gave a {type(stream).__name__}")
    return stream

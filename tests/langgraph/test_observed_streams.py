"""What agents stream at once while they are observed comes in that order again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult

from agenttape_core import use_cassette
from agenttape_langchain import TapeCallbackHandler

if TYPE_CHECKING:
    from pathlib import Path

AGENTS, WORDS = 3, 3
BETWEEN = "what is done between the answers of calls that are awaited at once may come in another order"


class Provider:
    """Sends the words of several streams in one order, each some rounds of the loop after the one before.

    Args:
        order: The numbers of the streams.
        rounds: How many.
    """

    def __init__(self, order: list[int], rounds: int) -> None:
        self._order, self._rounds = order, rounds
        self._asked = [asyncio.Event() for _ in range(AGENTS)]
        self._sent = [asyncio.Queue[int]() for _ in range(AGENTS)]

    async def send(self) -> None:
        """Send all words, once all have asked and some time has passed."""
        for each in self._asked:
            await each.wait()
        await asyncio.sleep(0.01)
        for number in self._order:
            self._sent[number].put_nowait(number)
            for _ in range(self._rounds):
                await asyncio.sleep(0)

    async def word(self, number: int) -> None:
        """Wait for the next word of a stream."""
        self._asked[number].set()
        await self._sent[number].get()


@pytest.mark.parametrize("rounds", [1, 2, 3, 5, 7])
@pytest.mark.parametrize("order", ["012012012", "000111222", "210012120", "001122012"])
async def test_agents_that_stream_at_once(order: str, rounds: int, tmp_path: Path) -> None:
    """Words and updates come in the recorded order, though a handler sees the end of a stream some rounds later."""

    class Speaker(BaseChatModel):
        """Streams words of a provider; without one, it is gone."""

        provider: Any = None

        @property
        def _llm_type(self) -> str:
            return "speaker"

        def _generate(self, *_: Any, **__: Any) -> ChatResult:
            raise AssertionError

        async def _astream(self, messages: Any, *_: Any, **__: Any) -> AsyncIterator[ChatGenerationChunk]:
            for word in range(WORDS):
                await self.provider.word(int(messages[-1].text))
                yield ChatGenerationChunk(message=AIMessageChunk(f"{word}"))

    async def streamed(provider: Provider | None, config: Any = None) -> list[tuple[int, str]]:
        """Run agents at once, and return what they streamed as it came: words, and updates of their states."""
        came: list[tuple[int, str]] = []

        async def run(number: int) -> None:
            agent = create_agent(Speaker(provider=provider), [])
            said = {"messages": [("user", f"{number}")]}
            async for mode, part in agent.astream(said, config, stream_mode=["updates", "messages"]):
                came.append((number, part[0].text if mode == "messages" else mode))

        await asyncio.gather(*map(run, range(AGENTS)), *([provider.send()] if provider is not None else []))
        return came

    with TapeCallbackHandler(tmp_path / "seen.jsonl") as handler:
        observed = await streamed(Provider([*map(int, order)], rounds), {"callbacks": [handler]})
    assert handler.errors == []
    with use_cassette(tmp_path / "seen.jsonl") as session:
        assert await streamed(None) == observed
    assert BETWEEN not in session.report.unobserved
    assert session.report.nondeterminism == ()

"""The world behind the programs: what it says is new in each call, and comes after a while that is another in each."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from ...kit.world import World
from ...langchain.fakes import FakeChat

LONGEST = 0.003
"""Seconds that an answer takes at most."""


class Outside(World):
    """A world that takes its time.

    Args:
        seed: Decides how long each answer takes.
    """

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self._random = random.Random(seed)

    def said(self, what: str) -> str:
        """Reach the world, and return something that nobody has ever said before."""
        return f"{what} {self.reach(what)} {os.urandom(4).hex()}"

    def pause(self) -> None:
        """Take a while, in a thread."""
        time.sleep(self._random.uniform(0, LONGEST))

    async def apause(self) -> None:
        """Take a while, in a task."""
        await asyncio.sleep(self._random.uniform(0, LONGEST))

    def ask(self, what: str) -> str:
        """Answer after a while."""
        self.pause()
        return self.said(what)

    async def aask(self, what: str) -> str:
        """Answer after a while."""
        await self.apause()
        return self.said(what)


class Chat(FakeChat):
    """A chat model with all four leaves, each of which takes its time; chunks come one after another."""

    def __repr_args__(self) -> Any:
        """Show what a real model shows of itself: no memory address of the world."""
        return [("model_name", self.model_name)]

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        self.world.pause()
        return self.result(messages)

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        await self.world.apause()
        return self.result(messages)

    def _stream(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Iterator[Any]:
        for chunk in self.chunks(messages):
            self.world.pause()
            if run_manager is not None:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    async def _astream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        for chunk in self.chunks(messages):
            await self.world.apause()
            if run_manager is not None:
                await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

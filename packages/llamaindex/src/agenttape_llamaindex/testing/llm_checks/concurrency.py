"""Checks about several callers of an LLM at once."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

from agenttape_core.testing import expect
from agenttape_llamaindex.testing.calls import afinished
from agenttape_llamaindex.testing.comparison import text_of
from agenttape_llamaindex.testing.llm_hooks import LLMHooks
from agenttape_llamaindex.testing.suite import check, shown


class ConcurrencyChecks(LLMHooks):
    """The checks about threads and tasks."""

    @check
    def test_threads_get_their_own_answers(self) -> None:
        """Several threads that share an LLM each get the answer to their own question."""
        for call in self.calls_of("chat", "complete"):
            llm = self.make()
            alone = [self.ask(llm, call, question) for question in self.questions]
            with ThreadPoolExecutor(len(self.questions)) as pool:
                works = [pool.submit(copy_context().run, self.ask, llm, call, text) for text in self.questions]
                together = [work.result() for work in works]
            self._compare(f"{call} in threads", alone, together)

    @check
    def test_tasks_get_their_own_answers(self) -> None:
        """Several tasks that share an LLM each get the answer to their own question."""
        for call in self.calls_of("achat", "acomplete"):
            llm = self.make()
            alone, together = asyncio.run(self._gathered(llm, call))
            self._compare(f"{call} in tasks", alone, together)

    async def _gathered(self, llm: Any, call: str) -> tuple[list[Any], list[Any]]:
        alone = [await afinished(self.begin(llm, call, question)) for question in self.questions]
        works = (afinished(self.begin(llm, call, question)) for question in self.questions)
        return alone, list(await asyncio.gather(*works))

    def _compare(self, what: str, alone: list[Any], together: list[Any]) -> None:
        for question, first, second in zip(self.questions, alone, together, strict=True):
            expect(text_of(second), f"{what}: {question!r} got no text: {shown(second)}")
            self.expect_same(f"{what}: {question!r}, alone and together", first, second)

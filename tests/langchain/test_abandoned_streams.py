"""Streams beside one that fails tell handlers of their end where they did in the recording."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import RunnableParallel

from ..kit.replaying import Twice

pytestmark = pytest.mark.usefixtures("uncollected")


class Words(BaseChatModel):
    """Streams four words, each in a round of the loop of its own, or fails after the first one."""

    label: str
    fails: bool = False

    @property
    def _llm_type(self) -> str:
        return "words"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"label": self.label}

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(self.label))])

    async def _astream(self, *_: Any, **__: Any) -> AsyncIterator[ChatGenerationChunk]:
        for number in range(4):
            await asyncio.sleep(0)
            if number and self.fails:
                raise ValueError(self.label)
            yield ChatGenerationChunk(message=AIMessageChunk(content=f"{self.label}{number}"))


class Notes(AsyncCallbackHandler):
    """Notes how models begin and end, in order."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.names: dict[UUID, str] = {}

    async def on_chat_model_start(self, *_: Any, run_id: UUID, tags: list[str] | None = None, **__: Any) -> None:
        self.names[run_id] = "".join(tags or ())

    async def on_llm_end(self, *_: Any, run_id: UUID, **__: Any) -> None:
        self.log.append((self.names[run_id], "end"))

    async def on_llm_error(self, error: BaseException, *, run_id: UUID, **__: Any) -> None:
        self.log.append((self.names[run_id], type(error).__name__))


@pytest.mark.parametrize("recorded", [None, 0, 2, 3])
def test_branches_beside_one_that_fails(recorded: int | None, twice: Twice) -> None:
    """Whenever the collector comes, `on_llm_error` comes in a replay where the recorded run had it."""

    async def program(when: int | None) -> list[Any]:
        """Stream three models at once, of which one fails, then ask another one, while the collector comes."""
        notes = Notes()
        parallel = RunnableParallel({label: Words(label=label, fails=label == "b") for label in "abc"})
        try:
            async for chunk in parallel.astream("hi", config={"callbacks": [notes]}):
                notes.log.append(chunk)
        except ValueError as error:
            notes.log.append(str(error))
        number = 0
        async for chunk in Words(label="next").astream("on", config={"callbacks": [notes]}):
            notes.log.append(chunk.text)
            if number == when:
                gc.collect()
            number += 1
        return notes.log

    expected = twice.record(lambda: asyncio.run(program(recorded)))
    assert sum(entry[1] == "GeneratorExit" for entry in expected if isinstance(entry, tuple)) == 2
    for when in (None, 0, 1, 2, 3):
        with twice.replays() as session:
            assert asyncio.run(program(when)) == expected, when
        assert session.report.nondeterminism == ()

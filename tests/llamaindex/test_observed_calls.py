"""An observed call is the interaction that a session would have recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import MockEmbedding
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.llms import CompletionResponse, MockLLM
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.core.tools import FunctionTool

from agenttape_core import use_cassette
from agenttape_llamaindex import TapeEventHandler

from .acceptance import FRAMEWORK_WARNINGS
from .observed import CALLS, SAID, Work, drained, interactions, place
from .scripted import ScriptedLLM, World

pytestmark = FRAMEWORK_WARNINGS


@pytest.mark.parametrize("call", CALLS)
def test_every_call_is_what_a_session_records(call: str, handler: TapeEventHandler, tmp_path: Path) -> None:
    """An observed call has the request, the address and the outcome of a recorded one; tasks at once are counted."""
    with handler:
        CALLS[call](World())
    with use_cassette(tmp_path / "recorded.yaml", mode="all"):
        CALLS[call](World())
    seen, recorded = interactions(handler.path), interactions(tmp_path / "recorded.yaml")
    assert seen
    assert [(place(i), i.fingerprint, i.request, i.outcome, i.metadata, i.fidelity) for i in seen] == [
        (place(i), i.fingerprint, i.request, i.outcome, i.metadata, i.fidelity) for i in recorded
    ]
    assert [i.parent for i in seen] == [i.parent for i in recorded]


FAILURES: dict[str, Work] = {
    "chat": lambda world: ScriptedLLM(world, _fail).chat(SAID),
    "achat": lambda world: asyncio.run(ScriptedLLM(world, _fail).achat(SAID)),
    "stream at once": lambda world: ScriptedLLM(world, _fail).stream_chat(SAID),
    "stream midway": lambda _: drained(Breaking(max_tokens=3).stream_complete("a b c d")),
    "delegated": lambda _: Dissatisfied(max_tokens=3).complete("a b c d"),
    "embedding": lambda _: BrokenEmbedding(embed_dim=2).get_query_embedding("q"),
    "own batch": lambda _: BrokenEmbedding(embed_dim=2, embed_batch_size=1).get_text_embedding_batch(["ok", "no"]),
    "tool": lambda _: FunctionTool.from_defaults(_divide, name="divide").call(by=0),
    "retriever": lambda _: BrokenShelf().retrieve("rain"),
}


def _fail(*_: Any) -> str:
    raise ValueError("the model is down")


def _divide(by: int) -> float:
    """Divide."""
    return 1 / by


class Breaking(MockLLM):
    """Breaks its streams midway."""

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        def broken() -> Iterator[Any]:
            yield CompletionResponse(text="a", delta="a")
            raise ValueError("the line is cut")

        return broken()


class Dissatisfied(MockLLM):
    """Asks its base class, and is not content with the answer."""

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        super().complete(prompt, formatted=formatted, **kwargs)
        raise ValueError("the answer is no good")


class BrokenEmbedding(MockEmbedding):
    """Knows only one text."""

    def _get_query_embedding(self, query: str) -> list[float]:
        raise ValueError("no such text")

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        if texts != ["ok"]:
            raise ValueError("no such text")
        return [[1.0, 0.0]]


class BrokenShelf(BaseRetriever):
    """Finds nothing."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        raise ValueError("the shelf is empty")


@pytest.mark.parametrize("call", FAILURES)
def test_failures_are_what_a_session_records(call: str, handler: TapeEventHandler, tmp_path: Path) -> None:
    """A call that fails is recorded with its error, as a session does, and the caller gets the error."""
    outcomes = []
    for recording in (handler, use_cassette(tmp_path / "recorded.yaml", mode="all", on_error="keep")):
        with pytest.raises((ValueError, ZeroDivisionError)), recording:
            FAILURES[call](World())
        found = interactions(recording.path if recording is handler else tmp_path / "recorded.yaml")
        outcomes.append([(i.address, i.fingerprint, i.request, i.outcome) for i in found])
    assert outcomes[0] == outcomes[1]
    assert outcomes[0]


def test_cancelled_call(handler: TapeEventHandler) -> None:
    """A cancelled call is recorded as that."""

    class Slow(MockLLM):
        async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
            await asyncio.Event().wait()

    async def run() -> None:
        task = asyncio.create_task(Slow().acomplete("a"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with handler:
        asyncio.run(run())
    assert [call.outcome.status for call in interactions(handler.path)] == ["cancelled"]

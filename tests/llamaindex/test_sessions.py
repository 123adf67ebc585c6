"""Everything that a session can do, done to LLMs and embedding models of LlamaIndex."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.llms.callbacks import llm_chat_callback

from agenttape_core import open_cassette, use_cassette
from agenttape_core.errors import (
    UnrecordableValueError,
    UnrecordedCallError,
)

from .fakes import HELLO, FakeEmbedding, LeafLLM, PromptLLM
from .scripted import World

OTHER = [ChatMessage(role="user", content="Other")]


@pytest.fixture
def recorded(tmp_path: Path, world: World) -> Path:
    """Return a cassette of a chat and an embedding."""
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        LeafLLM(world).chat(HELLO)
        FakeEmbedding(world).get_text_embedding("t")
    return tmp_path / "c.yaml"


def test_miss_is_returned_where_asked(recorded: Path) -> None:
    """With `on_miss="return"` a call without recording raises an error that a program can handle."""
    with use_cassette(recorded, on_miss="return", on_unused="ignore") as replay:
        with pytest.raises(UnrecordedCallError):
            LeafLLM(World()).chat(OTHER)
        with pytest.raises(UnrecordedCallError):
            list(LeafLLM(World()).stream_chat(OTHER))
    assert len(replay.report.unrecorded) == 2


def test_growing_history_is_stored_as_what_is_new(tmp_path: Path, world: World) -> None:
    """A conversation of twice the turns takes about twice the space, although each call sends all of it."""
    sizes = []
    for turns in (20, 40):
        history: list[ChatMessage] = []
        with use_cassette(tmp_path / f"{turns}.yaml", mode="all"):
            for turn in range(turns):
                history.append(ChatMessage(role="user", content=f"question {turn}"))
                history.append(LeafLLM(world).chat(history).message)
        sizes.append((tmp_path / f"{turns}.yaml").stat().st_size)
    assert sizes[1] < 2.3 * sizes[0]


def test_one_llm_inside_another(tmp_path: Path) -> None:
    """An LLM that asks another one is one call, the other's is inside of it, and neither happens on replay."""
    world = World()

    class Outer(LeafLLM):
        @llm_chat_callback()
        def chat(self, messages: Any, **kwargs: Any) -> ChatResponse:
            self._world.reach("outer")
            inner = PromptLLM(self._world).complete("inner question")
            return ChatResponse(message=ChatMessage(role="assistant", content=f"outer of {inner.text}"))

    answers = []
    for mode in ("all", "none"):
        with use_cassette(tmp_path / "c.yaml", mode=mode):
            answers.append(Outer(world).chat(HELLO))
        world.gone = True
    assert answers[0] == answers[1]
    outer, inner = open_cassette(tmp_path / "c.yaml").records()
    assert (inner.parent, inner.address) == (outer.number, f"{outer.address}/PromptLLM.complete")


def test_raw_without_a_codec(tmp_path: Path) -> None:
    """A provider's object that cannot be written is refused, or kept as an opaque value with `accept={"opaque"}`."""

    class Unwritable:
        pass

    class Odd(LeafLLM):
        @llm_chat_callback()
        def chat(self, messages: Any, **kwargs: Any) -> ChatResponse:
            return ChatResponse(message=ChatMessage(role="assistant", content="x"), raw=Unwritable())

    with pytest.raises(UnrecordableValueError), use_cassette(tmp_path / "a.yaml", mode="all"):
        Odd(World()).chat(HELLO)
    with use_cassette(tmp_path / "b.yaml", mode="all", accept={"opaque"}):
        Odd(World()).chat(HELLO)
    with use_cassette(tmp_path / "b.yaml"):
        assert "Unwritable" in repr(Odd(World()).chat(HELLO).raw)


def test_header_names_the_framework(recorded: Path) -> None:
    """The header says with which versions of the framework a cassette was recorded."""
    packages = open_cassette(recorded).header.volatile.packages
    assert {"llama-index-core", "llama-index-workflows"} <= packages.keys()

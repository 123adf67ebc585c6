"""Everything that a session can do, done to LLMs and embedding models of LlamaIndex."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.llms.callbacks import llm_chat_callback

from agenttape_core import open_cassette, use_cassette
from agenttape_core.errors import (
    UnrecordableValueError,
    UnrecordedCallError,
    UnusedInteractionsError,
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


def test_matching_by_address(recorded: Path) -> None:
    """With `match_on` a changed request is answered by the recording at its address."""
    with use_cassette(recorded, match_on="address", on_unused="ignore") as replay:
        assert LeafLLM(World()).chat(OTHER).raw["id"] == "chatcmpl-1"
    assert [replayed.match_rule for replayed in replay.report.replayed] == ["address"]


def test_miss_is_returned_where_asked(recorded: Path) -> None:
    """With `on_miss="return"` a call without recording raises an error that a program can handle."""
    with use_cassette(recorded, on_miss="return", on_unused="ignore") as replay:
        with pytest.raises(UnrecordedCallError):
            LeafLLM(World()).chat(OTHER)
        with pytest.raises(UnrecordedCallError):
            list(LeafLLM(World()).stream_chat(OTHER))
    assert len(replay.report.unrecorded) == 2


def test_live_is_executed_and_derives(recorded: Path) -> None:
    """A live call is executed in a replay, and written to a cassette of its own."""
    fresh, before = World(), recorded.read_bytes()
    with use_cassette(recorded, live=["embeddings"]) as replay:
        LeafLLM(fresh).chat(HELLO)
        FakeEmbedding(fresh).get_text_embedding("t")
    assert fresh.reached == ["text"]
    assert recorded.read_bytes() == before
    assert [record.kind for record in open_cassette(replay.written).records()] == ["chat", "embeddings"]


def test_frozen_is_never_executed(recorded: Path) -> None:
    """Frozen calls are replayed while everything else is recorded anew."""
    fresh = World()
    with use_cassette(recorded, mode="all", replay_only=["LeafLLM"]):
        assert LeafLLM(fresh).chat(HELLO).raw["id"] == "chatcmpl-1"
        FakeEmbedding(fresh).get_text_embedding("t")
    assert fresh.reached == ["text"]


def test_new_episodes_and_unused(recorded: Path) -> None:
    """New calls are added to the recording; one that is never used fails a replay, unless it is of embeddings."""
    fresh = World()
    with use_cassette(recorded, mode="new_episodes", on_unused="ignore"):
        LeafLLM(fresh).chat(HELLO)
        LeafLLM(fresh).chat(OTHER)
    assert fresh.reached == ["chat"]
    with use_cassette(recorded) as replay:
        LeafLLM(fresh).chat(HELLO)
        LeafLLM(fresh).chat(OTHER)
    assert [call_record.name for call_record in replay.report.unused] == ["FakeEmbedding"]
    with pytest.raises(UnusedInteractionsError, match="chat LeafLLM"), use_cassette(recorded):
        LeafLLM(fresh).chat(HELLO)
        FakeEmbedding(fresh).get_text_embedding("t")


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


def test_threads_without_a_context(tmp_path: Path, world: World) -> None:
    """A bare thread belongs to the only open session."""
    answers = []
    for mode in ("all", "none"):
        with use_cassette(tmp_path / "c.yaml", mode=mode):
            thread = threading.Thread(target=lambda: answers.append(LeafLLM(world).chat(HELLO)))
            thread.start()
            thread.join()
        world.gone = True
    assert answers[0] == answers[1]
    assert world.trespasses == []


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

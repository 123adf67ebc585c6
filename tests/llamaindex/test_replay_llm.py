"""LLMs made of a cassette: no provider, no key, no network."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage
from workflows.context.external_context import ExternalContext

from agenttape_core import use_cassette
from agenttape_core.errors import CassetteMissError, CassetteNotFoundError, ConfigurationError
from agenttape_llamaindex import ReplayEmbedding, ReplayLLM, tape

from .fakes import CALLS, HELLO, CallingLLM, LeafLLM, PromptLLM, done, events_of
from .scripted import World


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("cls", [LeafLLM, PromptLLM], ids=lambda cls: cls.__name__)
def test_every_leaf_call(tmp_path: Path, cls: type[LeafLLM], name: str) -> None:
    """A stand-in gives the recorded answers, and fires the events of every LLM."""
    with use_cassette(tmp_path / "c.yaml", mode="all"), events_of() as told:
        recorded = done(CALLS[name](cls(World())))
    llm = ReplayLLM(tmp_path / "c.yaml")
    with events_of() as again:
        assert done(CALLS[name](llm)) == recorded
    assert {event[0] for event in again} == {event[0] for event in told}
    assert llm.metadata.model_name == "fake-1"
    assert len(llm.report.replayed) == 1


def test_no_session_records_it(tmp_path: Path) -> None:
    """A stand-in takes no part in a session, taped or automatic: nothing real is behind it."""
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        LeafLLM(World()).chat(HELLO)
    llm = ReplayLLM(tmp_path / "c.yaml")
    assert tape(llm) is llm
    with use_cassette(tmp_path / "other.yaml", mode="all", on_unused="ignore") as other:
        llm.chat(HELLO)
    assert other.interactions == []


def test_one_of_several_models(tmp_path: Path) -> None:
    """One of several models in a cassette is chosen by its name."""
    world = World()
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        for temperature in (0.1, 0.9):
            LeafLLM(world, temperature=temperature).chat(HELLO)
    llm = ReplayLLM(tmp_path / "c.yaml", model="fake-1")
    assert [llm.chat(HELLO).raw["id"] for _ in range(2)] == ["chatcmpl-1", "chatcmpl-2"]
    assert ReplayLLM(tmp_path / "c.yaml").chat(HELLO, temperature=0.9).raw["id"] == "chatcmpl-2"
    with pytest.raises(ConfigurationError, match="it holds calls of 'fake-1'"):
        ReplayLLM(tmp_path / "c.yaml", model="other")


def test_asked_more_often_than_recorded(tmp_path: Path) -> None:
    """One answer more than was recorded is a miss, or the last one again with `on_repeat="last"`."""
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        LeafLLM(World()).chat(HELLO)
    llm, again = ReplayLLM(tmp_path / "c.yaml"), ReplayLLM(tmp_path / "c.yaml", on_repeat="last")
    llm.chat(HELLO)
    with pytest.raises(CassetteMissError, match="was called again with a request"):
        llm.chat(HELLO)
    assert again.chat(HELLO) == again.chat(HELLO)


def test_other_question_is_a_miss(tmp_path: Path) -> None:
    """A question that was not recorded has no answer."""
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        LeafLLM(World()).chat(HELLO)
    llm = ReplayLLM(tmp_path / "c.yaml")
    with pytest.raises(CassetteMissError):
        llm.chat([ChatMessage(role="user", content="Other")])
    with pytest.raises(CassetteMissError):
        llm.complete("Once")


def test_errors_of_making_one(tmp_path: Path) -> None:
    """A cassette that is missing, or holds nothing of the sort, is refused when the stand-in is made."""
    with pytest.raises(CassetteNotFoundError):
        ReplayLLM(tmp_path / "none.yaml")
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        LeafLLM(World()).chat(HELLO)
    with pytest.raises(ConfigurationError, match="holds no embeddings"):
        ReplayEmbedding(tmp_path / "c.yaml")


@pytest.mark.filterwarnings("ignore:.*attribute.*is deprecated")  # the agent reads them
def test_a_miss_ends_a_stream_of_events(tmp_path: Path) -> None:
    """Whoever reads the events of an agent on a stand-in gets the miss, without any session; later nothing is left."""

    async def events(llm: Any, question: str) -> list[Any]:
        handler = FunctionAgent(llm=llm, tools=[]).run(question)
        told = [event async for event in handler.stream_events()]
        return [str(await handler), len(told)]

    gc.collect()  # stand-ins of other tests
    real = ExternalContext.stream_events
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        recorded = asyncio.run(events(CallingLLM(World()), "Paris?"))
    llm = ReplayLLM(tmp_path / "c.yaml", is_function_calling_model=True)
    with pytest.raises(CassetteMissError):
        asyncio.run(asyncio.wait_for(events(llm, "Oslo?"), 60))
    assert asyncio.run(events(llm, "Paris?")) == recorded
    del llm
    gc.collect()
    assert ExternalContext.stream_events is real

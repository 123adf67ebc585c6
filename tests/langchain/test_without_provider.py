"""A run that was observed in one process is replayed in another that has no provider's package."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_openai import ChatOpenAI, OpenAIEmbeddings

from agenttape_core import open_cassette
from agenttape_langchain import TapeCallbackHandler

from . import mixed_agent

if TYPE_CHECKING:
    from pathlib import Path

    from examples.weather_agent.server import OpenAILoopback

pytestmark = pytest.mark.process


def test_observed_agent_replays_without_its_provider(loopback: OpenAILoopback, tmp_path: Path) -> None:
    """Retrieval over embeddings, three tools and structured output come back strictly, and nothing is executed."""
    model = ChatOpenAI(model="gpt-5-mini", base_url=loopback.base_url, api_key="x", max_retries=0)
    embeddings = OpenAIEmbeddings(base_url=loopback.base_url, api_key="x", check_embedding_ctx_length=False)
    store = InMemoryVectorStore.from_texts(["Paris has a tower.", "Rome has a forum."], embeddings)
    retriever = store.as_retriever()
    done: list[str] = []
    with TapeCallbackHandler(tmp_path / "trip.yaml") as handler:
        said = mixed_agent.run(model, retriever, mixed_agent.tools_of(retriever, done), callbacks=[handler])
    assert handler.errors == []
    assert sorted(done) == sorted(mixed_agent.TOOLS)
    recorded = Counter(entry.kind for entry in open_cassette(handler.path).entries)
    assert (recorded["tool"], recorded["retrieval"]) == (3, 2)
    loopback.stop()

    command = [sys.executable, mixed_agent.__file__, str(handler.path)]
    replayed = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert replayed.returncode == 0, replayed.stderr
    outcome = json.loads(replayed.stdout)
    assert outcome["said"] == json.loads(json.dumps(said))
    assert outcome["imported"] == []
    counts = [recorded["chat"], 1, 1, 1, 1]  # what the tool looked up lies inside what it said
    assert [report.split(",")[0] for report in outcome["reports"]] == [f"{count} replayed" for count in counts]

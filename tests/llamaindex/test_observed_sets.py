"""What indexes pick from sets was observed in an order that no other process has: the miss says so."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from llama_index.core import Document, KeywordTableIndex, PropertyGraphIndex
from llama_index.core.indices.property_graph import ImplicitPathExtractor, SimpleLLMPathExtractor
from llama_index.core.llms import ChatMessage
from tests.kit.world import gone

from agenttape_core import use_cassette
from agenttape_core.errors import CassetteMissError

from .acceptance import FRAMEWORK_WARNINGS
from .observed import observing
from .scripted import Reply, ScriptedEmbedding, ScriptedLLM, World

pytestmark = FRAMEWORK_WARNINGS
TEXT = "Town1 is near Town2, and Town2 is near Town3."
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def closed_loop() -> Iterator[None]:
    """Close the event loop that LlamaIndex takes to run an extractor, and would leave open if it made its own."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


def extracted(messages: Sequence[ChatMessage], _: Sequence[str]) -> Reply:
    """Find keywords, or facts."""
    if "keywords" in (messages[-1].content or "").lower():
        return "KEYWORDS: " + ", ".join(f"town{number}" for number in range(12))
    return "\n".join(f"(Town{number}, near, Town{number + 1})" for number in range(12))


def keywords(world: World) -> str:
    """Ask a keyword table, which takes the first of the nodes that it finds."""
    llm = ScriptedLLM(world, extracted)
    documents = [Document(text=f"{TEXT} {number}", id_=f"d{number}") for number in range(12)]
    index = KeywordTableIndex.from_documents(documents, llm=llm)
    return str(index.as_query_engine(llm=llm, num_chunks_per_query=5).query("Which towns?"))


def graph(world: World) -> str:
    """Ask a property graph of two extractors, whose facts are in a set."""
    llm = ScriptedLLM(world, extracted)
    index = PropertyGraphIndex.from_documents(
        [Document(text=TEXT, id_="a"), Document(text=f"{TEXT} more", id_="b")],
        llm=llm,
        embed_model=ScriptedEmbedding(world),
        kg_extractors=[SimpleLLMPathExtractor(llm=llm, max_paths_per_chunk=12), ImplicitPathExtractor()],
        use_async=False,
    )
    return str(index.as_query_engine(llm=llm, include_text=False).query("Which towns are near Town1?"))


def observe_graph(path: str) -> None:
    """Observe a property graph: in a process with another hash seed."""
    with observing(path):
        graph(World())


def test_nodes_of_an_observed_keyword_table(tmp_path: Path) -> None:
    """A miss names the hash seed and the drawn ids where other nodes were picked from a set."""
    with observing(tmp_path / "seen.jsonl"):
        keywords(World())
    with pytest.raises(CassetteMissError) as missed, use_cassette(tmp_path / "seen.jsonl"):
        keywords(World())
    assert "PYTHONHASHSEED" in str(missed.value)
    assert "ids that were drawn" in str(missed.value)


@pytest.mark.process
def test_facts_of_an_observed_property_graph(tmp_path: Path) -> None:
    """A miss in another process names the seed of the recording, and the session that keeps the order."""
    observe = "import sys; from tests.llamaindex.test_observed_sets import observe_graph; observe_graph(sys.argv[1])"
    environment = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", observe, str(tmp_path / "seen.jsonl")], check=True, env=environment, cwd=ROOT)
    with pytest.raises(CassetteMissError) as missed, use_cassette(tmp_path / "seen.jsonl"):
        graph(World())
    assert "PYTHONHASHSEED=1 " in str(missed.value)
    assert "record it with use_cassette:" in str(missed.value)
    assert "random number" not in str(missed.value)


@pytest.mark.parametrize("program", [keywords, graph])
def test_a_session_keeps_their_order(program: object, tmp_path: Path) -> None:
    """What a session recorded of either replays."""
    assert callable(program)
    with use_cassette(tmp_path / "c.yaml", mode="record"):
        recorded = program(World())
    with use_cassette(tmp_path / "c.yaml"):
        assert program(gone()) == recorded

"""What comes out of sets of LlamaIndex comes in one order, or a miss names the hash seed."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from llama_index.core import Document, KeywordTableIndex, PropertyGraphIndex, SimpleKeywordTableIndex
from llama_index.core.graph_stores import SimplePropertyGraphStore
from llama_index.core.graph_stores.types import EntityNode, LabelledPropertyGraph, Relation
from llama_index.core.indices.property_graph import ImplicitPathExtractor, SimpleLLMPathExtractor
from llama_index.core.llms import ChatMessage, MockLLM
from llama_index.core.schema import TextNode
from tests.kit.world import gone

from agenttape_core import use_cassette
from agenttape_core.errors import CassetteMissError

from .acceptance import FRAMEWORK_WARNINGS
from .observed import observing
from .scripted import Reply, ScriptedEmbedding, ScriptedLLM, World

pytestmark = FRAMEWORK_WARNINGS


# -- What indexes pick from sets was observed in an order that no other process has: the miss says so ------------------

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
    observe = "import sys; from tests.llamaindex.test_sets import observe_graph; observe_graph(sys.argv[1])"
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


# -- The nodes that a keyword table finds come in one order, whatever the hash seed ------------------------------------


@pytest.mark.parametrize("mode", ["simple", "rake"])
def test_nodes_of_equal_keywords_come_by_their_ids(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a session; the sets of the table are LlamaIndex's own, before and after."""
    retrievers = "llama_index.core.indices.keyword_table.retrievers"
    for name in ("simple_extract_keywords", "rake_extract_keywords"):
        monkeypatch.setattr(f"{retrievers}.{name}", lambda text, **_: set(text.split()))
    nodes = [TextNode(id_=f"node {number:02}", text="paris oslo") for number in range(30)]
    index = SimpleKeywordTableIndex(nodes=[], llm=MockLLM())
    index.index_struct.add_node(["paris"], nodes[7])
    for node in reversed(nodes):
        index.index_struct.add_node(["oslo", "rome"], node)
    index.docstore.add_documents(nodes)
    retriever = index.as_retriever(retriever_mode=mode, num_chunks_per_query=5)
    with use_cassette(tmp_path / "a.yaml", mode="all", on_error="keep"):
        found = [one.node_id for one in retriever.retrieve("rome oslo paris")]
    assert found == ["node 07", "node 00", "node 01", "node 02", "node 03"]
    assert isinstance(index.index_struct.table["oslo"], set)


# -- The triplets of a property graph come in one order, whatever the hash seed ----------------------------------------


def test_triplets_come_as_they_were_added(tmp_path: Path) -> None:
    """In a session; outside of one the graph is LlamaIndex's own, set and all."""
    store = SimplePropertyGraphStore()
    names = [f"city {number}" for number in range(40)]
    random.Random(0).shuffle(names)
    store.upsert_nodes([EntityNode(name=name) for name in names])
    pairs = list(itertools.pairwise(names))
    store.upsert_relations([Relation(label="NEAR", source_id=one, target_id=other) for one, other in pairs])
    with use_cassette(tmp_path / "a.yaml", mode="all"):
        assert [(one.id, other.id) for one, _, other in store.graph.get_triplets()] == pairs
        assert [(one.id, other.id) for one, _, other in store.get_triplets(relation_names=["NEAR"])] == pairs
    assert not hasattr(LabelledPropertyGraph.get_triplets, "__wrapped__")
    assert isinstance(store.graph.triplets, set)

"""The nodes that a keyword table finds come in one order, whatever the hash seed."""

from __future__ import annotations

from pathlib import Path

import pytest
from llama_index.core import SimpleKeywordTableIndex
from llama_index.core.llms import MockLLM
from llama_index.core.schema import TextNode

from agenttape_core import use_cassette


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

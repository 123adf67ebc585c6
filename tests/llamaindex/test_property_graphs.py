"""The triplets of a property graph come in one order, whatever the hash seed."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

from llama_index.core.graph_stores import SimplePropertyGraphStore
from llama_index.core.graph_stores.types import EntityNode, LabelledPropertyGraph, Relation

from agenttape_core import use_cassette


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

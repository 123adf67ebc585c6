"""A stand-in for stores of property graphs, with results from a cassette."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from llama_index.core.graph_stores.types import PropertyGraphStore

from agenttape_core.integration.stand_ins import Options, RecordedPart, StandIn
from agenttape_llamaindex.retrievers import RETRIEVAL
from agenttape_llamaindex.stand_ins.methods import recorded_methods, remembered, replayed
from agenttape_llamaindex.stores import GRAPH_SEARCHES, GRAPH_WRITES, MEMORY


class ReplayPropertyGraphStore(StandIn, PropertyGraphStore):
    """A property graph store that returns the recorded results, and takes the recorded writes.

    It counts as one that answers structured queries, or queries by a vector, if the cassette holds such a query.

    Args:
        cassette: A bare name under the cassette folder, or a path.
        name: The recorded class of the store, if the cassette holds several.
        options: `on_repeat` and `pace`, as for `ReplayLLM`.

    Raises:
        CassetteError: If there's no such cassette, or it cannot be read.
        ConfigurationError: If it holds no call of a property graph store, or none of that one.
    """

    _recorded: RecordedPart

    def __init__(self, cassette: str | Path, *, name: str | None = None, **options: Unpack[Options]) -> None:
        kinds = frozenset({RETRIEVAL.kind, MEMORY.kind})
        self._recorded = recorded_methods(cassette, kinds, {**GRAPH_SEARCHES, **GRAPH_WRITES}, name, **options)
        asked = {request.get("method") for _, request in self._recorded.requests(RETRIEVAL.kind)}
        self.supports_structured_queries = "structured_query" in asked
        self.supports_vector_queries = "vector_query" in asked

    get, aget = replayed(RETRIEVAL, "get", GRAPH_SEARCHES["get"])
    get_triplets, aget_triplets = replayed(RETRIEVAL, "get_triplets", GRAPH_SEARCHES["get_triplets"])
    get_rel_map, aget_rel_map = replayed(RETRIEVAL, "get_rel_map", GRAPH_SEARCHES["get_rel_map"])
    get_llama_nodes, aget_llama_nodes = replayed(RETRIEVAL, "get_llama_nodes", GRAPH_SEARCHES["get_llama_nodes"])
    structured_query, astructured_query = replayed(RETRIEVAL, "structured_query", GRAPH_SEARCHES["structured_query"])
    vector_query, avector_query = replayed(RETRIEVAL, "vector_query", GRAPH_SEARCHES["vector_query"])
    get_schema, aget_schema = replayed(RETRIEVAL, "get_schema", GRAPH_SEARCHES["get_schema"])
    get_schema_str, aget_schema_str = replayed(RETRIEVAL, "get_schema_str", GRAPH_SEARCHES["get_schema_str"])
    upsert_nodes, aupsert_nodes = remembered(GRAPH_WRITES, "upsert_nodes")
    upsert_relations, aupsert_relations = remembered(GRAPH_WRITES, "upsert_relations")
    upsert_llama_nodes, aupsert_llama_nodes = remembered(GRAPH_WRITES, "upsert_llama_nodes")
    delete, adelete = remembered(GRAPH_WRITES, "delete")
    delete_llama_nodes, adelete_llama_nodes = remembered(GRAPH_WRITES, "delete_llama_nodes")

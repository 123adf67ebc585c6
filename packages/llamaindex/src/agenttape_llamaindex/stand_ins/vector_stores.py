"""The stand-in for vector stores: its searches come from a cassette."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Unpack

from llama_index.core.vector_stores.types import BasePydanticVectorStore
from pydantic import PrivateAttr

from agenttape_core.integration.stand_ins import Options, RecordedPart, StandIn
from agenttape_llamaindex.retrievers import RETRIEVAL
from agenttape_llamaindex.stand_ins.methods import recorded_methods, remembered, replayed
from agenttape_llamaindex.stores import MEMORY, VECTOR_SEARCHES, VECTOR_WRITES


class ReplayVectorStore(StandIn, BasePydanticVectorStore):
    """A vector store that returns the recorded results, and takes the recorded writes.

    A cassette does not say whether the recorded store keeps the texts of its nodes, and whether it takes the vector of
    a query. Give both if they are not as most stores have them.

    Args:
        cassette: A bare name under the cassette folder, or a path.
        name: The recorded class of the store, if the cassette holds several.
        stores_text: Whether it keeps the texts of its nodes.
        is_embedding_query: Whether queries are embedded for it.
        options: `on_repeat` and `pace`, as for `ReplayLLM`.

    Raises:
        CassetteError: If there's no such cassette, or it cannot be read.
        ConfigurationError: If it holds no call of a vector store, or none of that one.
    """

    stores_text: bool = True

    _recorded: RecordedPart = PrivateAttr()

    def __init__(
        self,
        cassette: str | Path,
        *,
        name: str | None = None,
        stores_text: bool = True,
        is_embedding_query: bool = True,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(stores_text=stores_text, is_embedding_query=is_embedding_query)
        kinds = frozenset({RETRIEVAL.kind, MEMORY.kind})
        self._recorded = recorded_methods(cassette, kinds, {**VECTOR_SEARCHES, **VECTOR_WRITES}, name, **options)

    @classmethod
    def class_name(cls) -> str:
        """Return the name that the framework shows."""
        return "ReplayVectorStore"

    @property
    def client(self) -> Any:
        """None: no service is behind it."""
        return None

    query, aquery = replayed(RETRIEVAL, "query", VECTOR_SEARCHES["query"])
    get_nodes, aget_nodes = replayed(RETRIEVAL, "get_nodes", VECTOR_SEARCHES["get_nodes"])
    add, async_add = remembered(VECTOR_WRITES, "add")
    delete, adelete = remembered(VECTOR_WRITES, "delete")
    delete_nodes, adelete_nodes = remembered(VECTOR_WRITES, "delete_nodes")
    clear, aclear = remembered(VECTOR_WRITES, "clear")

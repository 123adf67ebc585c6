"""The stand-in for node postprocessors and rerankers: the nodes that they kept come from a cassette."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle
from pydantic import PrivateAttr

from agenttape_core.integration import SessionCall, areplay_call, replay_call
from agenttape_core.integration.stand_ins import Options, RecordedPart, StandIn
from agenttape_llamaindex.postprocessors import POSTPROCESS
from agenttape_llamaindex.requests import method_body
from agenttape_llamaindex.retrievers import RETRIEVAL, query_of
from agenttape_llamaindex.stand_ins.methods import recorded_methods


class ReplayNodePostprocessor(StandIn, BaseNodePostprocessor):
    """A node postprocessor, such as a reranker, that keeps the nodes that the recorded one kept.

    Args:
        cassette: A bare name under the cassette folder, or a path.
        name: The recorded class of the postprocessor, if the cassette holds several.
        options: `on_repeat` and `pace`, as for `ReplayLLM`.

    Raises:
        CassetteError: If there's no such cassette, or it cannot be read.
        ConfigurationError: If it holds no call of a postprocessor, or none of that one.
    """

    _recorded: RecordedPart = PrivateAttr()

    def __init__(self, cassette: str | Path, *, name: str | None = None, **options: Unpack[Options]) -> None:
        super().__init__()
        kinds = frozenset({RETRIEVAL.kind})
        self._recorded = recorded_methods(cassette, kinds, {POSTPROCESS: ("nodes", "query")}, name, **options)

    @classmethod
    def class_name(cls) -> str:
        """Return the name that the framework shows."""
        return "ReplayNodePostprocessor"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return replay_call(self._cross(nodes, query_bundle))  # type: ignore[no-any-return]

    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return await areplay_call(self._cross(nodes, query_bundle))  # type: ignore[no-any-return]

    def _cross(self, nodes: list[NodeWithScore], query: QueryBundle | None) -> SessionCall:
        arguments = {"nodes": nodes, "query": query_of(query)}
        return self._recorded.cross(RETRIEVAL, lambda settings: method_body(POSTPROCESS, arguments, settings))

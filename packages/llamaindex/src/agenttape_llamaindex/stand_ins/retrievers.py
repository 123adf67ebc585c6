"""The stand-in for retrievers: its results come from a cassette."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle

from agenttape_core.integration import SessionCall, areplay_call, replay_call
from agenttape_core.integration.stand_ins import OnRepeat, Pace, RecordedPart, StandIn
from agenttape_llamaindex.requests import retrieval_body
from agenttape_llamaindex.retrievers import RETRIEVAL, query_of
from agenttape_llamaindex.workflows.halts import halts_end_streams_for


class ReplayRetriever(StandIn, BaseRetriever):
    """A retriever with the results that were found when the cassette was recorded.

    Args:
        cassette: A bare name under the cassette folder, or a path.
        name: The class name of the recorded retriever to replace, if the cassette holds several.
        on_repeat: The answer to a query that is made more often than it was recorded: `fail`, `last`, `cycle`.
        pace: The time that an answer takes, as for `ReplayLLM`.
        options: The options of every retriever.

    Raises:
        CassetteError: If there's no such cassette, or it cannot be read.
        ConfigurationError: If it holds no search of a retriever, or none of that retriever.
    """

    def __init__(
        self,
        cassette: str | Path,
        *,
        name: str | None = None,
        on_repeat: OnRepeat | None = None,
        pace: Pace | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._recorded = RecordedPart(
            cassette, frozenset({RETRIEVAL.kind}), _settings_in, name=name, on_repeat=on_repeat, pace=pace
        )
        halts_end_streams_for(self._recorded)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return replay_call(self._cross(query_bundle))  # type: ignore[no-any-return]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await areplay_call(self._cross(query_bundle))  # type: ignore[no-any-return]

    def _cross(self, query: QueryBundle) -> SessionCall:
        return self._recorded.cross(RETRIEVAL, lambda settings: retrieval_body(query_of(query), settings))


def _settings_in(request: Mapping[str, Any]) -> Mapping[str, Any] | None:
    settings: Mapping[str, Any] = request.get("settings", {})
    return settings if "query" in request else None

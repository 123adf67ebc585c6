"""The stand-ins for retrievers, postprocessors and readers: what they found comes from a cassette."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Unpack

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.readers.base import BaseReader
from llama_index.core.schema import Document, NodeWithScore, QueryBundle
from pydantic import PrivateAttr

from agenttape_core.integration import SessionCall, areplay_call, named_arguments, replay_call
from agenttape_core.integration.stand_ins import OnRepeat, Options, Pace, RecordedPart, StandIn
from agenttape_llamaindex.readers import LOAD
from agenttape_llamaindex.requests import method_body, retrieval_body
from agenttape_llamaindex.retrievers import POSTPROCESS, RETRIEVAL, query_of
from agenttape_llamaindex.stand_ins.methods import recorded_methods
from agenttape_llamaindex.stores import Method
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
        methods = {POSTPROCESS: Method(("nodes", "query"), RETRIEVAL)}
        self._recorded = recorded_methods(cassette, methods, name, **options)

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


class ReplayReader(StandIn, BaseReader):
    """A reader that returns the recorded documents.

    Arguments may be given by position where the recorded call had no more of them.

    Args:
        cassette: A bare name under the cassette folder, or a path.
        name: The recorded class of the reader, if the cassette holds several.
        options: `on_repeat` and `pace`, as for `ReplayLLM`.

    Raises:
        CassetteError: If there's no such cassette, or it cannot be read.
        ConfigurationError: If it holds no call of a reader, or none of that one.
    """

    _recorded: RecordedPart

    def __init__(self, cassette: str | Path, *, name: str | None = None, **options: Unpack[Options]) -> None:
        self._recorded = recorded_methods(cassette, {LOAD: Method((), RETRIEVAL)}, name, **options)

    def load_data(self, *args: Any, **load_kwargs: Any) -> list[Document]:
        """Return the recorded documents."""
        return replay_call(self._cross(args, load_kwargs))  # type: ignore[no-any-return]

    async def aload_data(self, *args: Any, **load_kwargs: Any) -> list[Document]:
        """Return the recorded documents."""
        return await areplay_call(self._cross(args, load_kwargs))  # type: ignore[no-any-return]

    def lazy_load_data(self, *args: Any, **load_kwargs: Any) -> Iterable[Document]:
        """Return the recorded documents."""
        return self.load_data(*args, **load_kwargs)

    async def alazy_load_data(self, *args: Any, **load_kwargs: Any) -> Iterable[Document]:
        """Return the recorded documents."""
        return await self.aload_data(*args, **load_kwargs)

    def _cross(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SessionCall:
        arguments = named_arguments(None, self._names(len(args) + len(kwargs)), args, kwargs)
        return self._recorded.cross(RETRIEVAL, lambda settings: method_body(LOAD, arguments, settings))

    def _names(self, count: int) -> tuple[str, ...]:
        """Return the names that the recorded class gave to that many arguments: only the class itself has them."""
        for _, request in self._recorded.requests(RETRIEVAL.kind):
            if request.get("method") == LOAD and len(request.get("arguments", {})) == count:
                return tuple(request["arguments"])
        return ()

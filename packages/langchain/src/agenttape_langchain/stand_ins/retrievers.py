"""A retriever made of a cassette."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun, Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.retrievers import BaseRetriever
from pydantic import PrivateAttr

from agenttape_core.integration import SessionCall, areplay_call, replay_call
from agenttape_core.integration.stand_ins import OnRepeat, Pace, RecordedPart, StandIn, settings_of_method
from agenttape_langchain.requests import RETRIEVAL, method_body, retrieval_body
from agenttape_langchain.stand_ins.methods import InOrder


class ReplayRetriever(StandIn, InOrder, BaseRetriever):
    """A retriever that returns the recorded documents.

    Args:
        cassette: A bare name under the cassette folder, or a path.
        name: The recorded name, if the cassette holds several.
        on_repeat: The answer to more calls of a request than were recorded: `fail`, `last`, `cycle`; by default the
            setting of the project.
        pace: The duration of an answer, as for `ReplayChatModel`.
        options: Options of every retriever.

    Raises:
        CassetteError: If there's no such cassette, or it cannot be read.
        ConfigurationError: If it holds no search of a retriever, or not of that one.
    """

    cassette: str | Path
    on_repeat: OnRepeat | None = None
    pace: Pace | None = None

    _recorded: RecordedPart = PrivateAttr()

    def __init__(self, cassette: str | Path, **options: Any) -> None:
        super().__init__(cassette=cassette, **options)
        self._recorded = RecordedPart(
            cassette,
            frozenset({RETRIEVAL.kind}),
            _settings_in,
            name=self.name,
            on_repeat=self.on_repeat,
            pace=self.pace,
        )
        self.name = self._recorded.name

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        return replay_call(self._cross(query, kwargs))  # type: ignore[no-any-return]

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any, **kwargs: Any) -> list[Document]:
        return await areplay_call(self._cross(query, kwargs))  # type: ignore[no-any-return]

    def _cross(self, query: str, given: dict[str, Any]) -> SessionCall:
        return self._recorded.cross(RETRIEVAL, lambda held: retrieval_body(query, {**held, **given}), given)


def _settings_in(request: Mapping[str, Any]) -> Mapping[str, Any] | None:
    settings: Mapping[str, Any] = request.get("settings", {})
    return settings if "query" in request else None


_METHOD = "compress_documents"


class ReplayDocumentCompressor(StandIn, BaseDocumentCompressor):
    """A document compressor that keeps the documents that the recorded one kept.

    Args:
        cassette: A bare name under the cassette folder, or a path.
        name: The recorded class of the compressor, if the cassette holds several.
        on_repeat: The answer to more calls of a request than were recorded: `fail`, `last`, `cycle`; by default the
            setting of the project.
        pace: The duration of an answer, as for `ReplayChatModel`.

    Raises:
        CassetteError: If there's no such cassette, or it cannot be read.
        ConfigurationError: If it holds no call of a compressor, or not of that one.
    """

    cassette: str | Path
    name: str | None = None
    on_repeat: OnRepeat | None = None
    pace: Pace | None = None

    _recorded: RecordedPart = PrivateAttr()

    def __init__(self, cassette: str | Path, **options: Any) -> None:
        super().__init__(cassette=cassette, **options)
        settings_in = settings_of_method({_METHOD: ()})
        kinds = frozenset({RETRIEVAL.kind})
        self._recorded = RecordedPart(
            cassette, kinds, settings_in, name=self.name, on_repeat=self.on_repeat, pace=self.pace
        )

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> Sequence[Document]:
        """Return the documents that were kept."""
        return replay_call(self._cross(documents, query))  # type: ignore[no-any-return]

    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> Sequence[Document]:
        """Return the documents that were kept."""
        return await areplay_call(self._cross(documents, query))  # type: ignore[no-any-return]

    def _cross(self, documents: Sequence[Document], query: str) -> SessionCall:
        arguments = {"documents": list(documents), "query": query}
        return self._recorded.cross(RETRIEVAL, lambda settings: method_body(_METHOD, arguments, settings))

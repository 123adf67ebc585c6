"""The stand-ins for embedding models, also sparse ones: their vectors come from a cassette."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

from llama_index.core.base.embeddings.base import Embedding
from llama_index.core.base.embeddings.base_sparse import BaseSparseEmbedding
from llama_index.core.embeddings.multi_modal_base import MultiModalEmbedding
from llama_index.core.schema import ImageType
from pydantic import PrivateAttr

from agenttape_core.integration import SessionCall, areplay_call, replay_call, times_recorded
from agenttape_core.integration.request_values import leave_at_end
from agenttape_core.integration.stand_ins import OnRepeat, Options, Pace, RecordedPart, StandIn
from agenttape_llamaindex.embeddings import EMBEDDING
from agenttape_llamaindex.requests import embedding_body, image_embedding_body
from agenttape_llamaindex.workflows.halts import halts_end_streams_for


class _Texts:
    """The calls of an embedding model for texts."""

    _recorded: RecordedPart

    def _cross(self, texts: str | list[str]) -> SessionCall:
        return self._recorded.cross(EMBEDDING, lambda settings: embedding_body(texts, settings))

    def _get_query_embedding(self, query: str) -> Any:
        return replay_call(self._cross(query))

    async def _aget_query_embedding(self, query: str) -> Any:
        return await areplay_call(self._cross(query))

    def _get_text_embedding(self, text: str) -> Any:
        return replay_call(self._cross([text]))[0]

    async def _aget_text_embedding(self, text: str) -> Any:
        return (await areplay_call(self._cross([text])))[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[Any]:
        if self._is_batch(texts):
            return replay_call(self._cross(texts))  # type: ignore[no-any-return]
        return [self._get_text_embedding(text) for text in texts]

    async def _aget_text_embeddings(self, texts: list[str]) -> list[Any]:
        if self._is_batch(texts):
            return await areplay_call(self._cross(texts))  # type: ignore[no-any-return]
        return [await self._aget_text_embedding(text) for text in texts]

    def _is_batch(self, texts: list[str]) -> bool:
        """Return whether the recorded model embedded these texts in one call, and not one after the other."""
        bodies = (embedding_body(texts, settings) for settings in self._recorded.settings)
        return any(times_recorded(self._recorded.session, EMBEDDING, body) for body in bodies)


class ReplayEmbedding(StandIn, _Texts, MultiModalEmbedding):
    """An embedding model that answers from a cassette, as the recorded one did: texts, and images if it did.

    Args:
        cassette: A bare name under the cassette folder, or a path.
        model: The recorded model to replace, if the cassette holds several.
        on_repeat: The answer for a text that is embedded more often than it was recorded: `fail`, `last`, `cycle`.
        pace: The time that an answer takes, as for `ReplayLLM`.
        options: The options of every embedding model; `embed_batch_size` has to be the recorded model's.

    Raises:
        CassetteError: If there's no such cassette, or it cannot be read.
        ConfigurationError: If it holds no embeddings, or none of that model.
    """

    cassette: str | Path
    model: str | None = None
    on_repeat: OnRepeat | None = None
    pace: Pace | None = None

    _recorded: RecordedPart = PrivateAttr()

    def __init__(self, cassette: str | Path, **options: Any) -> None:
        super().__init__(cassette=cassette, **options)
        self._recorded = RecordedPart(
            self.cassette,
            frozenset({EMBEDDING.kind}),
            _settings_in,
            choice={"model": self.model},
            on_repeat=self.on_repeat,
            pace=self.pace,
        )
        halts_end_streams_for(self._recorded)
        recorded = self._recorded.settings[0].get("model")
        if "model_name" not in options and isinstance(recorded, str):
            self.model_name = recorded

    @classmethod
    def class_name(cls) -> str:
        """Return the name that the framework shows."""
        return "ReplayEmbedding"

    def _cross_images(self, *given: ImageType) -> SessionCall:
        call = self._recorded.cross(EMBEDDING, lambda settings: image_embedding_body(given, settings))
        leave_at_end(*given)
        return call

    def _get_image_embedding(self, img_file_path: ImageType) -> Embedding:
        return replay_call(self._cross_images(img_file_path))[0]  # type: ignore[no-any-return]

    async def _aget_image_embedding(self, img_file_path: ImageType) -> Embedding:
        return (await areplay_call(self._cross_images(img_file_path)))[0]  # type: ignore[no-any-return]


class ReplaySparseEmbedding(StandIn, _Texts, BaseSparseEmbedding):
    """A sparse embedding model that answers from a cassette, as the recorded one did.

    Args:
        cassette: A bare name under the cassette folder, or a path.
        model: The recorded model to replace, if the cassette holds several.
        options: `on_repeat` and `pace`, as for `ReplayLLM`.

    Raises:
        CassetteError: If there's no such cassette, or it cannot be read.
        ConfigurationError: If it holds no sparse embeddings, or none of that model.
    """

    _recorded: RecordedPart = PrivateAttr()

    def __init__(self, cassette: str | Path, *, model: str | None = None, **options: Unpack[Options]) -> None:
        super().__init__()
        kinds = frozenset({EMBEDDING.kind})
        self._recorded = RecordedPart(cassette, kinds, _sparse_settings_in, choice={"model": model}, **options)
        halts_end_streams_for(self._recorded)
        recorded = self._recorded.settings[0].get("model")
        if isinstance(recorded, str):
            self.model_name = recorded

    @classmethod
    def class_name(cls) -> str:
        """Return the name that the framework shows."""
        return "ReplaySparseEmbedding"


def _settings_in(request: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return None if request.get("sparse") else _settings(request)


def _sparse_settings_in(request: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return _settings(request) if request.get("sparse") else None


def _settings(request: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: value for key, value in request.items() if key not in {"input", "images"}}

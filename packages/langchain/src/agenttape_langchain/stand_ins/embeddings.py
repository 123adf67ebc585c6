"""An embedding model made of a cassette."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

from langchain_core.embeddings import Embeddings

from agenttape_core.integration import SessionCall, areplay_call, replay_call
from agenttape_core.integration.stand_ins import Options, RecordedPart, StandIn
from agenttape_langchain.embeddings import EMBEDDING
from agenttape_langchain.requests import embedding_body


class ReplayEmbeddings(StandIn, Embeddings):
    """An embedding model that answers from a cassette, as the recorded one did.

    Args:
        cassette: A bare name under the cassette folder, or a path.
        model: The recorded model, if the cassette holds several.
        options: `on_repeat` and `pace`, as for `ReplayChatModel`.

    Raises:
        CassetteError: If there's no such cassette, or it cannot be read.
        ConfigurationError: If it holds no embeddings, or not of that model.
    """

    def __init__(self, cassette: str | Path, *, model: str | None = None, **options: Unpack[Options]) -> None:
        self._recorded = RecordedPart(
            cassette, frozenset({EMBEDDING.kind}), _settings_in, choice={"model": model}, **options
        )

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the recorded vectors of texts."""
        return replay_call(self._cross(list(texts)))  # type: ignore[no-any-return]

    def embed_query(self, text: str) -> list[float]:
        """Return the recorded vector of a query."""
        return replay_call(self._cross(text))  # type: ignore[no-any-return]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the recorded vectors of texts."""
        return await areplay_call(self._cross(list(texts)))  # type: ignore[no-any-return]

    async def aembed_query(self, text: str) -> list[float]:
        """Return the recorded vector of a query."""
        return await areplay_call(self._cross(text))  # type: ignore[no-any-return]

    def _cross(self, texts: str | list[str]) -> SessionCall:
        return self._recorded.cross(EMBEDDING, lambda settings: embedding_body(texts, settings))


def _settings_in(request: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: value for key, value in request.items() if key != "input"}

"""Exchanges with embedding models as interactions."""

from __future__ import annotations

from typing import Any

from agenttape_core.integration import EMBEDDING_SETTINGS, model_of, settings_of
from agenttape_core.integration.codecs import packed
from agenttape_core.integration.importing import (
    CallFacts,
    Exchange,
    Importing,
    NotImportableError,
    Options,
    embedded_texts,
    provider_class,
)
from agenttape_langchain.embeddings import EMBEDDING
from agenttape_langchain.importers.clients import model_on_wire
from agenttape_langchain.importers.services import embedding_connection
from agenttape_langchain.requests import embedding_body

_NAME = "OpenAIEmbeddings"


def import_embedding(importing: Importing, exchange: Exchange, options: Options) -> str:
    """Record an exchange with OpenAI's embeddings, by any compatible service.

    One text is taken for a query, several for documents: over the wire the two look the same.

    Args:
        importing: The cassette.
        exchange: The recording.
        options: The user's knowledge of the program.

    Returns:
        What is lost, and why; empty if it is exact.

    Raises:
        NotImportableError: If no interaction can be made of it.
    """
    request = exchange.json
    if request is None or not isinstance(request.get("model"), str):
        raise NotImportableError("the body of its request is no JSON object that names a model")
    texts = embedded_texts(request, options.detokenize)
    cls = provider_class("langchain_openai", _NAME)
    settings: dict[str, Any] = {
        **embedding_connection(exchange),
        **{key: request[key] for key in ("model", "dimensions") if key in request},
        "check_embedding_ctx_length": False,
        "chunk_size": max(len(texts), 1),
    }
    model, wire = model_on_wire(cls, "openai", exchange, settings, {})
    vectors, error = _vectors(model, texts)
    if not wire.sent:
        raise NotImportableError(f"{_NAME} cannot make such a call: {error}") from error
    differs = wire.difference({**request, "input": texts}, apart_from={"encoding_format"})
    loss = f"{_NAME} would send another `{differs}` today than was recorded" if differs else ""
    loss = "; ".join(filter(None, (exchange.doubt, loss)))
    settings = model_of(model) | settings_of(model, EMBEDDING_SETTINGS)
    body = embedding_body(texts[0] if len(texts) == 1 else texts, settings)
    facts = CallFacts(duration_ms=exchange.duration_ms, loss=loss)
    crossing = importing.crossing(EMBEDDING, _NAME, body, facts)
    if error is not None:
        crossing.raised(error)
    else:
        crossing.returned(packed(vectors[0] if len(texts) == 1 else vectors))
    return loss


def _vectors(model: Any, texts: list[str]) -> tuple[list[Any], Exception | None]:
    try:
        return model.embed_documents(texts), None
    except Exception as error:  # noqa: BLE001 - what a provider raises is the outcome
        return [], error

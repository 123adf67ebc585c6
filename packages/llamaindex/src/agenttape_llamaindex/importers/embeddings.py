"""Exchanges with embedding models as interactions."""

from __future__ import annotations

from typing import Any

from agenttape_core.integration.codecs import packed
from agenttape_core.integration.importing import (
    CallFacts,
    Exchange,
    Importing,
    NotImportableError,
    Options,
    apart_class,
    embedded_texts,
    provider_class,
    wire_of,
)
from agenttape_llamaindex._compat import answered_by
from agenttape_llamaindex.embeddings import EMBEDDING, embedding_settings
from agenttape_llamaindex.importers.chats import difference
from agenttape_llamaindex.importers.services import embedding_service_of
from agenttape_llamaindex.requests import embedding_body


def import_embedding(importing: Importing, exchange: Exchange, options: Options) -> str:
    """Record an exchange with embeddings of OpenAI, Azure, or any compatible service.

    One text is taken for a query, several for texts of documents: over the wire the two look the same.

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
    service = embedding_service_of(exchange)
    texts = embedded_texts(request, options.detokenize)
    cls = provider_class(service.package, service.name)
    wire = wire_of(service.sdk, exchange)
    settings: dict[str, Any] = {
        **service.connection(exchange),
        **{key: request[key] for key in ("model", "dimensions") if key in request},
        **options.model_options,
        "max_retries": 0,
    }
    try:
        model = answered_by(apart_class(cls), settings, wire.http_client)
    except (TypeError, ValueError) as error:
        raise NotImportableError(f"{service.name} cannot make such a call: {error}") from error
    is_query = len(texts) == 1
    vectors: list[Any] = []
    failure: Exception | None = None
    try:
        vectors = model.get_text_embedding_batch(texts)
    except Exception as error:  # noqa: BLE001 - what a provider raises is the outcome
        failure = error
    if not wire.sent:
        raise NotImportableError(f"{service.name} cannot make such a call: {failure}") from failure
    loss = "; ".join(filter(None, (exchange.doubt, difference(wire, exchange, service))))
    body = embedding_body(texts[0] if is_query else texts, embedding_settings(model))
    crossing = importing.crossing(EMBEDDING, service.name, body, CallFacts(duration_ms=exchange.duration_ms, loss=loss))
    if failure is not None:
        crossing.raised(failure)
    else:
        crossing.returned(packed(vectors[0] if is_query else vectors))
    return loss

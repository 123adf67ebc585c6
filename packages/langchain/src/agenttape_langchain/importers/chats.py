"""Exchanges with chat models as interactions."""

from __future__ import annotations

from agenttape_core import UnrecordableValueError
from agenttape_core.integration.importing import CallFacts, Exchange, Importing, NotImportableError, Options
from agenttape_langchain._compat import as_provider_sees
from agenttape_langchain.chat_models import CHAT
from agenttape_langchain.importers.answers import Answer, answer_of
from agenttape_langchain.importers.requests import History, ModelCall
from agenttape_langchain.importers.services import Service, service_of
from agenttape_langchain.requests import chat_body


def import_chat(importing: Importing, exchange: Exchange, options: Options, history: History) -> str:
    """Record an exchange with a chat model.

    Args:
        importing: The cassette.
        exchange: The recording.
        options: The user's knowledge of the program.
        history: The answers before it; this one is added.

    Returns:
        What is lost, and why; empty if it is exact.

    Raises:
        NotImportableError: If no interaction can be made of it.
    """
    service = service_of(exchange)
    try:
        call, answer = _call_and_answer(exchange, service, options, history)
        body = chat_body(as_provider_sees(call.messages, traced=False), answer.params)
        loss = "; ".join(filter(None, (exchange.doubt, answer.loss)))
        facts = CallFacts(duration_ms=exchange.duration_ms, loss=loss)
        answer.record(importing.crossing(CHAT, service.name, body, facts))
    except UnrecordableValueError as error:
        raise NotImportableError(f"it cannot be recorded: {error}") from error
    message = answer.message(options.model_options.get("output_version"))
    if message is not None:
        history.add(message)
    return loss


def _call_and_answer(
    exchange: Exchange, service: Service, options: Options, history: History
) -> tuple[ModelCall, Answer]:
    """Return the call and its answer: read with the answers before it, or else from the request alone."""
    request = exchange.json
    if request is None:
        raise NotImportableError("the body of its request is no JSON object")
    failure: NotImportableError | None = None
    lossy: tuple[ModelCall, Answer] | None = None
    for known in (history, History()):
        try:
            call = service.read_call(request, known, options.schemas)
            answer = answer_of(exchange, service, call, options)
        except NotImportableError as error:
            failure = error
            continue
        if not answer.loss:
            return call, answer
        lossy = lossy or (call, answer)
    if lossy is None:
        assert failure is not None
        raise failure
    return lossy

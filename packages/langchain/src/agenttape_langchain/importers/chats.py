"""Exchanges with chat models as interactions."""

from __future__ import annotations

from collections.abc import Sequence

from agenttape_core import UnrecordableValueError
from agenttape_core.integration.importing import Importing, Told
from agenttape_langchain._compat import as_provider_sees
from agenttape_langchain.chat_models import CHAT
from agenttape_langchain.importers.answers import Answered, answered
from agenttape_langchain.importers.http_exchanges import Exchange
from agenttape_langchain.importers.requests import Asked, History, NotImportableError
from agenttape_langchain.importers.services import Options, Service
from agenttape_langchain.requests import chat_body

_RESULTS = (b'"tool_call_id"', b'"tool_use_id"', b'_call_output"')


def import_chat(importing: Importing, exchange: Exchange, service: Service, options: Options, history: History) -> str:
    """Record an exchange with a chat model.

    Args:
        importing: The cassette.
        exchange: The recording.
        service: The service that it is of.
        options: What the user says of the program.
        history: The answers before it; this one is added.

    Returns:
        What is lost, and why; empty if it is exact.

    Raises:
        NotImportableError: If no interaction can be made of it.
    """
    try:
        asked, answer = _understood(exchange, service, options, history)
        body = chat_body(as_provider_sees(asked.messages, traced=False), answer.params)
        loss = "; ".join(filter(None, (exchange.doubt, answer.loss)))
        crossing = importing.crossing(CHAT, service.name, body, Told(duration_ms=exchange.duration_ms, loss=loss))
        answer.record(crossing)
    except UnrecordableValueError as error:
        raise NotImportableError(f"it cannot be recorded: {error}") from error
    message = answer.handed_on(options.model_options.get("output_version"))
    if message is not None:
        history.add(message)
    return loss


def _understood(exchange: Exchange, service: Service, options: Options, history: History) -> tuple[Asked, Answered]:
    """Return what was asked, and its answer: with the answers before it, or else only by what the request holds."""
    request = exchange.json
    if request is None:
        raise NotImportableError("the body of its request is no JSON object")
    failure: NotImportableError | None = None
    lossy: tuple[Asked, Answered] | None = None
    for known in (history, History()):
        try:
            asked = service.asked(request, known, options.schemas)
            answer = answered(exchange, service, asked, options)
        except NotImportableError as error:
            failure = error
            continue
        if not answer.loss:
            return asked, answer
        lossy = lossy or (asked, answer)
    if lossy is None:
        assert failure is not None
        raise failure
    return lossy


def tells_results(exchanges: Sequence[Exchange]) -> bool:
    """Whether results of tools were sent: what LangChain calls them, and whether they are errors, is not."""
    return any(mark in exchange.request_body for exchange in exchanges for mark in _RESULTS)

"""Exchanges with LLMs as interactions: the provider's own package of LlamaIndex parses each answer."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse

from agenttape_core.errors import UnrecordableValueError
from agenttape_core.integration import ExecutedCall, value_codec
from agenttape_core.integration.importing import (
    CallFacts,
    Exchange,
    Importing,
    NotImportableError,
    Options,
    Wire,
    apart_class,
    provider_class,
    wire_of,
)
from agenttape_llamaindex._compat import answered_by, undecorated
from agenttape_llamaindex.codec import CHATS, TEXTS
from agenttape_llamaindex.importers.requests import History, ModelCall
from agenttape_llamaindex.importers.services import Service, service_of
from agenttape_llamaindex.llms import CHAT, COMPLETION
from agenttape_llamaindex.requests import chat_body, completion_body, identity_of


@dataclass(slots=True)
class _Answer:
    """The answer to a call.

    Args:
        llm: The LLM that was called.
        response: The returned response; of a stream the last one.
        chunks: The streamed chunks, each encoded when it came; `None` if it was not streamed.
        error: The raised error.
        loss: The lost parts, and the reason; empty if there are none.
    """

    llm: Any
    response: ChatResponse | CompletionResponse | None = None
    chunks: list[Any] | None = None
    error: Exception | None = None
    loss: str = ""

    def record(self, crossing: ExecutedCall) -> None:
        """Record it as the outcome of a crossing."""
        if self.chunks is not None and (self.chunks or self.error is None):
            usage = CHAT.usage(self.response) if self.response is not None else None
            crossing.streamed(self.chunks, "raised" if self.error is not None else "exhausted", self.error, usage)
        elif self.error is not None:
            crossing.raised(self.error)
        else:
            crossing.returned(self.response)

    @property
    def message(self) -> ChatMessage | None:
        """The message that the program got, if it got one."""
        return self.response.message if isinstance(self.response, ChatResponse) else None


def import_chat(
    importing: Importing, exchange: Exchange, options: Options, history: History, *, completes: bool = False
) -> str:
    """Record an exchange with an LLM as a chat, or as a completion.

    Args:
        importing: The cassette.
        exchange: The recording.
        options: The user's knowledge of the program.
        history: The answers before it; this one is added.
        completes: Whether a request of a single message of the user is a completion.

    Returns:
        What is lost, and why; empty if it is exact.

    Raises:
        NotImportableError: If no interaction can be made of it.
    """
    request = exchange.json
    if request is None:
        raise NotImportableError("the body of its request isn't a JSON object")
    service = service_of(exchange)
    try:
        call = _read(request, service, history)
        call = call.completing() if completes else call
        answer = _likely_answer(exchange, service, call, options)
        loss = "; ".join(filter(None, (exchange.doubt, service.doubt(options), answer.loss)))
        params = {**identity_of(answer.llm), **call.kwargs}
        body = chat_body(call.messages, params) if call.prompt is None else completion_body(call.prompt, params)
        facts = CallFacts(duration_ms=exchange.duration_ms, loss=loss)
        boundary = CHAT if call.prompt is None else COMPLETION
        answer.record(importing.crossing(boundary, service.name, body, facts))
    except UnrecordableValueError as error:
        raise NotImportableError(f"it cannot be recorded: {error}") from error
    if answer.message is not None:
        history.add(answer.message)
    return loss


def _read(request: dict[str, Any], service: Service, history: History) -> ModelCall:
    try:
        return service.read_call(request, history)
    except (TypeError, ValueError) as error:  # of the framework's own messages
        reason = str(error).partition("\n")[0]
        raise NotImportableError(f"its request cannot be read back: {reason}") from error


def _likely_answer(exchange: Exchange, service: Service, call: ModelCall, options: Options) -> _Answer:
    """Return the answer to the first call that would be sent as the recorded one was; to the last, if none would."""
    *others, last = call.as_given()
    for each in others:
        with suppress(NotImportableError):
            answer = _answer_of(exchange, service, each, options)
            if not answer.loss:
                return answer
    return _answer_of(exchange, service, last, options)


def _answer_of(exchange: Exchange, service: Service, call: ModelCall, options: Options) -> _Answer:
    cls = provider_class(service.package, service.name)
    said = {**call.settings, **service.model(exchange)}
    settings = {**service.connection(exchange), **said, **options.model_options, "max_retries": 0}
    refused = f"{service.name} cannot make such a call"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a model that is deprecated by now: the call was made long ago
        try:
            wire = wire_of(service.sdk, exchange)
            llm = answered_by(apart_class(cls), settings, wire.http_client)
        except (TypeError, ValueError) as error:
            raise NotImportableError(f"{refused}: {error}") from error
        answer = _made(llm, call)
    if not wire.sent:
        raise NotImportableError(f"{refused}: {answer.error}") from answer.error
    answer.loss = difference(wire, exchange, service)
    return answer


def difference(wire: Wire, exchange: Exchange, service: Service) -> str:
    """Return the loss of an exchange whose request the class would send in another form today; empty if it wouldn't."""
    differs = wire.difference(exchange.json or {}, renamed=service.sdk == "openai", apart_from={"encoding_format"})
    return (
        f"{service.name} would send another `{differs}` today than was recorded, "
        "so this may be the answer to another request"
        if differs
        else ""
    )


def _made(llm: Any, call: ModelCall) -> _Answer:
    """Call the LLM, whose client gets the recorded response."""
    answer = _Answer(llm)
    try:
        if not call.streamed:
            answer.response = undecorated(llm, call.method)(call.question, **call.kwargs)
            return answer
        sort = CHATS if call.prompt is None else TEXTS
        answer.chunks, codec, chunk_of = [], value_codec(), sort.writer()
        for response in undecorated(llm, call.method)(call.question, **call.kwargs):
            answer.response = response
            answer.chunks.append(codec.encode(chunk_of(response)))
    except UnrecordableValueError:
        raise
    except Exception as error:  # noqa: BLE001 - what a provider raises is the outcome
        answer.error = error
    return answer

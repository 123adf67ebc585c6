"""Recordings of vcrpy and of agenttape 0.1 as calls of LangChain."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult

from agenttape_core import Rule
from agenttape_core.errors import UnrecordableValueError
from agenttape_core.integration import Boundary, ExecutedCall, importing, model_of, settings_of, value_codec
from agenttape_core.integration.codecs import packed
from agenttape_core.integration.importing import (
    AS_JSON,
    CallFacts,
    Exchange,
    Importing,
    ImportReport,
    NotImportableError,
    Options,
    Wire,
    apart_class,
    embedded_texts,
    is_scalar,
    provider_class,
    wire_of,
)
from agenttape_core.integration.object_settings import EMBEDDING_SETTINGS
from agenttape_langchain._compat import answered_by, as_provider_sees, invocation_params
from agenttape_langchain.chat_models import CHAT
from agenttape_langchain.codec import join_chunks
from agenttape_langchain.embeddings import EMBEDDING
from agenttape_langchain.importers.foreign_objects import is_message, read_document, read_message
from agenttape_langchain.importers.requests import History, ModelCall
from agenttape_langchain.importers.services import Service, embedding_connection, service_of
from agenttape_langchain.requests import RETRIEVAL, chat_body, embedding_body, retrieval_body, tool_body
from agenttape_langchain.tools import TOOL

# -- The provider packages at work: they parse a recorded answer themselves, without any network.


def model_on_wire(
    cls: Any, sdk: str, exchange: Exchange, settings: Mapping[str, Any], options: Mapping[str, Any]
) -> tuple[Any, Wire]:
    """Return a model whose client gets the recorded response, once and without a retry.

    `sdk` is the package that it sends with, `openai` or `anthropic`; `settings` are arguments of the class, and
    `options` further ones, given by the user.
    """
    wire = wire_of(sdk, exchange)
    return answered_by(apart_class(cls), {**settings, **options, "max_retries": 0}, wire.http_client), wire


def as_constructed(model: Any, options: Mapping[str, Any]) -> Any:
    """Return the program's model: with the retries of the options, or those of the class."""
    retries = options.get("max_retries", type(model).model_fields["max_retries"].default)
    return model.model_copy(update={"max_retries": retries})


# -- Exchanges with embedding models as interactions.

_NAME = "OpenAIEmbeddings"


def import_embedding(importing: Importing, exchange: Exchange, options: Options) -> str:
    """Record an exchange with OpenAI's embeddings, by any compatible service.

    One text is taken for a query, several for documents: over the wire the two look the same. Returns the losses with
    their reasons; empty if it is exact. Raises `NotImportableError` if no interaction can be made of it.
    """
    request = exchange.json
    if request is None or not isinstance(request.get("model"), str):
        raise NotImportableError("the body of its request isn't a JSON object that names a model")
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
    session_call = importing.session_call(EMBEDDING, _NAME, body, facts)
    if error is not None:
        session_call.raised(error)
    else:
        session_call.returned(packed(vectors[0] if len(texts) == 1 else vectors))
    return loss


def _vectors(model: Any, texts: list[str]) -> tuple[list[Any], Exception | None]:
    try:
        return model.embed_documents(texts), None
    except Exception as error:  # noqa: BLE001 - what a provider raises is the outcome
        return [], error


# -- Exchanges with chat models as interactions.


def import_chat(importing: Importing, exchange: Exchange, options: Options, history: History) -> str:
    """Record an exchange with a chat model.

    `history` has the answers before it; this one is added. Returns the losses with their reasons; empty if it is exact.
    Raises `NotImportableError` if no interaction can be made of it.
    """
    service = service_of(exchange)
    try:
        call, answer = _call_and_answer(exchange, service, options, history)
        body = chat_body(as_provider_sees(call.messages, traced=False), answer.params)
        loss = "; ".join(filter(None, (exchange.doubt, answer.loss)))
        facts = CallFacts(duration_ms=exchange.duration_ms, loss=loss)
        answer.record(importing.session_call(CHAT, service.name, body, facts))
    except UnrecordableValueError as error:
        raise NotImportableError(f"it cannot be recorded: {error}") from error
    message = answer.message(options.model_options.get("output_version"))
    if message is not None:
        history.add(message)
    return loss


def _call_and_answer(
    exchange: Exchange, service: Service, options: Options, history: History
) -> tuple[ModelCall, _Answer]:
    """Return the call and its answer: read with the answers before it, or else from the request alone."""
    request = exchange.json
    if request is None:
        raise NotImportableError("the body of its request isn't a JSON object")
    failure: NotImportableError | None = None
    lossy: tuple[ModelCall, _Answer] | None = None
    for known in (history, History()):
        try:
            call = service.read_call(request, known, options.schemas)
            answer = _answer_of(exchange, service, call, options)
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


class LangChainCalls:
    """Makes calls of LangChain; see core's `Framework`."""

    name = "LangChain"

    def __init__(self, options: Options) -> None:
        self._options = options
        self._history = History()

    def chat(self, importing: Importing, exchange: Exchange) -> str:
        """Record an exchange with a chat model, and return the lost parts."""
        return import_chat(importing, exchange, self._options, self._history)

    def completion(self, importing: Importing, exchange: Exchange) -> str:
        """Refuse an exchange with a model of texts: always raises `NotImportableError`."""
        raise NotImportableError("it is of OpenAI's older completions, whose class of LangChain is not read back")

    def embedding(self, importing: Importing, exchange: Exchange) -> str:
        """Record an exchange with an embedding model, and return the lost parts."""
        return import_embedding(importing, exchange, self._options)

    def tool_request(self, name: str, arguments: Any) -> tuple[Boundary, dict[str, Any]]:
        """Return the boundary of tools, and the request of a call."""
        return TOOL, tool_body(name, arguments)

    def tool_value(self, plain: Any) -> tuple[Any, str]:
        """Return the value of a tool, and the lost parts of it."""
        if is_message(plain) and plain.get("type") == "tool":
            message = read_message(plain)
            return message, "" if is_scalar(getattr(message, "artifact", None)) else AS_JSON
        return plain, "" if is_scalar(plain) else AS_JSON

    def retrieval_request(self, query: str) -> tuple[Boundary, dict[str, Any]]:
        """Return the boundary of retrievers, and the request of a call."""
        return RETRIEVAL, retrieval_body(query, {})

    def documents(self, plain: Any) -> Any:
        """Return the documents of a retriever."""
        if not isinstance(plain, list):
            raise NotImportableError("its result isn't a list of documents")
        return [read_document(item) for item in plain]

    def ids_of(self, value: Any) -> tuple[str, ...]:
        """Return the id of the call in the message of a tool."""
        return (value.tool_call_id,) if isinstance(value, ToolMessage) else ()


def import_vcr(
    source: str | Path,
    target: str | Path,
    *,
    overwrite: bool = False,
    redact: bool | Sequence[Rule] = True,
    tags: Sequence[str] = (),
    model_options: Mapping[str, Any] | None = None,
    schemas: Sequence[type] = (),
    detokenize: Callable[[str, list[int]], str] | None = None,
) -> ImportReport:
    """Make a cassette of a vcrpy cassette.

    The answers of OpenAI, Azure, Anthropic and compatible services are parsed by the provider's own package, so a
    replay gives exactly the messages that the program got. Nothing is sent anywhere.

    Args:
        source: The file: YAML or JSON, also compressed by gzip.
        target: The cassette: a bare name under the cassette folder, or a path.
        overwrite: Whether to replace a cassette that is there already.
        redact: Rules beyond the built-in ones, or `False` to keep secrets in plain text.
        tags: Words for the header.
        model_options: Arguments of the program's models that are not sent: `output_version="v1"`.
        schemas: The pydantic classes that the program passes as response formats: they are sent as plain schemas.
        detokenize: Makes text of tokens, given the name of the model, for embeddings of tokens.

    Returns:
        The report, with a grade for each exchange.

    Raises:
        CassetteFormatError: If the source isn't a vcrpy cassette.
        CassetteNotFoundError: If there is none.
        ConfigurationError: If the target is there already, or an option is not valid.
    """
    calls = LangChainCalls(Options(model_options or {}, schemas, detokenize))
    return importing.import_vcr(source, target, calls, overwrite=overwrite, redact=redact, tags=tags)


def import_agenttape01(
    source: str | Path,
    target: str | Path,
    *,
    overwrite: bool = False,
    redact: bool | Sequence[Rule] = True,
    tags: Sequence[str] = (),
    model_options: Mapping[str, Any] | None = None,
    schemas: Sequence[type] = (),
    detokenize: Callable[[str, list[int]], str] | None = None,
) -> ImportReport:
    """Make a cassette of a cassette of the older distribution `agenttape` 0.1.

    Args:
        source: The file. Its folder of assets is read if the file refers to it.
        target: The cassette: a bare name under the cassette folder, or a path.
        overwrite: Whether to replace a cassette that is there already.
        redact: Rules beyond the built-in ones, or `False` to keep secrets in plain text.
        tags: Words for the header.
        model_options: As in `import_vcr`.
        schemas: As in `import_vcr`.
        detokenize: As in `import_vcr`.

    Returns:
        The report, with a grade for each interaction.

    Raises:
        CassetteFormatError: If the source isn't such a cassette.
        CassetteNotFoundError: If there is none.
        ConfigurationError: If the target is there already, or an option is not valid.
    """
    calls = LangChainCalls(Options(model_options or {}, schemas, detokenize))
    return importing.import_agenttape01(source, target, calls, overwrite=overwrite, redact=redact, tags=tags)


# Recorded answers as LangChain's models return them: the provider's own package parses each.

_BLOCKS = "v1"
"""The `output_version` for which the framework turns the content of messages into blocks."""


@dataclass(slots=True)
class _Answer:
    """The answer to a call of a model."""

    params: dict[str, Any]  # the parameters of the call, as callbacks receive them
    result: ChatResult | None = None  # the returned result
    chunks: list[Any] | None = None  # the streamed chunks, each encoded when it came
    error: Exception | None = None  # the raised error
    loss: str = ""  # the lost parts, and the reason; empty if there are none

    def record(self, session_call: ExecutedCall) -> None:
        """Record it as the outcome of a call."""
        if self.chunks is not None and (self.chunks or self.error is None):
            usage = CHAT.usage(self.result) if self.result is not None else None
            session_call.streamed(self.chunks, "raised" if self.error is not None else "exhausted", self.error, usage)
        elif self.error is not None:
            session_call.raised(self.error)
        else:
            session_call.returned(self.result)

    def message(self, output_version: str | None) -> AIMessage | None:
        """Return the message that the program got, if it got one."""
        if self.chunks:
            codec = value_codec()
            return _streamed_message([codec.decode(chunk) for chunk in self.chunks], output_version)
        if self.result is None or not self.result.generations:
            return None
        return _returned_message(self.result.generations[0].message, output_version)


def _answer_of(exchange: Exchange, service: Service, call: ModelCall, options: Options) -> _Answer:
    """Return the answer that a model makes of a recorded response."""
    cls = provider_class(service.package, service.name)
    settings = {**service.connection(exchange), **call.settings}
    refused = f"{service.name} cannot make such a call"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a model that is deprecated by now: the call was made long ago
        try:
            model, wire = model_on_wire(cls, service.sdk, exchange, settings, options.model_options)
            params = invocation_params(as_constructed(model, options.model_options), None, call.kwargs)
        except (TypeError, ValueError) as error:
            raise NotImportableError(f"{refused}: {error}") from error
        answer = _made(model, call, params)
    if not wire.sent:
        raise NotImportableError(f"{refused}: {answer.error}") from answer.error
    differs = wire.difference(exchange.json or {}, renamed=service.sdk == "openai")
    if differs:
        answer.loss = (
            f"{service.name} would send another `{differs}` today than was recorded, "
            "so this may be the answer to another request"
        )
    return answer


def _made(model: Any, call: ModelCall, params: dict[str, Any]) -> _Answer:
    """Call the model, whose client gets the recorded response."""
    answer, codec = _Answer(params), value_codec()
    try:
        if not call.streamed:
            answer.result = model._generate(list(call.messages), **call.kwargs)
            return answer
        answer.chunks = []
        for chunk in model._stream(list(call.messages), **call.kwargs):
            answer.chunks.append(codec.encode(chunk))
    except UnrecordableValueError:
        raise
    except Exception as error:  # noqa: BLE001 - what a provider raises is the outcome
        answer.error = error
        return answer
    if answer.chunks:
        answer.result = join_chunks([codec.decode(chunk) for chunk in answer.chunks])
    return answer


# -- as `BaseChatModel` of langchain-core 1.7 does it above the leaf methods -------------------------------------------


def _returned_message(message: BaseMessage, output_version: str | None) -> AIMessage | None:
    if not isinstance(message, AIMessage):
        return None
    return _in_blocks(message, list(message.content_blocks)) if output_version == _BLOCKS else message


def _streamed_message(chunks: Sequence[ChatGenerationChunk], output_version: str | None) -> AIMessage | None:
    """Return the sum of the chunks; the blocks of the same kind that follow each other share an index."""
    messages = [chunk.message for chunk in chunks if isinstance(chunk.message, AIMessageChunk)]
    if output_version == _BLOCKS:
        index, kind = -1, ""
        for number, message in enumerate(messages):
            blocks: list[Any] = list(message.content_blocks)
            for block in blocks:
                index, kind = (index, kind) if block["type"] == kind else (index + 1, block["type"])
                block.setdefault("index", index)
            messages[number] = _in_blocks(message, blocks)
    return messages[0] + messages[1:] if messages else None


def _in_blocks(message: Any, blocks: list[Any]) -> Any:
    metadata = {**message.response_metadata, "output_version": _BLOCKS}
    return message.model_copy(update={"content": blocks, "response_metadata": metadata})

"""Recordings of vcrpy and of agenttape 0.1 as calls of LlamaIndex."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse
from llama_index.core.schema import NodeWithScore, TextNode

from agenttape_core import Rule
from agenttape_core.errors import UnrecordableValueError
from agenttape_core.integration import Boundary, ExecutedCall, importing, value_codec
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
from agenttape_llamaindex._compat import answered_by, undecorated
from agenttape_llamaindex.codec import CHATS, TEXTS
from agenttape_llamaindex.embeddings import EMBEDDING, embedding_settings
from agenttape_llamaindex.importers.requests import History, ModelCall
from agenttape_llamaindex.importers.services import Service, embedding_service_of, service_of
from agenttape_llamaindex.llms import CHAT, COMPLETION
from agenttape_llamaindex.requests import (
    chat_body,
    completion_body,
    embedding_body,
    identity_of,
    retrieval_body,
    tool_body,
)
from agenttape_llamaindex.retrievers import RETRIEVAL
from agenttape_llamaindex.tools import TOOL

# -- Exchanges with embedding models as interactions.


def import_embedding(importing: Importing, exchange: Exchange, options: Options) -> str:
    """Record an exchange with embeddings of OpenAI, Azure, or any compatible service.

    One text is taken for a query, several for texts of documents: over the wire the two look the same. Returns the
    losses with their reasons; empty if it is exact. Raises `NotImportableError` if no interaction can be made of it.
    """
    request = exchange.json
    if request is None or not isinstance(request.get("model"), str):
        raise NotImportableError("the body of its request isn't a JSON object that names a model")
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
    loss = "; ".join(filter(None, (exchange.doubt, _difference(wire, exchange, service))))
    body = embedding_body(texts[0] if is_query else texts, embedding_settings(model))
    session_call = importing.session_call(
        EMBEDDING, service.name, body, CallFacts(duration_ms=exchange.duration_ms, loss=loss)
    )
    if failure is not None:
        session_call.raised(failure)
    else:
        session_call.returned(packed(vectors[0] if is_query else vectors))
    return loss


class LlamaIndexCalls:
    """Makes calls of LlamaIndex; see core's `Framework`.

    With `completes`, requests of one message of the user are calls of `complete`.
    """

    name = "LlamaIndex"

    def __init__(self, options: Options, *, completes: bool = False) -> None:
        self._options = options
        self._completes = completes
        self._history = History()

    def chat(self, importing: Importing, exchange: Exchange) -> str:
        """Record an exchange with an LLM, and return the lost parts."""
        return _import_chat(importing, exchange, self._options, self._history, completes=self._completes)

    def completion(self, importing: Importing, exchange: Exchange) -> str:
        """Record an exchange with OpenAI's older completions, and return the lost parts."""
        return _import_chat(importing, exchange, self._options, self._history)

    def embedding(self, importing: Importing, exchange: Exchange) -> str:
        """Record an exchange with an embedding model, and return the lost parts."""
        return import_embedding(importing, exchange, self._options)

    def tool_request(self, name: str, arguments: Any) -> tuple[Boundary, dict[str, Any]]:
        """Return the boundary of tools, and the request of a call."""
        return TOOL, tool_body(name, arguments if isinstance(arguments, dict) else {"input": arguments})

    def tool_value(self, plain: Any) -> tuple[Any, str]:
        """Return the value of a tool, and the lost parts of it."""
        return plain, "" if is_scalar(plain) else AS_JSON

    def retrieval_request(self, query: str) -> tuple[Boundary, dict[str, Any]]:
        """Return the boundary of retrievers, and the request of a call."""
        return RETRIEVAL, retrieval_body(query, {})

    def documents(self, plain: Any) -> Any:
        """Return the nodes of a retriever."""
        if not isinstance(plain, list):
            raise NotImportableError("its result isn't a list of nodes")
        return [_node(item) for item in plain]

    def ids_of(self, value: Any) -> tuple[str, ...]:
        """Return an empty list: the value of a tool has no ids of the run."""
        return ()


def _node(plain: Any) -> NodeWithScore:
    """Return a node, as LlamaIndex or LangChain writes it."""
    fields = plain if isinstance(plain, dict) else {}
    inner = fields["node"] if isinstance(fields.get("node"), dict) else fields
    text = inner.get("text", inner.get("page_content"))
    if not isinstance(text, str):
        raise NotImportableError("a node has no text")
    metadata, score = inner.get("metadata"), fields.get("score")
    named = {"id_": inner["id_"]} if isinstance(inner.get("id_"), str) else {}
    node = TextNode(text=text, metadata=metadata if isinstance(metadata, dict) else {}, **named)
    return NodeWithScore(node=node, score=score if isinstance(score, float) else None)


def import_vcr(
    source: str | Path,
    target: str | Path,
    *,
    overwrite: bool = False,
    redact: bool | Sequence[Rule] = True,
    tags: Sequence[str] = (),
    model_options: Mapping[str, Any] | None = None,
    detokenize: Callable[[str, list[int]], str] | None = None,
    completes: bool = False,
) -> ImportReport:
    """Make a cassette of a vcrpy cassette.

    The answers of OpenAI, Anthropic and compatible services are parsed by LlamaIndex's package for the provider, so a
    replay gives exactly the responses that the program got. Nothing is sent anywhere.

    Args:
        source: The file: YAML or JSON, also compressed by gzip.
        target: The cassette: a bare name under the cassette folder, or a path.
        overwrite: Whether to replace a cassette that is there already.
        redact: Rules beyond the built-in ones, or `False` to keep secrets in plain text.
        tags: Words for the header.
        model_options: Arguments of the program's models that are not sent: `context_window=8000`.
        detokenize: Makes text of tokens, given the name of the model, for embeddings of tokens.
        completes: Whether a request of a single message of the user was a call of `complete`, and not of `chat`: both
            look the same over the wire.

    Returns:
        The report, with a grade for each exchange.

    Raises:
        CassetteFormatError: If the source isn't a vcrpy cassette.
        CassetteNotFoundError: If there is none.
        ConfigurationError: If the target is there already, or an option is not valid.
    """
    calls = LlamaIndexCalls(Options(model_options or {}, detokenize=detokenize), completes=completes)
    return importing.import_vcr(source, target, calls, overwrite=overwrite, redact=redact, tags=tags)


def import_agenttape01(
    source: str | Path,
    target: str | Path,
    *,
    overwrite: bool = False,
    redact: bool | Sequence[Rule] = True,
    tags: Sequence[str] = (),
    model_options: Mapping[str, Any] | None = None,
    detokenize: Callable[[str, list[int]], str] | None = None,
    completes: bool = False,
) -> ImportReport:
    """Make a cassette of a cassette of the older distribution `agenttape` 0.1.

    Args:
        source: The file. Its folder of assets is read if the file refers to it.
        target: The cassette: a bare name under the cassette folder, or a path.
        overwrite: Whether to replace a cassette that is there already.
        redact: Rules beyond the built-in ones, or `False` to keep secrets in plain text.
        tags: Words for the header.
        model_options: As in `import_vcr`.
        detokenize: As in `import_vcr`.
        completes: As in `import_vcr`.

    Returns:
        The report, with a grade for each interaction.

    Raises:
        CassetteFormatError: If the source isn't such a cassette.
        CassetteNotFoundError: If there is none.
        ConfigurationError: If the target is there already, or an option is not valid.
    """
    calls = LlamaIndexCalls(Options(model_options or {}, detokenize=detokenize), completes=completes)
    return importing.import_agenttape01(source, target, calls, overwrite=overwrite, redact=redact, tags=tags)


# Exchanges with LLMs as interactions: the provider's own package of LlamaIndex parses each answer.


@dataclass(slots=True)
class _Answer:
    """The answer to a call."""

    llm: Any  # the LLM that was called
    response: ChatResponse | CompletionResponse | None = None  # the returned response; of a stream the last one
    chunks: list[Any] | None = None  # the streamed chunks, each encoded when it came; `None` if it was not streamed
    error: Exception | None = None  # the raised error
    loss: str = ""  # the lost parts, and the reason; empty if there are none

    def record(self, session_call: ExecutedCall) -> None:
        """Record it as the outcome of a call."""
        if self.chunks is not None and (self.chunks or self.error is None):
            usage = CHAT.usage(self.response) if self.response is not None else None
            session_call.streamed(self.chunks, "raised" if self.error is not None else "exhausted", self.error, usage)
        elif self.error is not None:
            session_call.raised(self.error)
        else:
            session_call.returned(self.response)

    @property
    def message(self) -> ChatMessage | None:
        """The message that the program got, if it got one."""
        return self.response.message if isinstance(self.response, ChatResponse) else None


def _import_chat(
    importing: Importing, exchange: Exchange, options: Options, history: History, *, completes: bool = False
) -> str:
    """Record an exchange with an LLM as a chat, or as a completion."""
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
        answer.record(importing.session_call(boundary, service.name, body, facts))
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
    answer.loss = _difference(wire, exchange, service)
    return answer


def _difference(wire: Wire, exchange: Exchange, service: Service) -> str:
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

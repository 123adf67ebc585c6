"""What a model of LangChain makes of a recorded answer: the provider's own parsing, where its package is installed."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatResult

from agenttape_core import UnrecordableValueError
from agenttape_core.integration import Crossing, value_codec
from agenttape_langchain._compat import invocation_params
from agenttape_langchain.chat_models import CHAT
from agenttape_langchain.codec import join_chunks
from agenttape_langchain.importers.clients import as_constructed, class_named, model_on_wire
from agenttape_langchain.importers.http_exchanges import Exchange
from agenttape_langchain.importers.parsing import parsed_answer
from agenttape_langchain.importers.record import handed_on, handed_on_stream
from agenttape_langchain.importers.requests import Asked, NotImportableError
from agenttape_langchain.importers.sameness import difference
from agenttape_langchain.importers.services import Options, Service

_FAILED = 400
"""The first status that is an error (RFC 9110 §15)."""
_NOT_SENT = frozenset({"stream_usage", "use_responses_api", "stop_sequences"})
"""What a model is constructed with, and does not say of its calls."""


@dataclass(slots=True)
class Answered:
    """An answer.

    Args:
        params: The parameters of the call, as callbacks would be told.
        result: What the model returned.
        chunks: What it streamed, each encoded when it came.
        error: What it raised.
        loss: What is lost, and why.
    """

    params: dict[str, Any]
    result: ChatResult | None = None
    chunks: list[Any] | None = None
    error: Exception | None = None
    loss: str = ""

    def record(self, crossing: Crossing) -> None:
        """Record it as the outcome of a crossing."""
        if self.chunks is not None and (self.chunks or self.error is None):
            usage = CHAT.usage(self.result) if self.result is not None else None
            crossing.streamed(self.chunks, "raised" if self.error is not None else "exhausted", self.error, usage)
        elif self.error is not None:
            crossing.raised(self.error)
        else:
            crossing.returned(self.result)

    def handed_on(self, output_version: str | None) -> AIMessage | None:
        """Return the message that the framework made of it for the program, if it did.

        Args:
            output_version: What the model was constructed with.
        """
        if self.chunks:
            codec = value_codec()
            return handed_on_stream([codec.decode(chunk) for chunk in self.chunks], output_version)
        if self.result is None or not self.result.generations:
            return None
        return handed_on(self.result.generations[0].message, output_version)


def answered(exchange: Exchange, service: Service, asked: Asked, options: Options) -> Answered:
    """Return what a model makes of a recorded answer.

    Args:
        exchange: The recording.
        service: The service that it is of.
        asked: What was asked.
        options: What the user says of the program.

    Raises:
        NotImportableError: If the model cannot be asked like that, or nothing can be made of the answer.
        UnrecordableValueError: If a chunk has no codec.
    """
    cls = class_named(service.package, service.name)
    if cls is None:
        return _parsed(exchange, service, asked)
    settings = {**service.connection(exchange), **asked.settings}
    refused = f"{service.name} cannot be asked like that"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a model that is deprecated by now: it was asked long ago
        try:
            model, wire = model_on_wire(cls, service.sdk, exchange, settings, options.model_options)
            params = invocation_params(as_constructed(model, options.model_options), None, asked.kwargs)
        except (TypeError, ValueError) as error:
            raise NotImportableError(f"{refused}: {error}") from error
        found = _ask(model, asked, params)
    if not wire.sent:
        raise NotImportableError(f"{refused}: {found.error}") from found.error
    differs = difference(wire.sent, exchange.json or {}, renamed=service.sdk == "openai")
    if differs:
        found.loss = (
            f"{service.name} cannot be asked for what was sent: today it would send another `{differs}`, "
            "so this may be the answer to another request"
        )
    return found


def _ask(model: Any, asked: Asked, params: dict[str, Any]) -> Answered:
    """Ask the model, whose answer is the recorded one."""
    found, codec = Answered(params), value_codec()
    try:
        if not asked.streamed:
            found.result = model._generate(list(asked.messages), **asked.kwargs)
            return found
        found.chunks = []
        for chunk in model._stream(list(asked.messages), **asked.kwargs):
            found.chunks.append(codec.encode(chunk))
    except UnrecordableValueError:
        raise
    except Exception as error:  # noqa: BLE001 - what a provider raises is the outcome
        found.error = error
        return found
    if found.chunks:
        found.result = join_chunks([codec.decode(chunk) for chunk in found.chunks])
    return found


def _parsed(exchange: Exchange, service: Service, asked: Asked) -> Answered:
    """Return what this package itself makes of an answer, where that of the provider is not there."""
    distribution = service.package.replace("_", "-")
    if exchange.status >= _FAILED:
        raise NotImportableError(
            f"it failed with the status {exchange.status}, and {distribution} is not installed here to raise its error"
        )
    params = {key: value for key, value in (asked.settings | asked.kwargs).items() if key not in _NOT_SENT}
    if service.sdk == "anthropic":
        params |= {"model_kwargs": {}, "max_retries": 2}  # as ChatAnthropic says of each call
    loss = f"{distribution} is not installed here: metadata, chunks and rare parts of the answer are not as it has them"
    return Answered(params, result=parsed_answer(exchange), loss=loss)

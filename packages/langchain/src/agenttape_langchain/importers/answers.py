"""Recorded answers as LangChain's models return them: the provider's own package parses each."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult

from agenttape_core.errors import UnrecordableValueError
from agenttape_core.integration import ExecutedCall, value_codec
from agenttape_core.integration.importing import Exchange, NotImportableError, Options, provider_class
from agenttape_langchain._compat import invocation_params
from agenttape_langchain.chat_models import CHAT
from agenttape_langchain.codec import join_chunks
from agenttape_langchain.importers.clients import as_constructed, model_on_wire
from agenttape_langchain.importers.requests import ModelCall
from agenttape_langchain.importers.services import Service

_BLOCKS = "v1"
"""The `output_version` for which the framework turns the content of messages into blocks."""


@dataclass(slots=True)
class Answer:
    """The answer to a call of a model.

    Args:
        params: The parameters of the call, as callbacks receive them.
        result: The returned result.
        chunks: The streamed chunks, each encoded when it came.
        error: The raised error.
        loss: The lost parts, and the reason; empty if there are none.
    """

    params: dict[str, Any]
    result: ChatResult | None = None
    chunks: list[Any] | None = None
    error: Exception | None = None
    loss: str = ""

    def record(self, crossing: ExecutedCall) -> None:
        """Record it as the outcome of a crossing."""
        if self.chunks is not None and (self.chunks or self.error is None):
            usage = CHAT.usage(self.result) if self.result is not None else None
            crossing.streamed(self.chunks, "raised" if self.error is not None else "exhausted", self.error, usage)
        elif self.error is not None:
            crossing.raised(self.error)
        else:
            crossing.returned(self.result)

    def message(self, output_version: str | None) -> AIMessage | None:
        """Return the message that the program got, if it got one.

        Args:
            output_version: The `output_version` that the model was constructed with.
        """
        if self.chunks:
            codec = value_codec()
            return _streamed_message([codec.decode(chunk) for chunk in self.chunks], output_version)
        if self.result is None or not self.result.generations:
            return None
        return _returned_message(self.result.generations[0].message, output_version)


def answer_of(exchange: Exchange, service: Service, call: ModelCall, options: Options) -> Answer:
    """Return the answer that a model makes of a recorded response.

    Args:
        exchange: The recording.
        service: The service that it is of.
        call: The call of the model.
        options: The user's knowledge of the program.

    Raises:
        NotImportableError: If the provider's package is not installed, or its model cannot make such a call.
        UnrecordableValueError: If a chunk has no codec.
    """
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


def _made(model: Any, call: ModelCall, params: dict[str, Any]) -> Answer:
    """Call the model, whose client gets the recorded response."""
    answer, codec = Answer(params), value_codec()
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

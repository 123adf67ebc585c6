"""Calls of LLMs, read back from what went over the wire: the parts that all services share."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from llama_index.core.base.llms.types import (
    ChatMessage,
    ContentBlock,
    ImageBlock,
    MessageRole,
    TextBlock,
    ToolCallBlock,
)

from agenttape_core.integration.importing import EarlierAnswers, NotImportableError

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A call of an LLM."""

    messages: list[ChatMessage]  # the conversation
    kwargs: dict[str, Any] = field(default_factory=dict)  # the other arguments of the call: tools, response format
    settings: dict[str, Any] = field(default_factory=dict)  # arguments that its LLM was constructed with
    streamed: bool = False  # whether the answer came as a stream
    prompt: str | None = None  # the prompt, if it is a call of `complete`
    worked_out: Collection[str] = ()  # the settings that the class works out itself where it is not given them

    def as_given(self) -> Iterator[ModelCall]:
        """Yield the calls that may have been sent this way: without the values that the class computes, and in full."""
        left_out = self.settings.keys() & {*self.worked_out}
        if left_out:
            yield replace(self, settings={key: item for key, item in self.settings.items() if key not in left_out})
        yield self

    @property
    def method(self) -> str:
        """The leaf method of the LLM that was called."""
        name = "chat" if self.prompt is None else "complete"
        return f"stream_{name}" if self.streamed else name

    @property
    def question(self) -> Any:
        """The argument of that method."""
        return list(self.messages) if self.prompt is None else self.prompt

    def completing(self) -> ModelCall:
        """Return the call of `complete` that looks the same over the wire; this one, if there is none."""
        message = self.messages[0] if len(self.messages) == 1 else None
        is_plain = message is not None and message.role == MessageRole.USER and not message.additional_kwargs
        if message is None or not is_plain or {*map(type, message.blocks)} != {TextBlock}:
            return self
        return replace(self, prompt=_text(message))


class History(EarlierAnswers[ChatMessage]):
    """The answers that were imported so far: an agent sends them back, and means the same messages."""

    def add(self, message: ChatMessage) -> None:
        """Add an answer."""
        ids = [str(call.tool_call_id) for call in _calls(message)]
        self.note(message, ids, _text(message), has_calls=bool(ids))


def _calls(message: ChatMessage) -> list[ToolCallBlock]:
    return [block for block in message.blocks if isinstance(block, ToolCallBlock)]


def _text(message: ChatMessage) -> str:
    return "".join(block.text for block in message.blocks if isinstance(block, TextBlock))


def assistant(text: str, calls: Iterable[tuple[str, str, Any]], history: History) -> ChatMessage:
    """Return the message of an LLM: an earlier answer, if it equals one.

    `calls` has the id, name and arguments of its tool calls; `history` has the answers before it.
    """
    calls = list(calls)
    earlier = history.find([call_id for call_id, *_ in calls], text)
    if earlier is not None:
        return earlier
    blocks: list[ContentBlock] = [TextBlock(text=text)] if text or not calls else []
    blocks += [ToolCallBlock(tool_call_id=i, tool_name=name, tool_kwargs=args) for i, name, args in calls]
    return ChatMessage(role=MessageRole.ASSISTANT, blocks=blocks)


def tool_result(call_id: str, content: Any) -> ChatMessage:
    """Return the message that answers a tool call."""
    return ChatMessage(role=MessageRole.TOOL, content=content, additional_kwargs={"tool_call_id": call_id})


def image(url: str, detail: Any = None) -> ImageBlock:
    """Return an image from its URL, which may hold its data."""
    data = _DATA_URL.fullmatch(url)
    if data is None:
        return ImageBlock(url=url, detail=detail)
    return image_of(data[1], data[2], detail)


def image_of(media_type: str, data: str, detail: Any = None) -> ImageBlock:
    """Return an image from its data in base64. Raises `NotImportableError` if it isn't base64."""
    try:
        return ImageBlock(image=base64.b64decode(data, validate=True), image_mimetype=media_type, detail=detail)
    except (ValueError, binascii.Error):
        raise NotImportableError("an image in its request is not base64") from None


def without(request: Mapping[str, Any], *own: str) -> dict[str, Any]:
    """Return the fields of a request that have a value, and aren't among those that are read separately."""
    return {key: value for key, value in request.items() if key not in own and value not in (None, [])}

"""Streams of responses: each holds everything so far, and is stored as the difference from the one before.

A chunk of a chat is `{"$chat_chunk": {"content": "...", "raw": {...}}}`, or `{"$chat_chunk": "..."}` if it only adds
text: `content` is the added text. Other fields are written if they differ from the previous chunk's, under `changes`
(see core's `schema.codecs.changes`) if that is shorter than the whole. The field `delta` is left out where it is the
added text, as it mostly is; where it is the whole text, as some LLMs have it, it is `{"$text": true}`. `$text_chunk` is
a chunk of a completion.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llama_index.core.base.llms.generic_utils import (
    chat_response_to_completion_response,
    completion_response_to_chat_response,
)
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse, MessageRole

from agenttape_core.integration import Plain, TypeCodec, value_codec
from agenttape_core.integration.codecs import NOTHING, OWN, Nested, advanced, at, changes, expect_dict, put
from agenttape_llamaindex.codec.responses import read_response, write_response

Response = ChatResponse | CompletionResponse
_WHOLE = {"$text": True}
_ASSISTANT = {"message": {"role": "assistant"}}


class ChatChunk:
    """A chunk of a chat on its way into a cassette, or out of one.

    `response` is the chunk itself, when it has just arrived; `before` is the stream before it, as plain data; `plain`
    is its form in the cassette.
    """

    __slots__ = ("before", "plain", "response")

    def __init__(self, response: Any = None, before: _State | None = None, plain: Plain = None) -> None:
        self.response = response
        self.before = before
        self.plain = plain


class TextChunk(ChatChunk):
    """A chunk of a completion."""

    __slots__ = ()


@dataclass(slots=True)
class _State:
    """A stream so far, as plain data."""

    plain: dict[str, Plain]


@dataclass(frozen=True, slots=True)
class Sort:
    """The chunks of chats or completions."""

    tag: str  # their tag in a file
    chunk: type[ChatChunk]  # their class
    response: type[Any]  # the class of the responses that they make up
    start: dict[str, Plain]  # the response before the first chunk, as plain data
    text: tuple[str, ...]  # the path of their text in a response

    def writer(self) -> Callable[[Any], ChatChunk]:
        """Return a function that makes chunks of the responses of a stream, one after the other."""
        return functools.partial(self.chunk, before=self._began())

    def _began(self) -> _State:
        return _State(dict(self.start))

    def reader(self) -> Callable[[ChatChunk], Any]:
        """Return a function that makes responses of the chunks of a stream, one after the other."""
        states: list[_State] = []

        def response(chunk: ChatChunk) -> Any:
            if chunk.response is not None:
                return self.converted(chunk.response)
            sort = TEXTS if type(chunk) is TextChunk else CHATS
            if not states:
                states.append(sort._began())
            states[0].plain = sort._after(states[0].plain, chunk.plain)
            return self.converted(read_response(sort.response, states[0].plain, value_codec().decode))

        return response

    def converted(self, response: Any) -> Any:
        """Return a response as one of this sort: a chat may be recorded as a completion, and a completion as a chat."""
        if self is CHATS and isinstance(response, CompletionResponse):
            return completion_response_to_chat_response(response).model_copy(update={"delta": response.delta})
        if self is TEXTS and isinstance(response, ChatResponse):
            return chat_response_to_completion_response(response)
        return response

    def join(self, chunks: list[ChatChunk]) -> Any:
        """Return the response that a stream amounts to: the one of its last chunk."""
        read, last = self.reader(), None
        for chunk in chunks:
            last = read(chunk)
        if last is None:
            if self.response is ChatResponse:
                return ChatResponse(message=ChatMessage(role=MessageRole.ASSISTANT))
            return CompletionResponse(text="")
        return last.model_copy(update={"delta": None}) if last.delta is not None else last

    def split(self, response: Any) -> list[ChatChunk]:
        """Return a stream of one chunk, with all of a response."""
        is_text = isinstance(response, CompletionResponse)
        text = response.text if is_text else response.message.content
        if response.delta is None:
            response = response.model_copy(update={"delta": text or ""})
        return [TextChunk(response) if is_text else ChatChunk(response)]

    def write(self, chunk: ChatChunk, nested: Nested) -> Plain:
        """Return the difference of a chunk from the one before."""
        if chunk.before is None:
            chunk.before = self._began()
        before, after = chunk.before.plain, write_response(chunk.response, nested)
        chunk.before.plain = after
        return self._new(before, after)

    def _new(self, before: dict[str, Plain], after: dict[str, Plain]) -> Plain:
        old, new = at(before, self.text), at(after, self.text)
        is_longer = type(new) is str and (old is NOTHING or (type(old) is str and new.startswith(old)))
        added = new[len(old) if type(old) is str else 0 :] if is_longer else ""
        body: dict[str, Plain] = {"content": added} if is_longer and (added or old is NOTHING) else {}
        before, after = dict(before), dict(after)
        if is_longer:
            before = put(before, self.text, new)
        before.pop("delta", None)
        delta = after.pop("delta", None)
        if delta != added:
            body["delta"] = dict(_WHOLE) if type(delta) is str and delta == new else delta
        for key in {**before, **after}:
            self._note(body, key, before.get(key, NOTHING), after.get(key, NOTHING))
        return body["content"] if body.keys() == {"content"} else body

    def _note(self, body: dict[str, Plain], key: str, old: Plain, new: Plain) -> None:
        change = changes(old, new)
        if change is NOTHING:
            return
        is_short = new is NOTHING or key == "message" or len(json.dumps(change)) < len(json.dumps(new))
        if is_short or key in OWN:
            body.setdefault("changes", {})[key] = change
        else:
            body[key] = new

    def _after(self, before: dict[str, Plain], plain: Plain) -> dict[str, Plain]:
        body = {"content": plain} if type(plain) is str else expect_dict(plain, self.tag)
        after = advanced(before, body, self.text)
        delta = body.get("delta", body.get("content") or "")
        after["delta"] = at(after, self.text) if delta == _WHOLE else delta
        return after

    def codec(self) -> TypeCodec:
        """Return the codec of the chunks."""
        return TypeCodec(
            self.tag,
            lambda value: type(value) is self.chunk,
            self.write,
            lambda plain, _: self.chunk(plain=plain),
        )


CHATS = Sort("$chat_chunk", ChatChunk, ChatResponse, _ASSISTANT, ("message", "content"))
TEXTS = Sort("$text_chunk", TextChunk, CompletionResponse, {}, ("text",))
"""The two sorts of streams."""

CODECS = (CHATS.codec(), TEXTS.codec())
"""The codecs of their chunks."""

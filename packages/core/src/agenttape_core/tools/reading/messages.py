"""Messages of requests and answers, in the form of OpenTelemetry's GenAI conventions.

https://github.com/open-telemetry/semantic-conventions-genai, `docs/gen-ai/gen-ai-spans.md`: a message is
`{"role": ..., "parts": [...]}`, and a part has a `type`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agenttape_core.errors import UnreadableValueError
from agenttape_core.locks import cached_property
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema.kinds import MODEL_KINDS
from agenttape_core.schema.readers import CallPiece, reader_of

if TYPE_CHECKING:
    from agenttape_core.schema import Interaction, Outcome

Parts = list[dict[str, Any]]

_TEXTS = ("text", "content", "reasoning", "thinking", "refusal")
_THOUGHTS = frozenset({"reasoning", "thinking"})
_CALLS = frozenset({"function_call", "tool_call", "tool_use"})
"""The kinds of blocks that a message repeats among its tool calls."""
_MEDIA = frozenset({"audio", "document", "file", "image", "image_url", "input_audio", "video"})
_ROLES = {"ai": "assistant", "AIMessageChunk": "assistant", "human": "user"}


def input_messages(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the messages of a request; its prompts as messages if it has no others."""
    messages = [message_of(message) for message in items_of(request.get("messages")) if isinstance(message, Mapping)]
    prompts = [{"role": "user", "parts": [_text(prompt)]} for prompt in items_of(request.get("prompts"))]
    return messages or prompts


def system_instructions(request: Mapping[str, Any]) -> Parts:
    """Return the instructions of a request outside its messages."""
    for key in ("instructions", "system", "system_instruction"):
        if instructions := request.get(key):
            return list(_parts(instructions))
    return []


def tool_definitions(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the tools that a request offers, each with its `type` and `name`."""
    tools = [tool for tool in items_of(request.get("tools")) if isinstance(tool, Mapping)]
    flat = [{**tool, **inner} if isinstance(inner := tool.get("function"), Mapping) else dict(tool) for tool in tools]
    return [{"type": "function", **{key: item for key, item in tool.items() if key != "function"}} for tool in flat]


def message_of(message: Mapping[str, Any], role: str = "user") -> dict[str, Any]:
    """Return a message of a request or an answer. `role` is the role of a message that names none."""
    own_role = str(message.get("role") or message.get("type") or role)
    content = message.get("blocks", message.get("content"))
    if own_role == "tool":
        parts: Parts = [{"type": "tool_call_response", "id": message.get("tool_call_id"), "response": content}]
    else:
        parts = [*_parts(content), *map(_call, items_of(message.get("tool_calls")))]
    result = {"role": _ROLES.get(own_role, own_role), "parts": parts}
    return {**result, "name": message["name"]} if isinstance(message.get("name"), str) else result


def items_of(value: Any) -> list[Any]:
    """Return a list unchanged, and an empty list for any other value."""
    return value if isinstance(value, list) else []


def _parts(content: Any) -> Iterator[dict[str, Any]]:
    for block in content if isinstance(content, list) else [content]:
        if isinstance(block, Mapping):
            yield from _block(block)
        elif block not in (None, ""):
            yield _text(block)


def _block(block: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    kind = str(block.get("type", block.get("block_type", "text")))
    if kind in _MEDIA:
        yield _media(kind, block)
    elif kind in _CALLS and "tool_name" in block:  # LlamaIndex's blocks are not repeated among the tool calls
        yield _call({"id": block.get("tool_call_id"), "name": block["tool_name"], "args": block.get("tool_kwargs")})
    elif kind not in _CALLS:
        text = next((block[key] for key in _TEXTS if isinstance(block.get(key), str)), None)
        if text is None:
            yield {**block, "type": kind}
        else:
            yield {"type": "reasoning" if kind in _THOUGHTS else "text", "content": text}


def _media(kind: str, block: Mapping[str, Any]) -> dict[str, Any]:
    modality = {"image_url": "image", "input_audio": "audio", "file": "document"}.get(kind, kind)
    inner = block.get(kind, block.get("source"))  # Anthropic's is under `source`
    given = {**block, **inner} if isinstance(inner, Mapping) else dict(block)
    mime_type = given.get("mime_type") or given.get("media_type")
    url = given.get("url", inner if kind == "image_url" else None)
    known = {"modality": modality, **({"mime_type": mime_type} if mime_type else {})}
    if isinstance(url, str) and url.startswith("data:") and ";base64," in url:
        head, _, encoded = url.removeprefix("data:").partition(";base64,")
        return {"type": "blob", "modality": modality, "mime_type": head, "content": encoded}
    if isinstance(url, str):
        return {"type": "uri", **known, "uri": url}
    if isinstance(given.get("file_id"), str):
        return {"type": "file", **known, "file_id": given["file_id"]}
    data = next((given[key] for key in ("base64", "data", kind) if isinstance(given.get(key), str)), None)
    return {**block, "type": kind} if data is None else {"type": "blob", **known, "content": data}


def _call(call: Any) -> dict[str, Any]:
    given = call if isinstance(call, Mapping) else {}
    arguments = given.get("args", given.get("arguments"))
    return {"type": "tool_call", "id": given.get("id"), "name": str(given.get("name", "")), "arguments": arguments}


def _text(value: Any) -> dict[str, Any]:
    return {"type": "text", "content": value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}


# -- The answer of a model, with its provider's metadata, whichever framework recorded it.


_FURTHER_TEXTS = ("response", "delta")  # keys of a text in answers that aren't messages, such as a function's


class ToolCall(NamedTuple):
    """A tool call that a model requested."""

    name: str
    args: Any


class Answer:
    """The answer of a model. `outcome` is of an interaction of a kind in `MODEL_KINDS`."""

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome

    @cached_property
    def value(self) -> Any:
        """The recorded value, of a stream as if it had not been streamed."""
        return joined(self._outcome)

    @cached_property
    def messages(self) -> list[dict[str, Any]]:
        """The answers, as `message_of` returns them; more than one if several were requested."""
        if self.value == "":  # a stream without chunks
            return []
        if found := _messages_in(self.value):
            return found
        text = _further_text(self.value)
        return [message_of({"content": text}, "assistant")] if text else []

    @cached_property
    def text(self) -> str:
        """Its text; empty if it has none."""
        return "".join(map(text_of, self.messages))

    @cached_property
    def tool_calls(self) -> list[ToolCall]:
        """The tool calls in it."""
        parts = [part for message in self.messages for part in message["parts"] if part["type"] == "tool_call"]
        return [ToolCall(part["name"], part["arguments"]) for part in parts if part["name"]]

    @cached_property
    def finish_reasons(self) -> list[str]:
        """The reason for the end of each answer."""
        whole = bare(self.value)
        return [reason for answer in _answers_in(whole) for reason in _reasons(answer)] or list(_reasons(whole))

    @property
    def model(self) -> str | None:
        """The model that answered, as its provider calls it."""
        return _first(self._sources, "model_name", "model")

    @property
    def id(self) -> str | None:
        """The provider's id of the answer."""
        tag = next(iter(self.value)) if isinstance(self.value, Mapping) and len(self.value) == 1 else ""
        return _first(self._sources, "id", skip=reader_of(tag).local_ids)

    @property
    def provider(self) -> str | None:
        """The provider, as the framework calls it."""
        return _first(self._sources, "model_provider", "ls_provider")

    @cached_property
    def tokens(self) -> dict[str, int]:
        """Tokens of special kinds, by the last words of their attribute of the GenAI conventions."""
        counted = ((name, self._count(paths)) for name, paths in _TOKENS.items())
        found = {name: count for name, count in counted if count is not None}
        if apart := sum(self._written(lifetime) for lifetime in ("5m", "1h")):  # LangChain's total leaves these out
            found[_WRITTEN] = max(found.get(_WRITTEN, 0), apart)
        return found

    @property
    def tokens_written_for_long(self) -> int:
        """Tokens that were written into the prompt cache for an hour, which costs more."""
        return self._written("1h")

    def _written(self, lifetime: str) -> int:
        key = f"ephemeral_{lifetime}_input_tokens"
        return self._count([(details, key) for details in _WRITTEN_FOR]) or 0

    def _count(self, paths: Iterable[tuple[str, ...]]) -> int | None:
        """Return the first count at one of the paths; most answers hold none of them."""
        found = (_at(source, path) for path in paths for source in self._sources if path[0] in source)
        return next((count for count in found if type(count) is int), None)

    @property
    def tokens_apart(self) -> int:
        """Tokens of the request that its provider doesn't count among the input tokens: Anthropic's cached ones."""
        if any(_at(source, path) is not None for path in _INCLUDED for source in self._sources):
            return 0
        return sum(self._count([(key,)]) or 0 for key in _APART)

    @cached_property
    def _sources(self) -> list[Mapping[str, Any]]:
        whole = bare(self.value)
        return [source for answer in [*_answers_in(whole), whole] for source in _sources(answer)]


def last_answer(interactions: Iterable[Interaction]) -> str:
    """Return the text of the last answer of a model; empty if there is none."""
    answers = [item for item in interactions if item.kind in MODEL_KINDS and item.parent is None]
    return Answer(answers[-1].outcome).text if answers else ""


def joined(outcome: Outcome) -> Any:
    """Return the value of an outcome, of a stream as if it had not been streamed: see `joined_chunks`."""
    return outcome.value if outcome.chunks is None else joined_chunks(outcome.chunks)


def joined_chunks(chunks: Sequence[Any]) -> Any:
    """Return the value that the chunks of a stream amount to.

    It is their text if no installed integration has registered how they are joined, or if they do not fit each other.
    """
    tags = {_tag_of(chunk) for chunk in chunks}
    bodies = [body for body in map(_body_of, chunks) if isinstance(body, Mapping)]
    if len(tags) == 1 and len(bodies) == len(chunks) and (join := reader_of(tags.pop()).join) is not None:
        try:
            return join(bodies)
        except UnreadableValueError:
            return _text_of_chunks(chunks)
    return _text_of_chunks(chunks)


def pieces_of(chunk: Any) -> list[str | CallPiece]:
    """Return what one chunk of a stream brings: a text, and pieces of tool calls."""
    text, body, read = _text_of(chunk), _body_of(chunk), reader_of(_tag_of(chunk)).calls
    calls = list(read(body)) if read is not None and isinstance(body, Mapping) else []
    return [text, *calls] if text else [*calls]


def bare(value: Any) -> Any:
    """Return a value without its tag: the fields of a framework's object, or the value itself."""
    if not isinstance(value, dict) or len(value) != 1:
        return value
    [(tag, body)] = value.items()
    if not tag.startswith("$"):
        return value
    if isinstance(body, list) and body and isinstance(body[-1], Mapping):  # of an object: its class, then its fields
        return body[-1]
    return body


def _tag_of(chunk: Any) -> str:
    tag = next(iter(chunk), "") if isinstance(chunk, Mapping) and len(chunk) == 1 else ""
    return tag if tag.startswith("$") else ""


def _body_of(chunk: Any) -> Any:
    body = next(iter(chunk.values())) if _tag_of(chunk) else chunk
    return {"content": body} if isinstance(body, str) else body


def _text_of_chunks(chunks: Iterable[Any]) -> str:
    return "".join(map(_text_of, chunks))


def _text_of(value: Any) -> str:
    """Return the text of an answer, or of one chunk of it."""
    messages = _messages_in(value)
    return "".join(map(text_of, messages)) if messages else _further_text(value)


def text_of(message: Mapping[str, Any]) -> str:
    """Return the text of a message, as `message_of` returns it."""
    texts = [part.get("content") for part in message["parts"] if part["type"] == "text"]
    return "".join(text for text in texts if isinstance(text, str))


def _further_text(value: Any) -> str:
    fields = bare(value)
    if not isinstance(fields, Mapping):
        return ""
    return next((_text_of(fields[key]) for key in _FURTHER_TEXTS if key in fields), "")


def _messages_in(value: Any) -> list[dict[str, Any]]:
    answers = map(bare, _answers_in(bare(value)))
    return [message for answer in answers if (message := _message_in(answer)) is not None]


def _answers_in(whole: Any) -> Iterator[Any]:
    """Yield the answers of a value that may hold several."""
    generations = whole.get("generations") if isinstance(whole, Mapping) else None
    if not isinstance(generations, list):
        yield whole
        return
    for generation in generations:
        yield from map(bare, generation if isinstance(generation, list) else [generation])


def _message_in(answer: Any) -> dict[str, Any] | None:
    message = bare(answer.get("message", answer.get("text", answer))) if isinstance(answer, Mapping) else answer
    if isinstance(message, str) or _are_blocks(message):
        return message_of({"content": message}, "assistant")
    is_message = isinstance(message, Mapping) and {"content", "blocks", "tool_calls"} & message.keys()
    return message_of(message, "assistant") if is_message else None


def _are_blocks(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, str | Mapping) for item in value)


def _sources(answer: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the places where a provider's words about an answer may stand, the likeliest first."""
    if not isinstance(answer, Mapping):
        return
    message = bare(answer.get("message"))
    inner = [message.get("response_metadata"), message.get("usage_metadata")] if isinstance(message, Mapping) else []
    further = (answer.get(key) for key in ("llm_output", "generation_info", "raw", "additional_kwargs"))
    places = [*inner, *further, message, answer]
    for place in map(bare, places):
        if isinstance(place, Mapping):
            yield place
            for key in ("usage", "token_usage"):
                if isinstance(used := bare(place.get(key)), Mapping):
                    yield used


def _reasons(answer: Any) -> Iterator[str]:
    found = [_first([source], "finish_reason", "stop_reason", "done_reason") for source in _sources(answer)]
    choices = [bare(choice) for source in _sources(answer) for choice in items_of(source.get("choices"))]
    found += [_first([choice], "finish_reason") for choice in choices if isinstance(choice, Mapping)]
    yield from list(filter(None, found))[:1]


def _first(sources: list[Mapping[str, Any]], *keys: str, skip: tuple[str, ...] = ()) -> str | None:
    texts = (source.get(key) for source in sources for key in keys)
    return next((text for text in texts if isinstance(text, str) and text and not text.startswith(skip)), None)


_INCLUDED = (("input_token_details",), ("prompt_tokens_details",), ("input_tokens_details",))
"""The keys under which the counts of cached tokens are details of the input tokens."""
_WRITTEN = "cache_creation.input_tokens"
_WRITTEN_FOR = ("input_token_details", "cache_creation")  # the keys of the counts by lifetime: LangChain's, Anthropic's
_APART = ("cache_read_input_tokens", "cache_creation_input_tokens")
_TOKENS = {
    "cache_read.input_tokens": (("input_token_details", "cache_read"), ("prompt_tokens_details", "cached_tokens"),
                                ("input_tokens_details", "cached_tokens"), ("cache_read_input_tokens",),
                                ("prompt_cache_hit_tokens",), ("cached_content_token_count",)),
    _WRITTEN: (("input_token_details", "cache_creation"), ("cache_creation_input_tokens",),
                                    ("prompt_tokens_details", "cache_write_tokens")),
    "reasoning.output_tokens": (("output_token_details", "reasoning"),
                                ("completion_tokens_details", "reasoning_tokens")),
}  # fmt: skip
"""The paths of counts of special tokens, in the words of frameworks and providers."""


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        value = bare(value)
        value = value.get(key) if isinstance(value, Mapping) else None
    return value

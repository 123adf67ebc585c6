"""Requests to models over plain HTTP, read as calls of models: of OpenAI, Anthropic, Google, Ollama and all like them.

A program that uses a provider's package by itself sends bytes, and its recording has the kind `http`. The bodies hold
the same facts as a framework's call: the model, the messages, the tokens and the answer.

Forms: https://platform.openai.com/docs/api-reference, https://docs.anthropic.com/en/api/messages,
https://ai.google.dev/api/generate-content, https://github.com/ollama/ollama/blob/main/docs/api.md
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

from agenttape_core.errors import UnreadableValueError
from agenttape_core.schema import MODEL_KINDS, Interaction, Outcome, Usage, model_path
from agenttape_core.storage import Cassette
from agenttape_core.tools.reading.messages import items_of

MODELS = MODEL_KINDS | {"embeddings"}
"""The kinds of calls of models, which are billed by the token."""
UNREADABLE = (AttributeError, LookupError, RecursionError, TypeError, UnreadableValueError, ValueError)
"""The errors that reading data in no known form raises."""
_MODEL_IN_PATH = re.compile(r"/models/([^/:]+):\w+$")
_MEDIA = {"input_image": "image_url", "input_file": "file"}
_FAILED = 400
_EMBEDDINGS = ("embeddings", "embed", "embedContent", "batchEmbedContents", "predict")
_INPUT = ("prompt_tokens", "input_tokens", "promptTokenCount", "prompt_eval_count")
_OUTPUT = ("completion_tokens", "output_tokens", "candidatesTokenCount", "eval_count")


def path_of_model(item: Interaction) -> str:
    """Return the path of a request to a model over plain HTTP; empty for any other call."""
    return model_path(item.request)[0] if item.kind == "http" else ""


def calls_in(cassette: Cassette) -> Iterator[Interaction]:
    """Yield the calls of a cassette, with requests to models over plain HTTP as calls of models; see `model_call`."""
    models = {row.number for row in cassette.entries if row.kind in MODELS}
    for item in cassette.interactions():
        yield model_call(item, models)


def model_call(item: Interaction, models: Container[int] = ()) -> Interaction:
    """Return a request to a model over plain HTTP as the call of a model: its kind, messages, usage and answer.

    Any other call, one whose answer is an error, and one in a form that isn't known are returned unchanged. So is one
    that was made inside the call of a model, if `models` has the numbers of these: that call counts already.
    """
    path = path_of_model(item) if item.parent not in models else ""
    try:
        return _as_model_call(item, path) if path else item
    except UNREADABLE:
        return item


def _as_model_call(item: Interaction, path: str) -> Interaction:
    status, text = response_of(item.outcome)
    body = _body(text) if status < _FAILED else None
    if body is None:
        return item
    kind, request = request_to_model(path, given_by(item.request))
    request["model"] = request["model"] or str(body.get("model") or body.get("modelVersion") or "")
    usage = _usage(body)
    update: dict[str, Any] = {"name": f"{item.name}{path}", "request": request}
    if kind == "embeddings":
        vectors = _vectors(body)
        if vectors is None:  # such as images, which Vertex predicts, too
            return item
        outcome = Outcome(status="returned", value=vectors, usage=usage)
        return item.model_copy(update={**update, "kind": "embeddings", "outcome": outcome})
    answer = _answer(body)
    if answer is None:
        return item
    outcome = Outcome(status="returned", value={**_facts(body), **answer}, usage=usage)
    return item.model_copy(update={**update, "kind": "chat", "outcome": outcome})


def is_refused(item: Interaction) -> bool:
    """Return whether a call is a request over HTTP that was answered with an error: no model has read it."""
    return item.kind == "http" and response_of(item.outcome)[0] >= _FAILED


def given_by(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a request gives the model: its fields, and those of the body of an HTTP request."""
    body = request.get("body")
    return {**body, **request} if isinstance(body, Mapping) else request


def request_to_model(path: str, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the kind of the call that a request to a path is, and its request, made of the values for the model."""
    named = _MODEL_IN_PATH.search(path)
    model = {"model": str(given.get("model") or (named[1] if named else ""))}
    if path.rstrip("/").rpartition("/")[2].rpartition(":")[2] in _EMBEDDINGS:
        return "embeddings", {**model, "input": _embedded(given)}
    return "chat", {**model, **_asked(given)}


def _embedded(given: Mapping[str, Any]) -> Any:
    """Return the texts of a request for embeddings, also of Google's, which has a content for each."""
    if instances := items_of(given.get("instances")):  # Vertex
        return [each.get("content") for each in instances]
    requests = [each for each in items_of(given.get("requests")) if isinstance(each, Mapping)]
    contents = [each["content"] for each in (*requests, given) if isinstance(each.get("content"), Mapping)]
    if not contents:
        return given.get("input", given.get("prompt", given.get("content")))
    return ["".join(str(part.get("text", "")) for part in items_of(content.get("parts"))) for content in contents]


def _vectors(body: Mapping[str, Any]) -> Any:
    """Return the vectors of an answer: OpenAI and Google have each in an object, Ollama doesn't; `None` without any."""
    if predictions := items_of(body.get("predictions")):  # Vertex
        vectors = [each.get("embeddings") for each in predictions]
        return vectors if all(isinstance(each, Mapping) for each in vectors) else None
    found = next((body[key] for key in ("data", "embeddings", "embedding") if key in body), None)
    return [found] if isinstance(found, Mapping) else found


# -- Responses.


def pieces_in(outcome: Outcome) -> list[str]:
    """Return the texts of the events in which a model streamed its answer over HTTP; empty if it isn't a stream."""
    text = response_of(outcome)[1]
    return [] if _json(text) is not None else [piece for each in _events(text) if (piece := _piece(each))]


def _piece(event: Mapping[str, Any]) -> str:
    delta = event.get("delta")
    if event.get("type") == "response.output_text.delta":
        return str(delta)
    if isinstance(delta, Mapping):  # Anthropic's
        return str(delta.get("text") or "")
    answer = None if event.get("type") else _answer(_merged([event]) or {})
    content = answer["message"].get("content") if answer is not None else ""
    texts = (each.get("text") for each in content) if isinstance(content, list) else [content]
    return "".join(text for text in texts if isinstance(text, str))


def response_of(outcome: Outcome) -> tuple[int, str]:
    """Return the status of a response over HTTP and the text of its body."""
    chunks = outcome.chunks if outcome.chunks is not None else [outcome.value]
    head = chunks[0] if chunks and isinstance(chunks[0], Mapping) else {}
    texts = (_decoded(chunk.get("text")) for chunk in chunks if isinstance(chunk, Mapping))
    whole = "".join(text for text in texts if isinstance(text, str))
    status = head.get("status")
    if not whole.isascii():  # bytes that aren't UTF-8 are lone surrogates
        whole = whole.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return status if isinstance(status, int) else _FAILED, whole


def _decoded(text: Any) -> Any:
    if isinstance(text, str):
        return text
    from agenttape_core.schema import PYTHON_VALUES  # few bodies are damaged

    return PYTHON_VALUES.decode(text)


def _body(text: str) -> dict[str, Any] | None:
    """Return the body of a response as one object, whether it was streamed or not; `None` if it isn't a known form."""
    whole = _json(text)
    if isinstance(whole, Mapping):
        return dict(whole)
    if isinstance(whole, list):  # Google's stream without server-sent events
        return _merged(each for each in whole if isinstance(each, Mapping))
    return _merged(_events(text))


def _events(text: str) -> Iterator[Mapping[str, Any]]:
    """Yield the events of a stream: those that a server sends, or lines of JSON."""
    lines = [line.removeprefix("data:").strip() for line in text.splitlines() if line.startswith(("data:", "{"))]
    yield from (each for each in map(_json, lines) if isinstance(each, Mapping))


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _merged(events: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the object that the events of a stream amount to."""
    found: dict[str, Any] = {}
    for event in events:
        kind = str(event.get("type", ""))
        if kind in {"response.completed", "response.incomplete", "response.failed"}:
            return dict(event.get("response") or {})
        if kind == "message_start":
            found = {**(event.get("message") or {}), "content": []}
        elif kind == "content_block_start":
            found.setdefault("content", []).append(dict(event.get("content_block") or {}))
        elif kind == "content_block_delta" and found.get("content"):
            _add_delta(found["content"][-1], event.get("delta") or {})
        elif kind == "message_delta":
            found.update(event.get("delta") or {})
            found["usage"] = {**(found.get("usage") or {}), **(event.get("usage") or {})}
        else:
            _add_chunk(found, event)
    return found or None


def _add_delta(block: dict[str, Any], delta: Mapping[str, Any]) -> None:
    """Add a piece of a block of Anthropic's."""
    for key in ("text", "thinking"):
        if isinstance(delta.get(key), str):
            block[key] = f"{block.get(key) or ''}{delta[key]}"
    if isinstance(delta.get("partial_json"), str):
        block["partial"] = f"{block.get('partial', '')}{delta['partial_json']}"


def _add_chunk(found: dict[str, Any], event: Mapping[str, Any]) -> None:
    """Add a chunk of OpenAI's chat completions, of Google's or Ollama's."""
    for key, value in event.items():
        if key == "choices":
            choices = found.setdefault("choices", [{"message": {"content": ""}}])
            for choice in (each for each in items_of(value) if not each.get("index")):
                _add_choice(choices[0], choice)
        elif key == "candidates":
            first: Mapping[str, Any] = next(iter(items_of(value)), {})
            mine = found.setdefault("candidates", [{"content": {"parts": []}}])[0]
            mine["content"]["parts"] += items_of((first.get("content") or {}).get("parts"))
            mine.update({name: item for name, item in first.items() if name != "content"})
        elif key == "message" and isinstance(value, Mapping):
            mine = found.setdefault("message", {"content": ""})
            mine["content"] += str(value.get("content") or "")
            mine.setdefault("tool_calls", []).extend(items_of(value.get("tool_calls")))
        elif key == "response" and isinstance(value, str):
            found[key] = f"{found.get(key, '')}{value}"
        elif value is not None:
            found[key] = value


def _add_choice(mine: dict[str, Any], choice: Mapping[str, Any]) -> None:
    delta, message = choice.get("delta") or {"content": choice.get("text")}, mine["message"]
    message["content"] += delta.get("content") or ""
    for call in items_of(delta.get("tool_calls")):
        calls = message.setdefault("tool_calls", [])
        at, function = call.get("index"), call.get("function") or {}
        key = call.get("id")
        begun = [each for each in calls if each["index"] == at and (not key or each["id"] in {None, key})]
        if not begun:
            calls += (begun := [{"index": at, "id": None, "function": {"name": "", "arguments": ""}}])
        begun[-1]["id"] = key or begun[-1]["id"]
        for key in ("name", "arguments"):
            begun[-1]["function"][key] += function.get(key) or ""
    if choice.get("finish_reason"):
        mine["finish_reason"] = choice["finish_reason"]


def _usage(body: Mapping[str, Any]) -> Usage | None:
    if predictions := items_of(body.get("predictions")):  # Vertex counts each text
        counted: list[Any] = [(each["embeddings"].get("statistics") or {}).get("token_count") for each in predictions]
        return None if None in counted else Usage(input_tokens=round(sum(counted)))
    for holder in (body.get("usage"), body.get("usageMetadata"), body):
        if isinstance(holder, Mapping):
            counts = [
                next((holder[key] for key in keys if type(holder.get(key)) is int), None) for keys in (_INPUT, _OUTPUT)
            ]
            if any(count is not None for count in counts):
                return Usage(input_tokens=counts[0], output_tokens=counts[1])
    return None


def _facts(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a provider says of an answer, in the words in which the answers of frameworks have it."""
    usage = body.get("usage") or body.get("usageMetadata")
    named = {"model": body.get("model") or body.get("modelVersion"), "id": body.get("id") or body.get("responseId")}
    if isinstance(usage, Mapping):
        cached = usage.get("cachedContentTokenCount")
        named["usage"] = {**usage, "cached_content_token_count": cached} if cached is not None else dict(usage)
    return {key: value for key, value in named.items() if value}


def _answer(body: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the message of an answer, and the reason for its end; `None` if it has none in a known form."""
    choices, candidates = items_of(body.get("choices")), items_of(body.get("candidates"))
    nothing = {"role": "assistant", "content": ""}
    reason = body.get("stop_reason") or body.get("done_reason")
    message: Mapping[str, Any] | None = None
    if choices:
        message = _from_openai(choices[0].get("message") or {"content": choices[0].get("text")})
        reason = choices[0].get("finish_reason")
    elif candidates:
        message = next(_from_google(candidates[0].get("content") or {}), nothing)
        reason = candidates[0].get("finishReason")
    elif isinstance(body.get("output"), list):
        message, reason = _joined(map(_from_responses, body["output"])), body.get("status")
    elif isinstance(body.get("content"), list):
        message = next(_from_anthropic({"role": "assistant", **body}), nothing)
    elif isinstance(body.get("message"), Mapping):
        message = _from_openai(body["message"])
    elif isinstance(body.get("response"), str):
        message = {**nothing, "content": body["response"]}
    return None if message is None else {"message": message, "finish_reason": reason}


# -- Requests and messages.


def _asked(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the messages, the instructions and the tools of a request."""
    found: list[dict[str, Any]] = []
    for message in items_of(given.get("messages")):
        if isinstance(message, Mapping):
            found += _from_anthropic(message) if _has_tool_blocks(message) else [_from_openai(message)]
    for item in items_of(given.get("input")):
        found.append(_from_responses(item) if isinstance(item, Mapping) else {"role": "user", "content": item})
    for content in items_of(given.get("contents")):
        found += _from_google(content) if isinstance(content, Mapping) else []
    for key in ("input", "prompt"):
        if isinstance(given.get(key), str):
            found.append({"role": "user", "content": given[key]})
    more = {key: given[key] for key in ("instructions", "system", "tools") if given.get(key)}
    if isinstance(system := given.get("systemInstruction"), Mapping):
        more["system"] = "".join(str(part.get("text", "")) for part in items_of(system.get("parts")))
    return {**more, "messages": found}


def _from_openai(message: Mapping[str, Any]) -> dict[str, Any]:
    calls = [_call(call.get("id"), call.get("function") or call) for call in items_of(message.get("tool_calls"))]
    rest = {key: value for key, value in message.items() if key != "tool_calls"}
    return {"role": "assistant", **rest, **({"tool_calls": calls} if calls else {})}


def _from_responses(item: Mapping[str, Any]) -> dict[str, Any]:
    kind = item.get("type", "message")
    if kind in {"function_call", "custom_tool_call"}:
        given = {"name": item.get("name"), "arguments": item.get("arguments", item.get("input"))}
        return {"role": "assistant", "content": "", "tool_calls": [_call(item.get("call_id"), given)]}
    if kind in {"function_call_output", "custom_tool_call_output"}:
        return {"role": "tool", "tool_call_id": item.get("call_id"), "content": item.get("output")}
    if kind == "reasoning":
        texts = [str(each.get("text", "")) for each in items_of(item.get("summary"))]
        return {"role": "assistant", "content": [{"type": "reasoning", "text": "".join(texts)}]}
    content = item.get("content", "")
    if isinstance(content, list):
        content = [
            {**each, "type": "text" if isinstance(each.get("text"), str) else _MEDIA.get(str(kind), kind)}
            for each in content
            for kind in [each.get("type")]
        ]
    return {"role": str(item.get("role", "assistant")), "content": content}


def _has_tool_blocks(message: Mapping[str, Any]) -> bool:
    blocks = (block for block in items_of(message.get("content")) if isinstance(block, Mapping))
    return any(block.get("type") in {"tool_use", "tool_result"} for block in blocks)


def _from_anthropic(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the messages of one whose blocks may be requests for tools and their results."""
    blocks = [block for block in items_of(message.get("content")) if isinstance(block, Mapping)]
    calls = [_call(block.get("id"), {**block, "arguments": block.get("partial") or block.get("input")})
             for block in blocks if block.get("type") == "tool_use"]  # fmt: skip
    for block in blocks:
        if block.get("type") == "tool_result":
            yield {"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": block.get("content")}
    rest = [block for block in blocks if block.get("type") not in {"tool_use", "tool_result"}]
    if rest or calls or not blocks:
        role = str(message.get("role", "user"))
        yield {"role": role, "content": rest, **({"tool_calls": calls} if calls else {})}


def _from_google(content: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the messages of a content, whose parts may be requests for tools and their results."""
    parts = [part for part in items_of(content.get("parts")) if isinstance(part, Mapping)]
    role = "assistant" if content.get("role") == "model" else str(content.get("role") or "user")
    calls = [_call(call.get("id"), {**call, "arguments": call.get("args")})
             for part in parts if isinstance(call := part.get("functionCall"), Mapping)]  # fmt: skip
    for part in parts:
        if isinstance(answer := part.get("functionResponse"), Mapping):
            yield {"role": "tool", "tool_call_id": answer.get("id"), "content": answer.get("response")}
    texts = [{"type": "text", "text": part["text"]} for part in parts if isinstance(part.get("text"), str)]
    if texts or calls or not parts:
        yield {"role": role, "content": texts, **({"tool_calls": calls} if calls else {})}


def _joined(messages: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the messages of one answer as one."""
    content: list[Any] = []
    calls: list[Any] = []
    for message in messages:
        given = message.get("content")
        content += given if isinstance(given, list) else [{"type": "text", "text": given}] if given else []
        calls += message.get("tool_calls", [])
    return {"role": "assistant", "content": content, "tool_calls": calls}


def _call(call_id: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    arguments = given.get("arguments")
    read = _json(arguments) if isinstance(arguments, str) else arguments
    return {"id": call_id, "name": given.get("name"), "args": arguments if read is None else read}

"""Answers of chat services as messages, where the provider's own package is not installed: text, tools and usage."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call
from langchain_core.outputs import ChatGeneration, ChatResult

from agenttape_langchain.importers.http_exchanges import Exchange
from agenttape_langchain.importers.requests import NotImportableError, calls_from_text

_Plain = dict[str, Any]


def parsed_answer(exchange: Exchange) -> ChatResult:
    """Return what a service answered, whole or as a stream of events.

    Raises:
        NotImportableError: If it is no answer of a service that is known.
    """
    try:
        message = _message(exchange)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise NotImportableError(f"its answer is malformed: {error!r}") from error
    return ChatResult(generations=[ChatGeneration(message=message)])


def _message(exchange: Exchange) -> AIMessage:
    answer, events = exchange.answer, list(_events(exchange.body))
    if exchange.path.endswith("/v1/messages"):
        return _of_anthropic(answer or _anthropic_whole(events))
    if exchange.path.endswith("/responses"):
        finished = (event["response"] for event in reversed(events) if isinstance(event.get("response"), dict))
        return _of_responses(answer or next(finished, {}))
    return _of_completions(answer or _completion_whole(events))


def _events(body: bytes) -> Iterator[_Plain]:
    """Yield the data of server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html)."""
    for line in body.decode("utf-8", "replace").splitlines():
        if line.startswith("data:") and line.removeprefix("data:").strip() != "[DONE]":
            event = json.loads(line.removeprefix("data:"))
            if isinstance(event, dict):
                yield event


def _of_completions(answer: _Plain) -> AIMessage:
    plain = answer["choices"][0]["message"]
    calls = [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in plain.get("tool_calls") or ()]
    usage = answer.get("usage") or {}
    return AIMessage(
        plain.get("content") or "",
        **calls_from_text(calls),
        usage_metadata=_usage(usage.get("prompt_tokens"), usage.get("completion_tokens")),
        response_metadata=_metadata(answer, answer["choices"][0].get("finish_reason")),
    )


def _completion_whole(events: list[_Plain]) -> _Plain:
    content, reason, usage = "", None, None
    calls: dict[int, _Plain] = {}
    for event in events:
        usage = event.get("usage") or usage
        for choice in event.get("choices") or ():
            reason = choice.get("finish_reason") or reason
            content += choice["delta"].get("content") or ""
            for piece in choice["delta"].get("tool_calls") or ():
                call = calls.setdefault(piece["index"], {"id": "", "function": {"name": "", "arguments": ""}})
                call["id"] += piece.get("id") or ""
                for key in ("name", "arguments"):
                    call["function"][key] += piece.get("function", {}).get(key) or ""
    message = {"content": content, "tool_calls": list(calls.values())}
    return {**events[0], "choices": [{"message": message, "finish_reason": reason}], "usage": usage}


def _of_responses(answer: _Plain) -> AIMessage:
    items = answer["output"]
    said = [part for item in items if item["type"] == "message" for part in item["content"]]
    calls = [(i["call_id"], i["name"], i["arguments"]) for i in items if i["type"] == "function_call"]
    usage = answer.get("usage") or {}
    return AIMessage(
        [{"type": "text", "text": part.get("text", "")} for part in said],
        **calls_from_text(calls),
        usage_metadata=_usage(usage.get("input_tokens"), usage.get("output_tokens")),
        response_metadata=_metadata(answer, answer.get("status")),
        id=answer.get("id"),
    )


def _of_anthropic(answer: _Plain) -> AIMessage:
    blocks, usage = answer["content"], answer.get("usage") or {}
    uses = [block for block in blocks if block["type"] == "tool_use"]
    is_text = len(blocks) == 1 and blocks[0].keys() == {"type", "text"}
    return AIMessage(
        blocks[0]["text"] if is_text else blocks,
        tool_calls=[tool_call(name=use["name"], args=use["input"], id=use["id"]) for use in uses],
        usage_metadata=_usage(usage.get("input_tokens"), usage.get("output_tokens")),
        response_metadata=_metadata(answer, answer.get("stop_reason")),
        id=answer.get("id"),
    )


def _anthropic_whole(events: list[_Plain]) -> _Plain:
    answer: _Plain = {}
    blocks: dict[int, _Plain] = {}
    for event in events:
        if event["type"] == "message_start":
            answer = dict(event["message"])
        elif event["type"] == "content_block_start":
            blocks[event["index"]] = {**event["content_block"], "": ""}
        elif event["type"] == "content_block_delta":
            _extend(blocks[event["index"]], event["delta"])
        elif event["type"] == "message_delta":
            answer |= event["delta"]
            answer["usage"] = {**(answer.get("usage") or {}), **(event.get("usage") or {})}
    return {**answer, "content": [_finished(block) for block in blocks.values()]}


def _extend(block: _Plain, delta: _Plain) -> None:
    if "partial_json" in delta:
        block[""] += delta["partial_json"]
    for key in ("text", "thinking", "signature"):
        if key in delta:
            block[key] = block.get(key, "") + delta[key]


def _finished(block: _Plain) -> _Plain:
    text = block.pop("")
    return {**block, "input": json.loads(text)} if text else block


def _usage(given: int | None, made: int | None) -> UsageMetadata | None:
    if given is None or made is None:
        return None
    return UsageMetadata(input_tokens=given, output_tokens=made, total_tokens=given + made)


def _metadata(answer: _Plain, reason: Any) -> _Plain:
    return {"model_name": answer.get("model"), "finish_reason": reason}

"""Anthropic's Messages API on the wire: whole messages, server-sent events, errors.

The shapes follow the API reference of Anthropic: `message`, the stream events from `message_start` to `message_stop`,
and the error object.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from .loopback import JSON, Answer, filled

ERRORS = {400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error", 529: "overloaded_error"}
PIECE = 9
"""Characters that go out in one event."""


class MessagesWire:
    """Thinks where thinking is enabled, calls the tools that were not called yet, searches the web, then answers."""

    def answer(self, path: str, body: JSON, number: int) -> Answer:
        """Answer `/v1/messages`, plain or streamed."""
        assert path.startswith("/v1/messages"), path
        blocks = _blocks(body, number)
        head = {
            "id": f"msg_{number:024d}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "stop_sequence": None,
        }
        headers = {"request-id": f"req_{number:024d}"}
        counts = {"input_tokens": 10 + number, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 4}
        reason = "tool_use" if blocks[-1]["type"] == "tool_use" else "end_turn"
        if body.get("stream"):
            events = _events(head, blocks, counts, reason)
            parts = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
            return Answer(parts, content_type="text/event-stream; charset=utf-8", headers=headers)
        usage = {**counts, "output_tokens": _tokens(blocks), "service_tier": "standard"}
        whole = {**head, "content": blocks, "stop_reason": reason, "usage": usage}
        return Answer([json.dumps(whole)], headers=headers)

    def failure(self, status: int, message: str) -> Answer:
        """Answer with an error object."""
        headers = {"request-id": f"req_{status}", "retry-after": "7"}
        return Answer([json.dumps(_error(ERRORS[status], message))], status, headers=headers)

    def interruption(self, message: str) -> str:
        """Say in a stream that the service is overloaded."""
        return f"event: error\ndata: {json.dumps(_error('overloaded_error', message))}\n\n"


def _error(kind: str, message: str) -> JSON:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_error"}


def _blocks(body: JSON, number: int) -> list[JSON]:
    """The content of an answer."""
    thinks = (body.get("thinking") or {}).get("type") in {"enabled", "adaptive"}
    thought = {"type": "thinking", "thinking": f"Thought {number}, and thought again.", "signature": f"sig{number}=="}
    blocks = [thought] if thinks else []
    tools = body.get("tools") or []
    if any(tool.get("type", "").startswith("web_search") for tool in tools):
        return [*blocks, *_search(number)]
    if tools and not any(_is_result(message) for message in body["messages"]):
        choice = body.get("tool_choice") or {}
        wanted = [tool for tool in tools if choice.get("name") in {None, tool["name"]}]
        calls = [
            {
                "type": "tool_use",
                "id": f"toolu_{number:020d}{index:04d}",
                "name": tool["name"],
                "input": filled(tool["input_schema"], number),
            }
            for index, tool in enumerate(wanted)
        ]
        return [*blocks, {"type": "text", "text": "Let me look."}, *calls]
    form = (body.get("output_config") or {}).get("format")
    text = json.dumps(filled(form["schema"], number)) if form else f"This is answer number {number}, after thought."
    return [*blocks, {"type": "text", "text": text}]


def _search(number: int) -> list[JSON]:
    """A search that the provider runs itself, and a text that cites what it found."""
    use = {"type": "server_tool_use", "id": f"srvtoolu_{number}", "name": "web_search", "input": {"query": "news"}}
    page = {"url": f"https://example.com/{number}", "title": "News", "page_age": None}
    found = {"type": "web_search_result", **page, "encrypted_content": "abc"}
    result = {"type": "web_search_tool_result", "tool_use_id": use["id"], "content": [found]}
    cited = {"type": "web_search_result_location", "url": page["url"], "title": "News"}
    citation = {**cited, "encrypted_index": "xyz", "cited_text": f"event {number}"}
    return [use, result, {"type": "text", "text": f"There was event {number}.", "citations": [citation]}]


def _is_result(message: JSON) -> bool:
    content = message["content"]
    return isinstance(content, list) and any(part.get("type") == "tool_result" for part in content)


def _tokens(blocks: list[JSON]) -> int:
    return len(json.dumps(blocks)) // 4


def _events(head: JSON, blocks: list[JSON], counts: JSON, reason: str) -> Iterator[JSON]:
    """The events of a stream."""
    opened = {**head, "content": [], "stop_reason": None, "usage": {**counts, "output_tokens": 1}}
    yield {"type": "message_start", "message": opened}
    for index, block in enumerate(blocks):
        for number, event in enumerate(_block_events(block)):
            yield {"index": index, **event}
            if number == 0:
                yield {"type": "ping"}
    ended = {"stop_reason": reason, "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {**counts, "output_tokens": _tokens(blocks)}}
    yield {"type": "message_stop"}


def _block_events(block: JSON) -> Iterator[JSON]:
    begun, deltas = _begun(block)
    yield {"type": "content_block_start", "content_block": begun}
    for delta in deltas:
        yield {"type": "content_block_delta", "delta": delta}
    yield {"type": "content_block_stop"}


def _begun(block: JSON) -> tuple[JSON, list[JSON]]:
    """A block as its start event has it, and the deltas that make it whole."""
    kind = block["type"]
    if kind == "text":
        cited = [{"type": "citations_delta", "citation": citation} for citation in block.get("citations", ())]
        texts = [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
        return {**block, "text": "", **({"citations": []} if cited else {})}, [*cited, *texts]
    if kind == "thinking":
        thoughts: list[Any] = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(block["thinking"])]
        signed = {"type": "signature_delta", "signature": block["signature"]}
        return {**block, "thinking": "", "signature": ""}, [*thoughts, signed]
    if kind in {"tool_use", "server_tool_use"}:
        texts = [{"type": "input_json_delta", "partial_json": p} for p in ("", *_pieces(json.dumps(block["input"])))]
        return {**block, "input": {}}, texts
    return block, []


def _pieces(text: str) -> list[str]:
    return [text[start : start + PIECE] for start in range(0, len(text), PIECE)]

"""Recordings in the form of other tools, made of exchanges; and hand-made answers of Anthropic's service."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz123456"
OPENAI = "https://api.openai.com"
ANTHROPIC = "https://api.anthropic.com/v1/messages"


def interaction(
    request: Any, body: Any, *, url: str = f"{OPENAI}/v1/chat/completions", status: int = 200, **headers: str
) -> dict[str, Any]:
    """An interaction as vcrpy writes it; bodies that are no text or bytes become JSON."""
    sent = {"authorization": [f"Bearer {KEY}"], **{name.replace("_", "-"): [value] for name, value in headers.items()}}
    is_stream = isinstance(body, str) and body.startswith(("data:", "event:"))
    kind = "text/event-stream; charset=utf-8" if is_stream else "application/json"
    return {
        "request": {"method": "POST", "uri": url, "body": _text(request), "headers": sent},
        "response": {
            "status": {"code": status, "message": ""},
            "headers": {"Content-Type": [kind]},
            "body": {"string": _text(body)},
        },
    }


def _text(body: Any) -> Any:
    return body if isinstance(body, str | bytes) else json.dumps(body)


def vcr_file(path: Path, interactions: list[dict[str, Any]]) -> Path:
    """Write a cassette of vcrpy."""
    path.write_text(yaml.dump({"interactions": interactions, "version": 1}), encoding="utf-8")
    return path


def of_exchanges(exchanges: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Make interactions of the exchanges of a data file."""
    return [
        interaction(e["request"], e["body"], url=OPENAI + e["path"], status=e["status"], x_stainless_retry_count="0")
        for e in exchanges
    ]


def completion(content: str | None, *, number: int = 1, calls: tuple[tuple[str, str, str], ...] = ()) -> dict[str, Any]:
    """An answer of Chat Completions."""
    message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
    if calls:
        message["tool_calls"] = [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for call_id, name, arguments in calls
        ]
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1754425777,
        "model": "gpt-5-mini-2025-08-07",
        "choices": [
            {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop", "logprobs": None}
        ],
        "usage": {"prompt_tokens": 8, "completion_tokens": number, "total_tokens": 8 + number},
    }


def asked_of_gpt(text: str, **more: Any) -> dict[str, Any]:
    """A request of `ChatOpenAI(model="gpt-5-mini").invoke(text)`."""
    return {"messages": [{"content": text, "role": "user"}], "model": "gpt-5-mini", "stream": False, **more}


def asked_of_claude(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A request of `ChatAnthropic(model="claude-recorded", max_tokens=256)`."""
    return {"model": "claude-recorded", "max_tokens": 256, "messages": list(messages), **more}


def claude(content: list[dict[str, Any]], *, number: int = 1, stop: str = "end_turn") -> dict[str, Any]:
    """An answer of Messages."""
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "claude-recorded-1",
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": 12, "output_tokens": number},
    }


def claude_stream(content: list[dict[str, Any]], *, number: int = 1, stop: str = "end_turn") -> str:
    """The same as a stream of events: each block begins, grows by two deltas, and ends."""
    events = [{"type": "message_start", "message": {**claude([], number=number, stop=stop), "stop_reason": None}}]
    for index, block in enumerate(content):
        events.append({"type": "content_block_start", "index": index, "content_block": _begun(block)})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in _deltas(block)]
        events.append({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": stop, "stop_sequence": None}
    events += [{"type": "message_delta", "delta": delta, "usage": {"output_tokens": number}}, {"type": "message_stop"}]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


def _begun(block: dict[str, Any]) -> dict[str, Any]:
    empty: dict[str, Any] = {"text": "", "thinking": "", "signature": "", "input": {}}
    return {key: empty.get(key, value) for key, value in block.items()}


def _deltas(block: dict[str, Any]) -> list[dict[str, Any]]:
    if block["type"] == "tool_use":
        text = json.dumps(block["input"])
        return [{"type": "input_json_delta", "partial_json": part} for part in (text[:4], text[4:])]
    if block["type"] == "thinking":
        said = {"type": "thinking_delta", "thinking": block["thinking"]}
        return [said, {"type": "signature_delta", "signature": block["signature"]}]
    text = block["text"]
    return [{"type": "text_delta", "text": part} for part in (text[:3], text[3:])]

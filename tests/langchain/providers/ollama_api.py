"""Ollama's API on the wire: lines of JSON.

The shapes follow Ollama's API reference for `/api/chat` and `/api/embed`. The client streams whatever it is asked for.
"""

from __future__ import annotations

import json

from .loopback import JSON, Answer, filled


class OllamaWire:
    """Thinks on request, calls the tools that were not called yet, then answers."""

    def answer(self, path: str, body: JSON, number: int) -> Answer:
        """Answer `/api/chat` or `/api/embed`."""
        if path == "/api/embed":
            inputs = body["input"] if isinstance(body["input"], list) else [body["input"]]
            vectors = [[number / 7, index / 3, 0.1] for index in range(len(inputs))]
            return Answer([json.dumps({"model": body["model"], "embeddings": vectors, "prompt_eval_count": 3})])
        assert path == "/api/chat", path
        said = _said(body, number)
        head = {"model": body["model"], "created_at": f"2025-07-01T12:00:{number % 60:02d}.5Z"}
        lines = [{**head, "message": {"role": "assistant", "content": "", **part}, "done": False} for part in said]
        spent = {"total_duration": 5 * number, "load_duration": 1, "prompt_eval_count": 7, "prompt_eval_duration": 2}
        ended = {"done": True, "done_reason": "stop", **spent, "eval_count": len(said), "eval_duration": 3}
        lines.append({**head, "message": {"role": "assistant", "content": ""}, **ended})
        return Answer([json.dumps(line) + "\n" for line in lines], content_type="application/x-ndjson")

    def failure(self, status: int, message: str) -> Answer:
        """Answer with an error object."""
        return Answer([json.dumps({"error": message})], status)

    def interruption(self, message: str) -> str:
        """Say in a stream that something went wrong."""
        return json.dumps({"error": message}) + "\n"


def _said(body: JSON, number: int) -> list[JSON]:
    """The addition of each line of the answer."""
    thoughts = [{"thinking": word} for word in ("Hm, ", f"thought {number}.")] if body.get("think") else []
    tools = body.get("tools") or []
    if tools and not any(message["role"] == "tool" for message in body["messages"]):
        functions = [tool["function"] for tool in tools]
        calls = [{"function": {"name": f["name"], "arguments": filled(f["parameters"], number)}} for f in functions]
        return [*thoughts, *({"tool_calls": [call]} for call in calls)]
    text = f"This is answer number {number}."
    if form := body.get("format"):
        text = json.dumps(filled(form, number) if isinstance(form, dict) else {"city": text, "degrees": number})
    return [*thoughts, *({"content": word if index == 0 else f" {word}"} for index, word in enumerate(text.split(" ")))]

"""A model service for the agents of `make frameworks`: it requests the tool, then answers, never twice the same.

It speaks the form of the request: OpenAI's chat completions and responses, or Google's `generateContent`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from itertools import count
from typing import Any

from agenttape_core.tools.loopback import LoopbackHandler, LoopbackServer
from agenttape_core.tools.model_server import wire

TOOL, ARGUMENTS = "get_weather", {"city": "Paris"}
RESULT = "Paris: sunny"
"""The result of the tool, which is in a request once it was called."""


class ModelService(LoopbackServer):
    """Answers the agents; as a context manager, in a separate thread.

    Args:
        port: The port, or 0 for any that is free.
    """

    numbers = count(1)  # of all services, so that no two answers are equal

    def __init__(self, port: int = 0) -> None:
        super().__init__(_Handler, port, clients=64)


class _Handler(LoopbackHandler):
    def post(self, body: bytes) -> None:
        """Answer a request to a model."""
        given, path = json.loads(body), self.path.partition("?")[0]
        said = _said(given, next(ModelService.numbers))
        if path.endswith("/chat/completions"):
            events = wire.chat_completion_events(said, with_usage=True)
            self._send(given.get("stream") is True, wire.chat_completion(said), events)
        elif path.endswith("/responses"):
            self._send(given.get("stream") is True, wire.response(said), wire.response_events(said))
        elif path.endswith("enerateContent"):
            content = _content(said)
            self._send(":stream" in path, content, [wire.event(content)])
        else:
            self.refuse(HTTPStatus.NOT_FOUND, f"there is no {path}")

    def _send(self, streamed: bool, whole: Mapping[str, Any], events: Iterable[str]) -> None:
        if not streamed:
            self.answer(HTTPStatus.OK, whole)
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for each in (*events, ""):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(each.encode()), each.encode()))


def _said(given: Mapping[str, Any], number: int) -> wire.Said:
    """Return the next answer: a request for the tool, until its result is there."""
    text = json.dumps(given)
    called, answer = RESULT in text, f"Sunny in Paris, as answer {number} has it."
    words, calls = "", []
    if "[[ ## next_tool_name ## ]]" in text:  # DSPy has the tool in the text of the prompt
        words = _fields(next_thought="Look.", next_tool_name=TOOL, next_tool_args=json.dumps(ARGUMENTS))
        if called:
            words = _fields(next_thought="Done.", next_tool_name="finish", next_tool_args="{}")
    elif "[[ ## answer ## ]]" in text:
        words = _fields(reasoning="It was looked up.", answer=answer)
    elif not called:
        calls = [(f"call_{number}", TOOL, json.dumps(ARGUMENTS))]
    elif "final_answer" in text:  # a tool of smolagents
        calls = [(f"call_{number}", "final_answer", json.dumps({"answer": answer}))]
    else:
        words = answer
    model = str(given.get("model") or "gemini-2.5-flash")
    asked, spent = len(text) // 4, len(words) // 4 + 20 * len(calls)
    return wire.Said(f"answer-{number}", model, words, [words], calls, "", asked, spent, 0, 0)


def _fields(**fields: str) -> str:
    return "\n\n".join([*(f"[[ ## {name} ## ]]\n{text}" for name, text in fields.items()), "[[ ## completed ## ]]"])


def _content(said: wire.Said) -> dict[str, Any]:
    """Return an answer in Google's form."""
    calls = [{"functionCall": {"id": name, "name": tool, "args": json.loads(args)}} for name, tool, args in said.calls]
    counts = {"promptTokenCount": said.input_tokens, "candidatesTokenCount": said.output_tokens}
    content = {"role": "model", "parts": calls or [{"text": said.text}]}
    candidate = {"index": 0, "content": content, "finishReason": "STOP"}
    return {
        "candidates": [candidate],
        "usageMetadata": {**counts, "totalTokenCount": sum(counts.values())},
        "modelVersion": said.model,
        "responseId": said.id,
    }

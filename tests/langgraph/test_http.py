"""Clients that no framework knows, in nodes and tools: recorded as HTTP, while models are recorded as models."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any

import httpx2
import openai
import pytest
import requests
from langchain.agents import create_agent
from langchain.agents.middleware import wrap_model_call
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from agenttape_core import use_cassette


class Service:
    """A model that calls a tool once, and a service of weather, that never answer twice the same."""

    def __init__(self) -> None:
        numbers = count(1)

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.answer({"sky": f"clear {next(numbers)}"})

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                call = {"name": "weather", "arguments": '{"city": "Paris"}'}
                message: dict[str, Any] = {"role": "assistant", "content": f"answer {next(numbers)}"}
                if asked.get("tools") and asked["messages"][-1]["role"] != "tool":
                    message["tool_calls"] = [{"id": "call_1", "type": "function", "function": call}]
                choice = {"index": 0, "message": message, "finish_reason": "stop"}
                self.answer({"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]})

            def answer(self, data: Any) -> None:
                body = json.dumps(data).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def stop(self) -> None:
        """Answer no more; a second time does nothing."""
        if self.thread.is_alive():
            self.server.shutdown()
            self.thread.join()
        self.server.server_close()


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A running service, and a folder to work in."""
    monkeypatch.chdir(tmp_path)
    running = Service()
    yield running
    running.stop()


def test_clients_in_an_agent(service: Service) -> None:
    """A request in a tool is its child, one of an SDK beside a model is on its own; a model covers its own requests."""

    @tool
    def weather(city: str) -> str:
        """Tell the weather."""
        return str(requests.get(f"{service.url}/{city}", timeout=5).json()["sky"])

    @wrap_model_call
    def with_moderation(request: Any, handler: Any) -> Any:
        client = openai.OpenAI(base_url=service.url, api_key="any", http_client=httpx2.Client(verify=False))
        client.chat.completions.create(model="small", messages=[{"role": "user", "content": "Is this fine?"}])
        return handler(request)

    def run() -> list[str]:
        model = ChatOpenAI(model="m", base_url=service.url, api_key="any")
        agent = create_agent(model, [weather], middleware=[with_moderation])
        return [message.text for message in agent.invoke({"messages": [("user", "Weather in Paris?")]})["messages"]]

    runs = []
    for mode in ("once", "none"):
        with use_cassette("c", mode=mode, http=True) as session:
            runs.append(run())
        service.stop()
    assert runs[0] == runs[1]
    kinds = [(item.kind, item.address.partition("/")[2].partition("/")[0]) for item in session.interactions]
    assert [kind for kind, _ in kinds] == ["http", "chat", "tool", "http", "http", "chat"]
    assert session.interactions[3].parent == session.interactions[2].number
    assert all(node.startswith(("model", "tools")) for _, node in kinds), kinds

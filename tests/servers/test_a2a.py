"""A server of the official A2A package under uvicorn: requests at once, plain and streamed, recorded and sent again.

It is skipped where the packages could not be installed.
"""

# ruff: noqa: E402 - after it is known that the packages are there
from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import open_cassette, replay_source
from agenttape_core.asgi import TapeInbound

pytest.importorskip("a2a.server.routes")
httpx = pytest.importorskip("httpx")
uvicorn = pytest.importorskip("uvicorn")

from a2a.helpers import new_text_message
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.prompts import ChatPromptTemplate
from starlette.applications import Starlette

pytestmark = [pytest.mark.process, pytest.mark.filterwarnings("ignore")]
KEY = "Bearer tok-" + "4f9a1c7be2d83560"
REQUESTS = 20


class Named(GenericFakeChatModel):
    """A model that says which one it is."""

    model: str = "scripted-1"


class Agent(AgentExecutor):
    """Answers by a chain.

    Args:
        is_gone: Whether its model fails.
    """

    def __init__(self, *, is_gone: bool = False) -> None:
        self._is_gone = is_gone

    async def execute(self, context: Any, event_queue: Any) -> None:
        """Answer a message."""
        text = context.get_user_input()
        answers = iter(()) if self._is_gone else iter([AIMessage(f"hello {text}")])
        chain = ChatPromptTemplate.from_template("Greet {name}") | Named(messages=answers)
        await event_queue.enqueue_event(new_text_message((await chain.ainvoke({"name": text})).text))

    async def cancel(self, context: Any, event_queue: Any) -> None:
        """Cancel nothing."""


def server(agent: Agent) -> Starlette:
    """An A2A server."""
    skill = AgentSkill(id="greet", name="greet", description="Greets.", tags=["greeting"])
    interface = AgentInterface(url="http://127.0.0.1/", protocol_binding="JSONRPC", protocol_version="1.0")
    card = AgentCard(
        name="greeter",
        description="Greets.",
        version="1",
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text"],
        default_output_modes=["text"],
        skills=[skill],
        supported_interfaces=[interface],
    )
    return Starlette(routes=create_jsonrpc_routes(DefaultRequestHandler(agent, InMemoryTaskStore(), card), "/"))


def test_requests_come_back(tmp_path: Path) -> None:
    """Each of twenty requests at once has its cassette and workflow; sent again, each is answered byte for byte."""

    async def asked(app: Any) -> list[str]:
        """Send all requests at once to a server on a port of this machine; return the bodies of its answers."""
        running = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
        serving = asyncio.ensure_future(running.serve())
        async with asyncio.timeout(60):
            while not running.started:  # noqa: ASYNC110 - uvicorn has no event for it
                await asyncio.sleep(0.01)
            port = running.servers[0].sockets[0].getsockname()[1]
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60) as client:

                async def one(number: int) -> str:
                    headers = {"X-Workflow-Id": f"flow-{number}", "Authorization": KEY, "A2A-Version": "1.0"}
                    message = {"messageId": f"m{number}", "role": "ROLE_USER", "parts": [{"text": f"guest {number}"}]}
                    method = "SendMessage" if number % 2 else "SendStreamingMessage"
                    body = {"jsonrpc": "2.0", "id": str(number), "method": method, "params": {"message": message}}
                    return str((await client.post("/", headers=headers, json=body)).text)

                answers = await asyncio.gather(*map(one, range(REQUESTS)))
            running.should_exit = True
            await serving
        return list(answers)

    taped = TapeInbound(server(Agent()), tmp_path, freeze=["clock", "uuid"])
    answers = asyncio.run(asked(taped))
    found: dict[str, str] = {}
    for path in sorted(tmp_path.iterdir()):
        request = open_cassette(path).header.input["$request"]
        number = json.loads(request["body"])["id"]
        assert (request["headers"]["x-workflow-id"], KEY[7:] in path.read_text()) == (f"flow-{number}", False)
        again = replay_source(path, server(Agent(is_gone=True)))
        assert len(again.report.replayed) == 1
        found[number] = again.answer.text
    assert found == {str(number): answer for number, answer in enumerate(answers)}

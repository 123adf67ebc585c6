"""Functions, clients and addresses in nodes and tools."""

from __future__ import annotations

import itertools
import json
from collections.abc import Awaitable, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any, TypedDict
from urllib.parse import urlsplit

import httpx2
import openai
import pytest
import requests
from langchain.agents import create_agent
from langchain.agents.middleware import wrap_model_call
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import PydanticOutputParser
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from pydantic import BaseModel, Field

from agenttape_core import boundary, open_cassette, use_cassette
from agenttape_core.pytest_plugin import TestCassette

# -- Functions of the user's that are boundaries, called in nodes: they have their place in the graph ------------------

numbers = itertools.count(1)


@boundary
def greet(name: str) -> str:
    """Greet, never twice alike."""
    return f"{name} {next(numbers)}"


@boundary
async def agreet(name: str) -> str:
    """Greet, never twice alike."""
    return f"{name} {next(numbers)}"


class State(TypedDict):
    """A greeting."""

    said: str


def node(_: State) -> dict[str, str]:
    """Greet in plain code."""
    return {"said": greet("Bob")}


async def anode(_: State) -> dict[str, str]:
    """Greet in awaited code."""
    return {"said": await agreet("Bob")}


@pytest.mark.parametrize("code", [node, anode], ids=["plain", "awaited"])
async def test_conversations_keep_what_their_nodes_were_answered(
    code: Callable[[State], dict[str, str] | Awaitable[dict[str, str]]], tmp_path: Path
) -> None:
    """Two conversations ask the same in a node; each has its own answer again, whichever begins first."""
    builder: Any = StateGraph(State)
    builder.add_node("node", code)
    builder.add_edge(START, "node")
    graph = builder.compile()

    async def run(*threads: str) -> dict[str, str]:
        config = {thread: {"configurable": {"thread_id": thread}} for thread in threads}
        return {thread: (await graph.ainvoke({"said": ""}, config[thread]))["said"] for thread in threads}

    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="all"):
        recorded = await run("a", "b")
    with use_cassette(path, mode="none") as session:
        assert await run("b", "a") == recorded
    assert {replayed.match_rule for replayed in session.report.replayed} == {"exact"}
    assert [row.address for row in open_cassette(path).entries] == [
        f"LangGraph{run}/node@1/{'greet' if code is node else 'agreet'}" for run in ("", "#2")
    ]


# -- Clients that no framework knows, in nodes and tools: recorded as HTTP, while models are recorded as models --------


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


# -- An agent whose tools and models bring up addresses replays with validators, and the addresses are in no file ------

MAIL = "ann.lee@acme-mail.com"
DATABASE = "postgresql://app:hunter2hunter@db.internal/shop"
VALID = r"^[^@\s]+@[^@\s]+\.[a-z]{2,4}$"


class Contact(BaseModel):
    """A contact with a validated address."""

    email: str = Field(pattern=VALID)
    card: str = Field(pattern=r"^\d{4}( \d{4}){3}$")
    database: str


def test_structured_output_with_a_validated_address(tmp_path: Path) -> None:
    """The parser takes the pseudonym as it took the address."""

    def structured() -> str:
        """Let a model make up a contact, parse it, and return the domain and the host."""
        answer = f'{{"email": "{MAIL}", "card": "4556 7375 8689 9855", "database": "{DATABASE}"}}'
        model = GenericFakeChatModel(messages=iter([AIMessage(answer)]))
        found: Contact = (model | PydanticOutputParser(pydantic_object=Contact)).invoke("Invent a contact")
        return f"{found.email.split('@')[1].rpartition('.')[2]} {urlsplit(found.database).hostname}"

    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="all"):
        assert structured() == "com db.internal"
    assert MAIL not in path.read_text("utf-8")
    assert "hunter2" not in path.read_text("utf-8")
    with use_cassette(path):
        assert structured() == "com db.internal"


def test_tools_that_hand_an_address_on(tmp_path: Path) -> None:
    """A tool's schema takes the pseudonym of what another tool has found, and the run is the same."""

    def agent() -> str:
        """Let a graph look an address up with one tool and send a mail with another, which validates it."""

        @tool
        def find_contact(name: str) -> str:
            """Find the address of a person."""
            return f"{name}: {MAIL}"

        @tool
        def send_mail(to: str = Field(pattern=VALID)) -> str:
            """Send a mail."""
            return f"sent to {to}"

        def model(state: MessagesState) -> Any:
            last = state["messages"][-1]
            if last.type == "human":
                calls = [{"name": "find_contact", "args": {"name": "Ann"}, "id": "1"}]
            elif "sent" in last.text or "Error" in last.text:
                return {"messages": [AIMessage(last.text)]}
            else:
                calls = [{"name": "send_mail", "args": {"to": last.text.split(": ")[1]}, "id": "2"}]
            fake = GenericFakeChatModel(messages=iter([AIMessage("", tool_calls=calls)]))
            return {"messages": [fake.invoke(state["messages"])]}

        graph = (
            StateGraph(MessagesState).add_node("model", model).add_node("tools", ToolNode([find_contact, send_mail]))
        )
        graph.add_edge(START, "model").add_edge("tools", "model")
        graph.add_conditional_edges("model", lambda state: "tools" if state["messages"][-1].tool_calls else END)
        done = graph.compile().invoke({"messages": [("user", "write to Ann")]})
        return str(done["messages"][-1].text)

    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="all"):
        assert agent() == f"sent to {MAIL}"
    assert MAIL not in path.read_text("utf-8")
    with use_cassette(path, on_unused="ignore"):
        assert agent().startswith("sent to ")


# -- The pytest fixture knows which nodes have run ---------------------------------------------------------------------


class Turns(TypedDict):
    turns: int


@pytest.mark.parametrize("mode", ["all", "none"])
def test_nodes(tmp_path: Path, mode: str) -> None:
    """Nodes are listed in the order of their steps, recorded or replayed, and a replay writes no file."""

    def run() -> None:
        """Run two nodes, the second of them twice."""
        builder = StateGraph(Turns)
        builder.add_node("plan", lambda _: {"turns": 0})
        builder.add_node("act", lambda state: {"turns": state["turns"] + 1})
        builder.add_edge(START, "plan")
        builder.add_edge("plan", "act")
        builder.add_conditional_edges("act", lambda state: "act" if state["turns"] < 2 else "__end__")
        builder.compile().invoke({"turns": 0})

    path = tmp_path / "a.yaml"
    with use_cassette(path, mode="all"):
        run()
    before = path.read_bytes()
    with use_cassette(path, mode=mode) as session:
        session.ledger.watch_steps()
        run()
        cassette = TestCassette(session, "test", "pytest")
        cassette.assert_nodes(["plan", "act", "act"])
        with pytest.raises(AssertionError, match="nodes of the run differ"):
            cassette.assert_nodes(["plan", "act"])
    if mode == "none":
        assert path.read_bytes() == before

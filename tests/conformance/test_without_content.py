"""Recordings of the shape of a run, without a byte of what was said in it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from llama_index.core.agent.workflow import FunctionAgent

from agenttape_core import open_cassette, replay_source, use_cassette
from agenttape_core.asgi import TapeInbound
from agenttape_core.checks import at_most, called, check, never
from agenttape_core.errors import CassetteFormatError, ConfigurationError
from agenttape_langchain import TapeCallbackHandler
from agenttape_llamaindex import TapeEventHandler

from ..langchain.fakes import NativeChat, World, calling
from ..llamaindex.scripted import ScriptedLLM

CANARY = "c4n4ry"
pytestmark = [  # of LlamaIndex's own code
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20"),
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince211"),
]


def look_up(city: str) -> str:
    """Look up the weather."""
    raise LookupError(f"{city} {CANARY}")


def agent() -> Any:
    """An agent whose tool fails, and whose answers stream."""

    @tool("look_up")
    def failing(city: str) -> str:
        """Look up the weather."""
        try:
            return look_up(city)
        except LookupError as error:
            return str(error)

    def reply(messages: Any, number: int) -> AIMessage:
        return AIMessage(f"no {CANARY}") if number > 1 else calling(("look_up", {"city": CANARY}), number=number)

    return create_agent(NativeChat(world=World(), reply=reply), [failing])


def langchain(path: Path, **options: Any) -> None:
    """Observe an agent of LangChain, with content wherever a program can put some."""
    handler = TapeCallbackHandler(path, payload="none", **options)
    config: Any = {"callbacks": [handler], "tags": [CANARY], "metadata": {CANARY: CANARY}}
    list(agent().stream({"messages": [("user", CANARY)]}, config, stream_mode="messages"))
    handler.close()


def llamaindex(path: Path, **options: Any) -> None:
    """Observe an agent of LlamaIndex."""

    def script(messages: Any, tools: Any) -> Any:
        return CANARY if messages[-1].role.value == "tool" else [("look_up", {"city": CANARY})]

    async def run() -> None:
        await FunctionAgent(tools=[look_up], llm=ScriptedLLM(World(), script)).run(user_msg=CANARY)

    with TapeEventHandler(path, payload="none", **options):
        asyncio.run(run())


WAYS = pytest.mark.parametrize("observe", [langchain, llamaindex], ids=lambda way: way.__name__)


@WAYS
def test_no_content_is_recorded(tmp_path: Path, observe: Any) -> None:
    """The file has the calls with their names and places, and no byte of what was said."""
    path = tmp_path / "shape.yaml"
    observe(path)
    assert CANARY not in path.read_text()
    cassette = open_cassette(path)
    items = list(cassette.interactions())
    assert [item.kind for item in items] == ["chat", "tool", "chat"]
    assert {item.fidelity_note for item in items} == {"its content was not recorded: payload='none'"}
    assert (cassette.header.payload, cassette.header.input) == ("none", None)
    assert items[0].request.get("tools", [{"function": {"name": "look_up"}}])[0]["function"]["name"] == "look_up"


@WAYS
def test_a_shape_is_checked(tmp_path: Path, observe: Any) -> None:
    """Checks of tools and of numbers of calls hold of a shape."""
    observe(tmp_path / "shape.yaml")
    check(open_cassette(tmp_path / "shape.yaml"), called("look_up", times=1), never("refund"), at_most(calls=3))


@WAYS
@pytest.mark.parametrize("mode", ["none", "once", "new_episodes", "update"])
def test_a_shape_is_not_replayed(tmp_path: Path, observe: Any, mode: str) -> None:
    """A session that would serve it is refused with the reason; one that records anew is not."""
    observe(tmp_path / "shape.yaml")
    with pytest.raises(CassetteFormatError, match="payload='none': it holds the shape of a run, and nothing to replay"):
        use_cassette(tmp_path / "shape.yaml", mode=mode).__enter__()
    with pytest.raises(ConfigurationError, match="does not hold the input of its run"):
        replay_source(tmp_path / "shape.yaml", agent())
    with use_cassette(tmp_path / "shape.yaml", mode="all"):
        agent().invoke({"messages": [("user", "Hi")]})
    assert open_cassette(tmp_path / "shape.yaml").header.payload == "full"


@WAYS
def test_calls_are_told(tmp_path: Path, observe: Any) -> None:
    """An observer tells each call as it ends, under the id of its recording, without content, and then its end."""
    events: list[dict[str, Any]] = []
    observe(tmp_path / "shape.yaml", events=events.append)
    told = [(event["event"], event["subject"], event.get("kind")) for event in events]
    calls = [("call.recorded", "auditEvent", kind) for kind in ("chat", "tool", "chat")]
    assert told == [("session.started", "auditEvent", None), *calls, ("session.ended", "auditEvent", None)]
    assert [event["seq"] for event in events] == [1, 2, 3, 4, 5]
    assert {event["run_id"] for event in events} == {open_cassette(tmp_path / "shape.yaml").header.volatile.run_id}
    assert CANARY not in json.dumps(events)


def test_a_session_tells_alone(tmp_path: Path) -> None:
    """Within a replay nothing is an audit event: its session tells what it does, and a handler nothing."""
    events: list[dict[str, Any]] = []
    for mode in ("all", "none"):
        with use_cassette(tmp_path / "run.yaml", mode=mode, events=events.append):
            handler = TapeCallbackHandler(tmp_path / f"{mode}.yaml", events=events.append)
            agent().invoke({"messages": [("user", "Hi")]}, {"callbacks": [handler]})
            handler.close()
    told = [event["event"] for event in events if event["subject"] == "replayEvent"]
    assert told == ["session.started", *["call.replayed"] * 3, "session.ended"]
    assert len({event["run_id"] for event in events}) == 2


def test_a_server_without_content(tmp_path: Path) -> None:
    """A request that is recorded without content leaves no byte of it in the file."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await agent().ainvoke({"messages": [("user", (await receive())["body"].decode())]})
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": CANARY.encode()})

    taped = TapeInbound(app, tmp_path, payload="none", headers=["x-canary"])

    async def receive() -> Any:
        return {"type": "http.request", "body": CANARY.encode()}

    async def send(_: Any) -> None:
        pass

    async def ask() -> None:
        headers = [(b"x-canary", CANARY.encode())]
        scope = {"type": "http", "method": "POST", "path": "/", "query_string": CANARY.encode(), "headers": headers}
        await taped(scope, receive, send)
        await taped.written()

    asyncio.run(ask())
    (path,) = tmp_path.iterdir()
    assert (CANARY in path.read_text(), len(list(open_cassette(path).interactions()))) == (False, 3)


@pytest.mark.parametrize(
    "make", [TapeCallbackHandler, TapeEventHandler, lambda path, **given: TapeInbound(None, path, **given)]
)  # type: ignore[arg-type]
def test_an_unknown_payload(tmp_path: Path, make: Any) -> None:
    """Another word is refused."""
    with pytest.raises(ConfigurationError, match="payload='some': expected 'full' or 'none'"):
        make(tmp_path / "run.yaml", payload="some")

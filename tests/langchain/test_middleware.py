"""`TapeMiddleware` lets one agent take part in a session, and changes nothing else about it."""

# ruff: noqa: D103 - what is no test says by its name what it does

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
    ToolRetryMiddleware,
    wrap_model_call,
)
from langchain.tools import ToolRuntime
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.types import Command

import agenttape_langchain
from agenttape_core import use_cassette
from agenttape_core.errors import ConfigurationError
from agenttape_langchain import TapeMiddleware
from agenttape_langchain.middleware import MiddlewareOrderWarning

from ..kit.replaying import Twice
from .fakes import AsyncChat, NativeChat, StreamingChat, World, calling, in_turn
from .masking import masked

QUESTION: Any = {"messages": [("user", "Count to two.")]}


def counting(messages: Sequence[BaseMessage], number: int) -> AIMessage:
    turn = sum(isinstance(message, AIMessage) for message in messages) + 1
    if turn == 3:
        return AIMessage("all is counted")
    return calling(("count", {"n": turn}), number=number, text=f"turn {turn}")


def count_tool(world: World) -> BaseTool:
    @tool
    def count(n: int) -> str:
        """Count."""
        get_stream_writer()({"counting": n})
        return f"{n} is happening {world.reach('tool')}"

    return count


def agent_of(world: World, *middleware: AgentMiddleware[Any, Any, Any], **options: Any) -> Any:
    model = options.pop("model", None) or NativeChat(world=world, reply=options.pop("reply", counting))
    return create_agent(model, options.pop("tools", [count_tool(world)]), middleware=middleware, **options)


async def read_sync(agent: Any, mode: Any) -> list[Any]:
    return list(agent.stream(QUESTION, stream_mode=mode))


async def read_async(agent: Any, mode: Any) -> list[Any]:
    return [part async for part in agent.astream(QUESTION, stream_mode=mode)]


async def read_events(agent: Any, mode: Any) -> list[Any]:
    return [event async for event in agent.astream_events(QUESTION, version="v2")]


@pytest.mark.sweep
@pytest.mark.parametrize("read", [read_sync, read_async, read_events])
@pytest.mark.parametrize("mode", ["values", "updates", "messages"])
async def test_streams_as_without(mode: str, read: Callable[..., Any], twice: Twice) -> None:
    """An agent streams with the middleware what it streams without: in no session, recording and replayed."""
    plain = masked(await read(agent_of(World()), mode))
    world = World()
    agent = agent_of(world, TapeMiddleware())
    assert masked(await read(agent_of(World(), TapeMiddleware()), mode)) == plain
    recorded = await twice.awaited(lambda: read(agent, mode), auto=False)
    assert len(twice.recording.report.recorded) == len(world.reached) == 5
    assert masked(recorded) == plain
    assert str(twice.replay.report) == "5 replayed, 0 recorded"


async def test_custom_streams_of_tools_are_written_again(world: World, twice: Twice) -> None:
    """Parts that a tool writes to the stream appear while recording, and again when it is replayed."""
    agent = agent_of(world, TapeMiddleware())
    with twice.records(auto=False):
        assert await read_sync(agent, "custom") == [{"counting": 1}, {"counting": 2}]
    with twice.replays(auto=False):
        assert await read_sync(agent, "custom") == [{"counting": 1}, {"counting": 2}]


@pytest.mark.parametrize("automatic", [True, False])
@pytest.mark.parametrize("is_async", [False, True])
async def test_only_this_agent_takes_part(is_async: bool, automatic: bool, world: World, tmp_path: Path) -> None:
    """Without ambience the agent with the middleware is recorded, another is not; with it each call is, once."""
    mine, other = agent_of(world, TapeMiddleware()), agent_of(world)

    async def run(agent: Any) -> Any:
        return await agent.ainvoke(QUESTION) if is_async else agent.invoke(QUESTION)

    with use_cassette(tmp_path / "agent.yaml", mode="all", auto=automatic) as recording:
        await run(mine)
        await run(other)
    assert len(world.reached) == 10
    assert len(recording.report.recorded) == (10 if automatic else 5)


async def test_approval_by_a_human(world: World, twice: Twice) -> None:
    """An agent that waits for approval is interrupted and resumed at the same places with the same ids."""
    human = HumanInTheLoopMiddleware(interrupt_on={"count": True})
    agent = agent_of(world, human, TapeMiddleware(), checkpointer=InMemorySaver())

    async def talk(thread: str) -> list[Any]:
        config: Any = {"configurable": {"thread_id": thread}}
        approved = Command(resume={"decisions": [{"type": "approve"}]})
        first = agent.invoke(QUESTION, config)
        return [first, await agent.ainvoke(approved, config), agent.invoke(approved, config)]

    with twice.records(auto=False):
        recorded = await talk("recorded")
    assert "__interrupt__" in recorded[0]
    assert recorded[-1]["messages"][-1].text == "all is counted"
    with twice.replays(auto=False):
        replayed = await talk("replayed")
    assert [step["messages"] for step in replayed] == [step["messages"] for step in recorded]
    assert [[i.value for i in step.get("__interrupt__", ())] for step in replayed] == [
        [i.value for i in step.get("__interrupt__", ())] for step in recorded
    ]


async def test_tools_that_command(world: World, twice: Twice) -> None:
    """A tool that takes the runtime and returns a `Command` is recorded and replayed as such."""

    @tool
    def answer(text: str, runtime: ToolRuntime[Any, Any]) -> Command[Any]:
        """Answer."""
        said = ToolMessage(f"{text} {world.reach('tool')}", tool_call_id=runtime.tool_call_id)
        return Command(update={"messages": [said]})

    agent = agent_of(world, TapeMiddleware(), tools=[answer], reply=in_turn([("answer", {"text": "hello"})]))
    recorded = twice.record(lambda: agent.invoke(QUESTION), auto=False)
    assert recorded["messages"][2].text == "hello 2"
    with twice.replays(auto=False):
        assert await agent.ainvoke(QUESTION) == recorded


@pytest.mark.parametrize("is_async", [False, True])
async def test_what_is_chosen_in_the_end_is_taped(is_async: bool, world: World, twice: Twice) -> None:
    """A model that other middleware chooses, each retry of it, its fallback, and each retry of a tool are recorded."""

    def failing(messages: Sequence[BaseMessage], number: int) -> AIMessage:
        raise ValueError(f"refused {number}")

    @tool
    def count(n: int) -> str:
        """Count."""
        number = world.reach("tool")
        if number % 2 == 0:
            raise ConnectionError(f"lost {number}")
        return f"{n} is happening {number}"

    chosen = AsyncChat(world=world, reply=failing, model_name="chosen")

    @wrap_model_call
    def choose(request: Any, handler: Any) -> Any:
        return handler(request.override(model=chosen))

    @wrap_model_call
    async def achoose(request: Any, handler: Any) -> Any:
        return await handler(request.override(model=chosen))

    agent = agent_of(
        world,
        achoose if is_async else choose,
        ModelFallbackMiddleware(StreamingChat(world=world, reply=counting, model_name="fallback")),
        ModelRetryMiddleware(max_retries=1, initial_delay=0.001, on_failure="error"),
        ToolRetryMiddleware(max_retries=2, initial_delay=0.001, retry_on=(ConnectionError,)),
        TapeMiddleware(),
        tools=[count],
    )

    async def run() -> Any:
        return await agent.ainvoke(QUESTION) if is_async else agent.invoke(QUESTION)

    await twice.awaited(run, auto=False)
    statuses = [(row.name, row.outcome.status) for row in twice.recording.interactions]
    assert statuses.count(("AsyncChat", "raised")) == 6, "two attempts in each of three turns"
    assert ("StreamingChat", "returned") in statuses
    assert ("count", "raised") in statuses
    assert len(statuses) == len(world.reached)


def test_unknown_tools(world: World, tmp_path: Path) -> None:
    """A call of a tool that there is not is answered as without the middleware."""
    reply = in_turn([("missing", {})])
    plain = agent_of(World(), reply=reply).invoke(QUESTION)
    agent = agent_of(world, TapeMiddleware(), reply=reply)
    with use_cassette(tmp_path / "agent.yaml", mode="all", auto=False):
        assert masked(agent.invoke(QUESTION)) == masked(plain)


def test_order(world: World, tmp_path: Path) -> None:
    """If the order matters, a middleware behind `TapeMiddleware` gives a warning with a remedy."""
    agent = agent_of(world, TapeMiddleware(), ModelRetryMiddleware(max_retries=1))
    agent.invoke(QUESTION)
    with use_cassette(tmp_path / "automatic.yaml", mode="all"):
        agent.invoke(QUESTION)
    with (
        use_cassette(tmp_path / "explicit.yaml", mode="all", auto=False),
        pytest.warns(MiddlewareOrderWarning, match=r"put it at the end: create_agent\(\.\.\., middleware="),
    ):
        agent.invoke(QUESTION)


def test_without_langchain(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error for an environment without `langchain` names the package to install."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "langchain"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "agenttape_langchain.middleware")
    said = "TapeMiddleware is for agents of the package langchain, and langchain is not installed\n  pip install"
    with pytest.raises(ConfigurationError, match=said):
        agenttape_langchain.TapeMiddleware  # noqa: B018

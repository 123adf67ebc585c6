"""Agents of LangChain and LangGraph replay as the same run: messages with ids, chunks and events."""

# ruff: noqa: D103 - what is no test says by its name what it does

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    ModelCallLimitMiddleware,
    SummarizationMiddleware,
    TodoListMiddleware,
    dynamic_prompt,
)
from langchain.tools import InjectedState, InjectedToolCallId, ToolRuntime
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import BaseTool, ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from agenttape_core import use_cassette
from agenttape_langchain import tape

from ..kit.replaying import Twice
from .fakes import NativeChat, StreamingChat, World, calling, in_turn

QUESTION = {"messages": [("user", "Count to ten.")]}
TURNS = 10


def counting(messages: Sequence[BaseMessage], number: int) -> AIMessage:
    """Call `count` nine times, twice at once every third time, then answer."""
    turn = sum(isinstance(message, AIMessage) for message in messages) + 1
    if turn >= TURNS:
        return AIMessage(f"counted, says call {number}")
    calls = [("count", {"n": turn * 10 + i}) for i in range(2 if turn % 3 == 0 else 1)]
    return calling(*calls, number=number, text=f"turn {turn}")


def count_tool(world: World) -> BaseTool:
    @tool
    def count(n: int) -> str:
        """Count."""
        return f"{n} is happening {world.reach('tool')}"

    return count


CALLS = TURNS + 12


def invoke(agent: Any) -> Any:
    return agent.invoke(QUESTION)


async def ainvoke(agent: Any) -> Any:
    return await agent.ainvoke(QUESTION)


async def run(agent: Any, *, is_async: bool) -> Any:
    """The end of the agent's run."""
    return await ainvoke(agent) if is_async else invoke(agent)


@pytest.mark.sweep
@pytest.mark.parametrize("way", ["automatic", "taped"])
@pytest.mark.parametrize("recorded_async", [False, True])
async def test_ten_turns(recorded_async: bool, way: str, world: World, twice: Twice) -> None:
    """Ten turns replay, every call from the cassette, twice in a row, sync and async, however they were recorded."""

    def counting_agent(world: World, wrap: Callable[[Any], Any] = lambda obj: obj) -> Any:
        """An agent of ten turns and twelve tool calls."""
        model = wrap(NativeChat(world=world, reply=counting))
        return create_agent(model, [wrap(count_tool(world))], system_prompt="You count.")

    automatic = way == "automatic"
    agent = counting_agent(world) if automatic else counting_agent(world, tape)
    with twice.records(auto=automatic) as recording:
        recorded = await run(agent, is_async=recorded_async)
    assert len(recording.report.recorded) == len(world.reached) == CALLS
    assert len(recorded["messages"]) == 1 + CALLS
    for is_async in (recorded_async, recorded_async, not recorded_async):
        with twice.replays(auto=automatic) as replay:
            replayed = await run(agent, is_async=is_async)
        assert str(replay.report) == f"{CALLS} replayed, 0 recorded"
        assert {call.match_rule for call in replay.report.replayed} == {"exact"}
        assert replayed == recorded


STREAMS: dict[str, dict[str, Any]] = {
    "values": {"stream_mode": "values"},
    "updates": {"stream_mode": "updates"},
    "messages": {"stream_mode": "messages"},
    "all": {"stream_mode": ["values", "updates", "messages", "custom"]},
    "tasks": {"stream_mode": "tasks"},
    "debug": {"stream_mode": "debug"},
}


@pytest.mark.parametrize("mode", STREAMS)
async def test_streams(mode: str, world: World, twice: Twice) -> None:
    """The stream of an agent is equal on replay, part by part, sync and async."""
    agent = sequential_agent(world)
    options = STREAMS[mode]

    async def read() -> list[Any]:
        return [list(agent.stream(QUESTION, **options)), [part async for part in agent.astream(QUESTION, **options)]]

    await twice.awaited(read)


def sequential_agent(world: World) -> Any:
    """An agent whose tools never run at once, so that its events have one order."""

    def one_by_one(messages: Sequence[BaseMessage], number: int) -> AIMessage:
        turn = sum(isinstance(message, AIMessage) for message in messages) + 1
        if turn == 4:
            return AIMessage(f"all is counted, says call {number}")
        return calling(("count", {"n": turn}), number=number, text=f"turn {turn}")

    return create_agent(NativeChat(world=world, reply=one_by_one), [count_tool(world)])


async def test_streamed_serves_invoked_and_back(world: World, tmp_path: Path) -> None:
    """An agent recorded while it streamed its tokens replays with `invoke`, and the other way round."""
    agent = sequential_agent(world)
    for number, (first, second) in enumerate([("messages", "values"), ("values", "messages")]):
        path = tmp_path / f"{number}.yaml"
        world.gone = False

        def texts(mode: str) -> list[str]:
            if mode == "values":
                return [message.text for message in agent.invoke(QUESTION)["messages"] if message.text]
            joined: dict[str, str] = {}
            for message, _ in agent.stream(QUESTION, stream_mode="messages"):
                joined[message.id] = joined.get(message.id, "") + message.text
            return [QUESTION["messages"][0][1], *(text for text in joined.values() if text)]

        with use_cassette(path, mode="all"):
            recorded = texts(first)
        world.gone = True
        with use_cassette(path):
            assert texts(second) == recorded


async def test_with_a_checkpointer(world: World, twice: Twice) -> None:
    """A conversation of two turns on a thread replays with the same messages and the same ids."""
    agent = create_agent(NativeChat(world=world, reply=counting), [count_tool(world)], checkpointer=InMemorySaver())

    async def talk(thread: str) -> list[Any]:
        config: Any = {"configurable": {"thread_id": thread}}
        first = agent.invoke(QUESTION, config)
        second = await agent.ainvoke({"messages": [("user", "Thanks.")]}, config)
        return [first, second]

    with twice.records():
        recorded = await talk("recorded")
    with twice.replays():
        assert await talk("replayed") == recorded


# -- tools that need the graph -------------------------------------------------------------------------------------


async def test_injected_state_and_runtime(world: World, twice: Twice) -> None:
    """Tools that take state, runtime or their call's id, and tools that write state, replay; the state is equal."""

    class CityState(AgentState[Any]):
        """A state with a field that tools read and write."""

        city: str

    @tool
    def here(unit: str, state: Annotated[dict[str, Any], InjectedState]) -> str:
        """Where am I?"""
        return f"{state['city']} {unit} {world.reach('tool')}"

    @tool
    def move(to: str, runtime: ToolRuntime[Any, Any]) -> Command[Any]:
        """Move."""
        said = ToolMessage(f"from {runtime.state['city']}: {world.reach('tool')}", tool_call_id=runtime.tool_call_id)
        return Command(update={"city": to, "messages": [said]})

    @tool
    def sign(name: str, call_id: Annotated[str, InjectedToolCallId]) -> str:
        """Sign."""
        return f"{name} {call_id} {world.reach('tool')}"

    script = [("here", {"unit": "km"}), ("move", {"to": "Rome"}), ("here", {"unit": "km"}), ("sign", {"name": "n"})]

    model = StreamingChat(world=world, reply=in_turn(*([call] for call in script)))
    agent = create_agent(model, [here, move, sign], state_schema=CityState)
    asked = {**QUESTION, "city": "Paris"}
    with twice.records() as recording:
        recorded = await agent.ainvoke(asked)
    assert recorded["city"] == "Rome"
    assert [row.request["arguments"] for row in recording.interactions if row.kind == "tool"] == [a for _, a in script]
    for _ in range(2):
        with twice.replays():
            assert agent.invoke(asked) == recorded


async def test_failing_tools(world: World, twice: Twice) -> None:
    """Errors that become messages for the model, and arguments that do not fit, replay equal."""

    @tool
    def fail(n: int) -> str:
        """Fail."""
        raise ToolException(f"failure {world.reach('tool')}")

    fail.handle_tool_error = True
    script = [("fail", {"n": 1}), ("fail", {"n": "not a number"}), ("unknown", {})]

    agent = create_agent(StreamingChat(world=world, reply=in_turn(*([call] for call in script))), [fail])
    recorded = twice.record(lambda: agent.invoke(QUESTION))
    failed = [message for message in recorded["messages"] if isinstance(message, ToolMessage)]
    assert [message.status for message in failed] == ["error"] * 3
    with twice.replays():
        assert await agent.ainvoke(QUESTION) == recorded


async def test_sub_agent_in_a_live_tool(world: World, twice: Twice) -> None:
    """If the tool itself runs, the agent inside it is replayed from its own recordings."""
    inner = sequential_agent(world)

    @tool
    def delegate(task: str) -> str:
        """Let another agent do it."""
        return str(inner.invoke({"messages": [("user", task)]})["messages"][-1].text)

    twice(lambda: delegate.invoke({"task": "count"}), live={"delegate"}, on_unused="ignore")
    assert str(twice.replay.report).startswith("7 replayed, 1 recorded")


# -- other ways to build an agent ----------------------------------------------------------------------------------


async def test_middleware(world: World, twice: Twice) -> None:
    """Middleware runs on replay, and what it asks of models is replayed: prompts, summaries, todos, limits."""
    ran: list[str] = []

    class Noting(AgentMiddleware[Any, Any]):
        def before_model(self, state: Any, runtime: Any) -> None:
            ran.append("before")

        def after_model(self, state: Any, runtime: Any) -> None:
            ran.append("after")

    model = NativeChat(world=world, reply=counting)
    agent = create_agent(
        model,
        [count_tool(world)],
        middleware=[
            Noting(),
            TodoListMiddleware(),
            ModelCallLimitMiddleware(run_limit=20),
            SummarizationMiddleware(StreamingChat(world=world), trigger=("messages", 12), keep=("messages", 6)),
            dynamic_prompt(lambda request: f"There are {len(request.messages)} messages."),
        ],
    )
    with twice.records() as recording:
        recorded = await ainvoke(agent)
    asked = [row.name for row in recording.interactions]
    assert "StreamingChat" in asked, "a summary was made"
    noted, ran[:] = list(ran), []
    with twice.replays():
        assert await ainvoke(agent) == recorded
    assert ran == noted


async def test_interrupt_and_resume(world: World, twice: Twice) -> None:
    """An interrupt of a tool is not an outcome: the tool is called again on resumption, and that call is recorded."""

    @tool
    def approve(what: str) -> str:
        """Ask a person."""
        answer = interrupt(f"may I {what}?")
        return f"{answer} {world.reach('tool')}"

    model = StreamingChat(world=world, reply=in_turn([("approve", {"what": "go"})]))
    agent = create_agent(model, [approve], checkpointer=InMemorySaver())

    async def talk(thread: str) -> tuple[Any, Any]:
        config: Any = {"configurable": {"thread_id": thread}}
        first = agent.invoke(QUESTION, config)
        return first["__interrupt__"][0].value, await agent.ainvoke(Command(resume="yes"), config)

    with twice.records() as recording:
        recorded = await talk("recorded")
    assert recorded[0] == "may I go?"
    assert [row.kind for row in recording.interactions].count("tool") in {1, 2}
    with twice.replays():
        assert await talk("replayed") == recorded

"""Effects of a tool besides returning are applied again when it is replayed."""

# ruff: noqa: D103 - what is no test says by its name what it does

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler, adispatch_custom_event, dispatch_custom_event
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config, get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, ToolRuntime
from langgraph.types import Command, interrupt
from pydantic import ValidationError

from agenttape_core import use_cassette
from agenttape_core.errors import CassetteMissError, ConfigurationError
from agenttape_langchain import tape
from agenttape_langchain.effects import apply

from .fakes import StreamingChat, World, by_task, recorded_and_replayed, streamed

MODES: Any = ["values", "updates", "messages", "custom", "tasks", "tools"]
CONFIG: Any = {"configurable": {"thread_id": "1"}}


def _add(left: list[Any] | None, right: list[Any]) -> list[Any]:
    return [*(left or []), *right]


class State(MessagesState):
    """Messages, and notes that tools write to the state by themselves."""

    notes: Annotated[list[Any], _add]


class Heard(BaseCallbackHandler):
    """Hears custom events."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def on_custom_event(self, name: str, data: Any, **_: Any) -> None:
        """Note one."""
        self.events.append((name, data))


def asking(name: str, **args: Any) -> AIMessage:
    """Return the message of a model that asks for a tool."""
    return AIMessage("", id="asked", tool_calls=[{"name": name, "args": args, "id": "call-1", "type": "tool_call"}])


def graph_of(made: BaseTool) -> Any:
    return StateGraph(State).add_node("tools", ToolNode([made])).add_edge(START, "tools")


def state_tool(world: World) -> BaseTool:
    @tool
    def work(n: int, config: RunnableConfig) -> str:
        """Write into the state of the graph by hand, as file tools of agents do."""
        config["configurable"]["__pregel_send"]([("notes", [("by argument", n)])])
        get_config()["configurable"]["__pregel_send"]([("notes", [{"by context": n}])])
        return f"done {world.reach('tool')}"

    return work


def stream_tool(world: World) -> BaseTool:
    @tool
    def work(n: int, runtime: ToolRuntime) -> str:
        """Write to streams in all ways that there are."""
        get_stream_writer()({"by": "function", "n": n})
        runtime.stream_writer({"by": "runtime"})
        runtime.emit_output_delta("half of ")
        runtime.emit_output_delta({"the": "output"})
        return f"done {world.reach('tool')}"

    return work


def event_tool(world: World) -> BaseTool:
    @tool
    def work(n: int, config: RunnableConfig) -> str:
        """Dispatch custom events."""
        dispatch_custom_event("progress", {"n": n})
        dispatch_custom_event("progress", (n, "of config"), config=config)
        return f"done {world.reach('tool')}"

    return work


def model_tool(world: World) -> BaseTool:
    @tool
    def work(n: int) -> str:
        """Ask a model of its own, whose tokens are streamed."""
        return str(StreamingChat(world=world).invoke(f"What is {n}?").content)

    return work


def graph_tool(world: World) -> BaseTool:
    def inner(state: State) -> Any:
        get_stream_writer()("from inside")
        return {"messages": [StreamingChat(world=world).invoke(state["messages"])]}

    graph = StateGraph(State).add_node("inner", inner).add_edge(START, "inner").compile()

    @tool
    def work(n: int) -> str:
        """Run a graph of its own, which streams through the outer one."""
        return str(graph.invoke({"messages": [("user", f"What is {n}?")]})["messages"][-1].content)

    return work


def awaited(make: Callable[[World], BaseTool]) -> Callable[[World], BaseTool]:
    """Return a tool with a coroutine that does the same as the function of another tool."""

    def made(world: World) -> BaseTool:
        plain: Any = make(world)

        async def coroutine(**kwargs: Any) -> Any:
            await asyncio.sleep(0)
            if make is event_tool:
                await adispatch_custom_event("progress", "awaited")
                return f"done {world.reach('tool')}"
            return plain.func(**kwargs)

        coroutine.__signature__ = inspect.signature(plain.func)  # type: ignore[attr-defined]
        coroutine.__annotations__ = dict(plain.func.__annotations__)
        return tool("work", description="Work.")(coroutine)

    return made


MAKERS = [state_tool, stream_tool, event_tool, model_tool, graph_tool]


def run(world: World, make: Callable[[World], BaseTool], *, is_async: bool, auto: bool) -> Any:
    """Run a graph of one tool, and return everything that it did."""
    is_awaited = is_async and make in (state_tool, stream_tool, event_tool)
    made = awaited(make)(world) if is_awaited else make(world)
    graph = graph_of(made if auto else tape(made)).compile(checkpointer=InMemorySaver())
    heard = Heard()
    config = {**CONFIG, "callbacks": [heard]}
    given = {"messages": [asking("work", n=7)]}
    parts = streamed(graph, given, config, is_async=is_async, stream_mode=MODES, subgraphs=True)
    return by_task(parts), heard.events, graph.get_state(CONFIG).values


@pytest.mark.sweep
@pytest.mark.parametrize("auto", [True, False], ids=["automatic", "taped"])
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("make", MAKERS)
def test_what_a_tool_does_besides_is_done_again(
    make: Callable[[World], BaseTool], *, is_async: bool, auto: bool, world: World, tmp_path: Path
) -> None:
    """A replayed tool, or one stepped into, leaves the state, parts of all streams and events of the real one."""

    def drive(_: str) -> Any:
        return run(world, make, is_async=is_async, auto=auto)

    recorded, replayed = recorded_and_replayed(world, tmp_path / "c.yaml", drive, auto=auto)
    assert replayed.facts == recorded.facts
    runs_through = auto and make in {model_tool, graph_tool}
    assert [call_record.kind for call_record in replayed.session.report.replayed] == [
        "chat" if runs_through else "tool"
    ]
    assert sum(map(len, recorded.facts[0].values())) > 4


@tool
def echo(n: int) -> str:
    """Dispatch an event."""
    dispatch_custom_event("echo", n)
    return str(n)


def test_handlers_that_a_tool_hands_on_hear_once(world: World, tmp_path: Path) -> None:
    """A graph in a tool that gets the tool's config streams as in a plain run, though it has the handlers twice."""
    inner = graph_of(echo).compile()

    @tool
    def work(n: int, config: RunnableConfig) -> str:
        """Run a graph with the config of the tool."""
        return str(inner.invoke({"messages": [asking("echo", n=n)]}, config)["messages"][-1].content)

    def drive(_: str) -> Any:
        heard = Heard()
        given = {"messages": [asking("work", n=7)]}
        config: Any = {"callbacks": [heard]}
        parts = streamed(graph_of(work).compile(), given, config, is_async=False, stream_mode="tools", subgraphs=True)
        return [(part[-1]["event"], part[-1].get("tool_name")) for part in parts], heard.events

    plain = drive("plain")
    recorded, replayed = recorded_and_replayed(world, tmp_path / "c.yaml", drive)
    assert plain[1] == [("echo", 7)]
    assert recorded.facts == replayed.facts == plain


SCHEMA: Any = {"response_schema": {"type": "string"}} if "response_schema" in signature(interrupt).parameters else {}
"""Not every supported version lets a question say how the answer is to look."""


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_tool_asks_a_human_again(*, is_async: bool, world: World, tmp_path: Path) -> None:
    """A replayed tool that interrupts its graph does so again, with the same question, and depends on the answer."""

    @tool
    def work(n: int) -> str:
        """Ask, and ask again."""
        first = interrupt({"question": n}, **SCHEMA)
        return f"{first}, {interrupt('sure?')} at {world.reach('tool')}"

    def talk(*answers: str) -> Any:
        graph = graph_of(work).compile(checkpointer=InMemorySaver())
        turns: list[Any] = [{"messages": [asking("work", n=7)]}, *(Command(resume=answer) for answer in answers)]
        parts = [streamed(graph, turn, CONFIG, is_async=is_async, stream_mode=MODES) for turn in turns]
        return parts, graph.get_state(CONFIG)

    with use_cassette(tmp_path / "c.yaml", mode="all"):
        recorded = talk("yes", "very")
    world.gone = True
    with use_cassette(tmp_path / "c.yaml") as session:
        assert talk("yes", "very") == recorded
    assert len(session.report.replayed) == 3
    assert recorded[1].values["messages"][-1].content == "yes, very at 1"
    with pytest.raises(CassetteMissError, match="tool work"), use_cassette(tmp_path / "c.yaml", on_unused="ignore"):
        talk("yes", "not at all")


@pytest.mark.skipif(not SCHEMA, reason="a question cannot say how the answer is to look")
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("earlier", [0, 1])
def test_an_answer_that_does_not_fit_is_refused_again(
    *, is_async: bool, earlier: int, world: World, tmp_path: Path
) -> None:
    """It is not saved, in the replay either, so that the question can be answered once more."""

    @tool
    def work() -> str:
        """Ask how many."""
        said = [interrupt("sure?") for _ in range(earlier)]
        number: Any = interrupt("how many?", response_schema=int)  # type: ignore[call-arg, unused-ignore]
        return f"{said}, {number + 1} at {world.reach('tool')}"

    def talk() -> Any:
        saver = InMemorySaver()
        graph = graph_of(work).compile(checkpointer=saver)
        streamed(graph, {"messages": [asking("work")]}, CONFIG, is_async=is_async)
        for _ in range(earlier):
            streamed(graph, Command(resume="yes"), CONFIG, is_async=is_async)
        with pytest.raises(ValidationError) as refused:
            streamed(graph, Command(resume="many"), CONFIG, is_async=is_async)
        kept = graph.get_state(CONFIG)
        streamed(graph, Command(resume=2), CONFIG, is_async=is_async)
        return str(refused.value), vars(refused.value), kept, graph.get_state(CONFIG), saver.storage

    with use_cassette(tmp_path / "c.yaml", mode="all"):
        recorded = talk()
    world.gone = True
    with use_cassette(tmp_path / "c.yaml"):
        assert talk() == recorded
    assert recorded[3].values["messages"][-1].content.endswith("3 at 1")


def test_an_effect_of_a_framework_that_is_not_there_is_an_error() -> None:
    """An effect that cannot be applied again ends the replay."""
    for effect in ({"teleport": "home"}, "no effect of ours"):
        with pytest.raises(ConfigurationError, match=r"teleport|no effect of ours"):
            apply(effect)


def test_tools_outside_of_graphs_keep_their_events(world: World, tmp_path: Path) -> None:
    """A tool that is called by hand has no graph to write to; its events are dispatched again."""

    @tool
    def work(n: int) -> str:
        """Dispatch an event."""
        dispatch_custom_event("progress", {"n": n})
        return f"done {world.reach('tool')}"

    def drive(_: str) -> Any:
        heard = Heard()
        return work.invoke({"n": 1}, {"callbacks": [heard]}), heard.events

    recorded, replayed = recorded_and_replayed(world, tmp_path / "c.yaml", drive)
    assert replayed.facts == recorded.facts == ("done 1", [("progress", {"n": 1})])


def test_a_tool_that_leaves_for_another_node_does_so_again(world: World, tmp_path: Path) -> None:
    """A command of a graph inside a tool reaches the graph around it, whose tasks have other ids on each run."""

    def leave(state: State) -> Any:
        world.reach("leave")
        return Command(graph=Command.PARENT, goto="finish", update={"notes": ["left"]})

    inner = StateGraph(State).add_node("leave", leave).add_edge(START, "leave").compile()

    @tool
    def work(n: int) -> str:
        """Go elsewhere."""
        return str(inner.invoke({"messages": []}))

    builder = graph_of(work).add_node("finish", lambda _: {"notes": ["finished"]})

    def drive(_: str) -> Any:
        return builder.compile().invoke({"messages": [asking("work", n=1)]})["notes"]

    recorded, replayed = recorded_and_replayed(world, tmp_path / "c.yaml", drive, freeze=())
    assert recorded.facts == replayed.facts == ["left", "finished"]

"""A replay that asks for what was not recorded stops, says why, and cannot be talked out of it."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
    ToolRetryMiddleware,
)
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import StructuredTool, tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import RetryPolicy

from agenttape_core import use_cassette
from agenttape_core.errors import CassetteMissError, UnrecordedCallError

from ..kit.replaying import Twice
from .fakes import NativeChat, StreamingChat, World, asking_for, calling, in_turn

BACKGROUND = " ".join(f"word{n}" for n in range(300))
QUESTION = f"{BACKGROUND} What is the weather in Paris on a warm evening? {BACKGROUND}"


@pytest.fixture
def path(world: World, tmp_path: Path) -> Path:
    """A cassette that holds one question, and a world that is gone."""
    path = tmp_path / "weather.yaml"
    with use_cassette(path, mode="all"):
        NativeChat(world=world).invoke(QUESTION)
    world.gone = True
    return path


# -- what is said --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["invoke", "stream", "ainvoke", "astream"])
async def test_changed_prompt(shape: str, path: Path, world: World) -> None:
    """A changed prompt names the place, the nearest recording, the words that differ and how to record it."""
    model = NativeChat(world=world)
    asked = QUESTION.replace("Paris", "Rome")
    with pytest.raises(CassetteMissError) as miss, use_cassette(path, mode="none"):
        if shape == "invoke":
            model.invoke(asked)
        elif shape == "stream":
            list(model.stream(asked))
        elif shape == "ainvoke":
            await model.ainvoke(asked)
        else:
            [_ async for _ in model.astream(asked)]
    first, *rest = str(miss.value).splitlines()
    assert first == "NativeChat was called with a request that isn't in the cassette"
    said = "\n".join(rest)
    assert str(path) in said
    assert "closest   call 1" in said
    assert re.search(r"- .*weather in Paris on", said)
    assert re.search(r"\+ .*weather in Rome on", said)
    assert "word1 " not in said, "only what differs is shown, with a few words around it"
    assert len(said) < 1000
    assert 'mode="record"' in said
    assert f"{__file__}:" in said, "the place where the mode was given"


def test_changed_parameters(world: World, twice: Twice) -> None:
    """Another model, another tool or another stop word is another request, and the message says which."""

    def look_up(word: str) -> str:
        """Look a word up."""
        return word

    twice.record(lambda: NativeChat(world=world, model_name="small").bind_tools([look_up]).invoke(QUESTION, stop=["x"]))
    changed: dict[str, Callable[[], Any]] = {
        "large": lambda: NativeChat(world=world, model_name="large").bind_tools([look_up]).invoke(QUESTION, stop=["x"]),
        "stop": lambda: NativeChat(world=world, model_name="small").bind_tools([look_up]).invoke(QUESTION, stop=["y"]),
        "tools": lambda: NativeChat(world=world, model_name="small").invoke(QUESTION, stop=["x"]),
    }
    for word, ask in changed.items():
        with pytest.raises(CassetteMissError, match=word), twice.replays():
            ask()


def test_changed_conversation(world: World, twice: Twice) -> None:
    """In a long conversation only the message that changed is shown."""
    conversation = [("user", f"question number {n}") for n in range(20)]
    twice.record(lambda: NativeChat(world=world).invoke(conversation))
    conversation[7] = ("user", "question number seven")
    with pytest.raises(CassetteMissError) as miss, twice.replays():
        NativeChat(world=world).invoke(conversation)
    said = str(miss.value)
    assert "[7]" in said
    assert "seven" in said
    assert "[8]" not in said


def test_changed_tool_arguments(world: World, twice: Twice) -> None:
    """A tool called with other arguments: the message names them."""
    weather = weather_tool(world)
    twice.record(lambda: weather.invoke({"city": "Paris"}))
    with pytest.raises(CassetteMissError) as miss, twice.replays():
        weather.invoke({"city": "Rome"})
    said = str(miss.value)
    assert said.startswith("get_weather was called with a request")
    assert "Paris" in said
    assert "Rome" in said


# -- nobody may swallow it -----------------------------------------------------------------------------------------


def weather_tool(world: World) -> StructuredTool:
    """A tool whose errors become messages."""

    def get_weather(city: str) -> str:
        """Tell the weather."""
        return f"{city}: {world.reach('tool')}"

    return StructuredTool.from_function(get_weather, handle_tool_error=True, handle_validation_error=True)


def asked(city: str) -> dict[str, Any]:
    """The input of a tool node."""
    return {"messages": [calling(("get_weather", {"city": city}), number=1)]}


WAYS_TO_SWALLOW_A_MODEL: dict[str, Callable[[World], Any]] = {
    "fallbacks": lambda world: NativeChat(world=world).with_fallbacks([StreamingChat(world=world)]),
    "retry": lambda world: NativeChat(world=world).with_retry(wait_exponential_jitter=False),
    "fallback of a chain": lambda world: (RunnableLambda(lambda text: text) | NativeChat(world=world)).with_fallbacks(
        [RunnableLambda(lambda text: AIMessage("never mind"))]
    ),
    "batch": lambda world: RunnableLambda(
        lambda text: NativeChat(world=world).batch([text] * 2, return_exceptions=True)
    ),
    "agent with retries": lambda world: _asking(
        create_agent(NativeChat(world=world), [], middleware=[ModelRetryMiddleware(max_retries=2, initial_delay=0.0)])
    ),
    "agent that goes on": lambda world: _asking(
        create_agent(
            NativeChat(world=world),
            [],
            middleware=[ModelRetryMiddleware(max_retries=0, on_failure="continue", initial_delay=0.0)],
        )
    ),
    "agent with another model": lambda world: _asking(
        create_agent(NativeChat(world=world), [], middleware=[ModelFallbackMiddleware(StreamingChat(world=world))])
    ),
}


def _asking(agent: Any) -> Any:
    return RunnableLambda(lambda text: {"messages": [("user", text)]}) | agent


@pytest.mark.sweep
@pytest.mark.parametrize("how", WAYS_TO_SWALLOW_A_MODEL)
@pytest.mark.parametrize("is_async", [False, True])
async def test_model_miss_is_not_swallowed(how: str, is_async: bool, path: Path, world: World) -> None:
    """Fallbacks, retries and middleware let a model's miss through."""
    runnable = WAYS_TO_SWALLOW_A_MODEL[how](world)
    reached = False
    with pytest.raises(CassetteMissError, match=r"\+ something else"), use_cassette(path):
        await runnable.ainvoke("something else") if is_async else runnable.invoke("something else")
        reached = True
    assert not reached, "it stopped the run, not only the session"


MIDDLEWARE: dict[str, list[AgentMiddleware[Any, Any]]] = {
    "none": [],
    "tool retries": [ToolRetryMiddleware(max_retries=2, initial_delay=0.0)],
    "tool errors as messages": [ToolRetryMiddleware(max_retries=0, on_failure="continue", initial_delay=0.0)],
}


@pytest.mark.sweep
@pytest.mark.parametrize("how", MIDDLEWARE)
@pytest.mark.parametrize("is_async", [False, True])
async def test_tool_miss_is_not_swallowed(how: str, is_async: bool, world: World, tmp_path: Path) -> None:
    """An agent does not make a message of a tool's miss."""

    def agent_for(city: str, world: World, middleware: Sequence[AgentMiddleware[Any, Any]] = ()) -> Any:
        """An agent that asks for the weather in a city, then answers."""
        model = NativeChat(world=world, reply=in_turn([("get_weather", {"city": city})]))
        return create_agent(model, [weather_tool(world)], middleware=middleware)

    path = tmp_path / "agent.yaml"
    question = {"messages": [("user", "weather?")]}
    with use_cassette(path, mode="all"):
        agent_for("Paris", world).invoke(question)
    reached = False
    agent = agent_for("Rome", world, MIDDLEWARE[how])
    # The model is live: it asks for something that no tool was asked before.
    with pytest.raises(CassetteMissError, match="tool get_weather"), use_cassette(path, live={"chat"}):
        await agent.ainvoke(question) if is_async else agent.invoke(question)
        reached = True
    assert not reached
    assert world.reached == ["model", "tool", "model", "model"]


@pytest.mark.parametrize("is_async", [False, True])
async def test_tool_node_does_not_swallow(is_async: bool, world: World, twice: Twice) -> None:
    """`ToolNode(handle_tool_errors=True)` with a retry policy lets the miss through."""

    def tool_graph(world: World) -> Any:
        """A graph of one node that runs tools and eats their errors, and tries again besides."""
        builder = StateGraph(MessagesState)
        node = ToolNode([weather_tool(world)], handle_tool_errors=True)
        builder.add_node("tools", node, retry_policy=RetryPolicy(max_attempts=3, initial_interval=0.0, jitter=False))
        builder.add_edge(START, "tools")
        builder.add_edge("tools", END)
        return builder.compile()

    graph = tool_graph(world)
    twice.record(lambda: graph.invoke(asked("Paris")))
    reached = False
    with pytest.raises(CassetteMissError, match="Rome"), twice.replays():
        await graph.ainvoke(asked("Rome")) if is_async else graph.invoke(asked("Rome"))
        reached = True
    assert not reached


def test_miss_in_a_thread(path: Path, world: World) -> None:
    """A miss in a worker thread whose result is ignored fails the session, too."""
    seen: list[BaseException] = []

    def work() -> None:
        try:
            NativeChat(world=world).invoke("something else")
        except BaseException as error:
            seen.append(error)

    with pytest.raises(CassetteMissError), use_cassette(path, on_unused="ignore"):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert isinstance(seen[0], CassetteMissError)


# -- runs that continue after a miss -------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["sync", "async"])
async def test_another_model_with_recorded_tools(shape: str, world: World, tmp_path: Path) -> None:
    """A candidate model runs live against recorded tools; a call that was not recorded is an error it can read."""

    @tool
    def weather(city: str) -> str:
        """Tell the weather."""
        return f"sunny in {city} {world.reach('weather')}"

    path = tmp_path / "weather.yaml"
    question: Any = {"messages": [("user", "weather?")]}
    with use_cassette(path, mode="all"):
        create_agent(NativeChat(world=world, reply=asking_for("Paris")), [weather]).invoke(question)
    candidate = create_agent(NativeChat(world=world, reply=asking_for("Paris", "Rome")), [weather])
    with use_cassette(path, live={"chat"}, on_miss="return") as session:
        result = candidate.invoke(question) if shape == "sync" else await candidate.ainvoke(question)
    messages = [message for message in result["messages"] if isinstance(message, ToolMessage)]
    assert [message.status for message in messages] == ["success", "error"]
    assert messages[0].text == "sunny in Paris 2"
    assert messages[1].text == "The tool is not available."  # no words of ours, which would bias the candidate
    assert session.report.unrecorded[0].startswith("weather was called with a request")
    assert result["messages"][-1].text == f"said: {messages[1].text}"
    assert len(session.report.unrecorded) == 1
    assert world.reached.count("weather") == 1


def test_results_of_every_form(world: World, tmp_path: Path) -> None:
    """The error has the form that the caller of the tool expects: a text, a message, or one with an artifact."""

    def find(city: str) -> tuple[str, int]:
        return city, 1

    plain = StructuredTool.from_function(lambda city: city, name="plain", description="Plain.")
    both = StructuredTool.from_function(find, name="both", description="Both.", response_format="content_and_artifact")
    path = tmp_path / "tools.yaml"
    with use_cassette(path, mode="all"):
        pass
    with use_cassette(path, on_miss="return"):
        for subject in (plain, both):
            text = subject.invoke({"city": "Rome"})
            call = {"name": subject.name, "args": {"city": "Rome"}, "id": "c1", "type": "tool_call"}
            message = subject.invoke(call)
            assert text == "The tool is not available."
            assert (message.status, message.tool_call_id, message.name) == ("error", "c1", subject.name)
            assert message.text == text


def test_a_model_raises(world: World, tmp_path: Path) -> None:
    """A model has no error result: it raises an ordinary error, which fallbacks and retries may handle."""
    path = tmp_path / "chat.yaml"
    with use_cassette(path, mode="all"):
        NativeChat(world=world).invoke("recorded")
    with use_cassette(path, on_miss="return") as session:
        with pytest.raises(UnrecordedCallError, match="NativeChat was called with a request"):
            NativeChat(world=world).invoke("new")
        guarded = NativeChat(world=world).with_fallbacks([RunnableLambda(lambda _: "fallback")])
        assert guarded.invoke("newer") == "fallback"
    assert len(session.report.unrecorded) == 2

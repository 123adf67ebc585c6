"""Any program is tried with a model of any provider, untouched: however it comes by its models and asks them."""

# ruff: noqa: D103 - what is no test says by its name what it does

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib import import_module
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ModelFallbackMiddleware, wrap_model_call
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain.chat_models import init_chat_model
from langchain_anthropic import ChatAnthropic
from langchain_core.tools import tool
from langchain_ollama import ChatOllama
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from pydantic import BaseModel

from agenttape_core import boundary, open_cassette, use_cassette
from agenttape_core.errors import ConfigurationError, UnidentifiedModelWarning

from ..kit.replaying import Twice
from .fakes import NativeChat, World
from .parts import PARTS, FakeText
from .providers.loopback import Loopback
from .providers.messages_api import MessagesWire
from .providers.ollama_api import OllamaWire

QUESTION = "What is the weather in Paris?"


class Forecast(BaseModel):
    """A forecast."""

    city: str
    degrees: int


ran: list[str] = []


@tool
def get_weather(city: str) -> str:
    """Get the weather."""
    ran.append(city)
    return f"sunny in {city} {os.getpid()}"


class Services:
    """The model services on loopback, and what they were asked for since the last look."""

    def __init__(self, around: ExitStack) -> None:
        self._openai = around.enter_context(import_module("examples.weather_agent.server").OpenAILoopback())
        self.anthropic = around.enter_context(Loopback(MessagesWire()))
        self._ollama = around.enter_context(Loopback(OllamaWire()))
        self.environment = {
            "OPENAI_BASE_URL": self._openai.base_url,
            "OPENAI_API_KEY": "sk-any",
            "ANTHROPIC_BASE_URL": self.anthropic.url,
            "ANTHROPIC_API_KEY": "any",
            "OLLAMA_HOST": self._ollama.url,
        }
        self._seen = 0

    def asked(self) -> set[str]:
        """Return the names of the models that were asked since the last look."""
        bodies = [body for one in (self._openai, self.anthropic, self._ollama) for body in one.requests]
        for one in (self._openai, self.anthropic, self._ollama):
            one.requests.clear()
        return {body["model"] for body in bodies}


@pytest.fixture(scope="module")
def services() -> Iterator[Services]:
    """The services of three providers."""
    with ExitStack() as around:
        yield Services(around)


@pytest.fixture(autouse=True)
def _at_the_services(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in services.environment.items():
        monkeypatch.setenv(name, value)
    services.asked()
    ran.clear()


def openai(**options: Any) -> ChatOpenAI:
    return ChatOpenAI(model="gpt-5", max_retries=0, **options)


def texts_of(agent: Any) -> list[str]:
    return [message.text for message in agent.invoke({"messages": [("user", QUESTION)]})["messages"]]


def configurable() -> Any:
    model: Any = init_chat_model("openai:gpt-5", configurable_fields=("model",)).bind_tools([get_weather])
    return [call["name"] for call in model.invoke(QUESTION, {"configurable": {"model": "gpt-4.1"}}).tool_calls]


def structured() -> Any:
    whole = openai().with_structured_output(Forecast).invoke(QUESTION)
    return whole, list(openai().with_structured_output(Forecast, method="function_calling").stream(QUESTION))[-1]


def structured_by_ollama() -> Any:
    return ChatOllama(model="llama").with_structured_output(Forecast, method="json_schema").invoke(QUESTION)


def structured_by_anthropic() -> Any:
    model = ChatAnthropic(model="claude", max_retries=0)  # type: ignore[call-arg] - an alias
    return model.with_structured_output(Forecast, method="json_schema").invoke(QUESTION)


def agents_with_a_schema() -> Any:
    strategies: Any = (Forecast, ToolStrategy(Forecast), ProviderStrategy(Forecast))
    agents: Any = (create_agent(openai(), [get_weather], response_format=one) for one in strategies)
    return [agent.invoke({"messages": [("user", QUESTION)]})["structured_response"] for agent in agents]


def several_at_once() -> Any:
    async def both() -> Any:
        return await openai().abatch([QUESTION, f"{QUESTION}!"]), [part async for part in openai().astream(QUESTION)]

    whole, parts = asyncio.run(both())
    return [one.text for one in (*openai().batch([QUESTION, "Why?"]), *whole)], "".join(part.text for part in parts)


def middleware() -> Any:
    @wrap_model_call
    def pick(request: Any, handler: Any) -> Any:
        return handler(request.override(model=ChatOpenAI(model="gpt-4.1")))

    further: Any = [ModelFallbackMiddleware("openai:gpt-4.1"), pick]
    return texts_of(create_agent(openai(), [get_weather], middleware=further))


def streamed_graph() -> Any:
    agent: Any = create_agent(openai(), [get_weather])
    parts = agent.stream({"messages": [("user", QUESTION)]}, stream_mode="messages")
    return "".join(chunk.text for chunk, _ in parts)


def graph() -> Any:
    builder = StateGraph(MessagesState)
    builder.add_node("planner", lambda state: {"messages": [openai().invoke(state["messages"])]})
    builder.add_node("writer", lambda state: {"messages": [ChatOpenAI(model="gpt-4.1").invoke(state["messages"])]})
    builder.add_edge(START, "planner")
    builder.add_edge("planner", "writer")
    builder.add_edge("writer", END)
    return texts_of(builder.compile())


PROGRAMS: list[Callable[[], Any]] = [
    structured, structured_by_ollama, configurable, agents_with_a_schema, middleware, structured_by_anthropic,
    several_at_once, streamed_graph,
]  # fmt: skip
CANDIDATES: dict[str, Callable[[], Any]] = {
    "gpt-5-mini": lambda: "openai:gpt-5-mini",
    "claude-new": lambda: "anthropic:claude-new",
    "llama-new": lambda: ChatOllama(model="llama-new").bind(keep_alive=5),
}


TRIED = [(program, name) for program, name in zip(PROGRAMS, cycle(CANDIDATES), strict=False)]
"""Each program with one of the candidates in turn: a program does not know which one answers."""


@pytest.mark.parametrize(("program", "name"), TRIED, ids=lambda part: getattr(part, "__name__", part))
def test_a_program_is_tried(program: Any, name: str, services: Services, tmp_path: Path, twice: Twice) -> None:
    """Only the candidate is asked, no tool runs, and the derived cassette replays to the same end."""
    twice.record(program)
    services.asked()
    ran.clear()
    with twice.replays(candidate=CANDIDATES[name](), to=tmp_path / "derived.yaml"):
        found = program()
    assert (services.asked(), ran) == ({name}, [])
    with use_cassette(tmp_path / "derived.yaml"):
        assert program() == found
    assert services.asked() == set()


def test_candidates_by_node(services: Services, tmp_path: Path, twice: Twice) -> None:
    """A model is tried in the node that is named; the other one is the program's own, which hears something new."""
    twice.record(graph)
    services.asked()
    with twice.replays(candidate={"writer": "anthropic:claude-new"}) as session:
        graph()
    assert services.asked() == {"claude-new"}
    assert len(session.report.replayed) == 1
    both = {"planner": "openai:gpt-5-mini", "**/writer/**": "anthropic:claude-new"}
    with twice.replays(candidate=both, to=tmp_path / "both.yaml"):
        found = graph()
    assert services.asked() == {"gpt-5-mini", "claude-new"}
    with use_cassette(tmp_path / "both.yaml"):
        assert graph() == found


def test_one_tool_at_a_time(services: Services, twice: Twice) -> None:
    """That no two tools are to be called at once is said to the candidate in its own words."""
    twice.record(lambda: openai().invoke(QUESTION))
    services.asked()
    with twice.replays(candidate="anthropic:claude-new"):
        openai().bind_tools([get_weather], parallel_tool_calls=False).invoke(QUESTION)
        openai().bind_tools([get_weather]).invoke(QUESTION)
    choices = [body.get("tool_choice") for body in services.anthropic.requests]
    assert choices == [{"type": "auto", "disable_parallel_tool_use": True}, None]


@pytest.mark.parametrize("kind", PARTS["text model"].classes, ids=lambda kind: kind.__name__)
def test_a_text_model(kind: type[FakeText], world: World, tmp_path: Path) -> None:
    """A chat model is tried in the place of a text model, in each shape of a call: each prompt is a message to it."""
    model = kind(world=world)
    warnings.simplefilter("ignore", UnidentifiedModelWarning)  # of the one that says nothing of itself

    async def awaited() -> list[str]:
        return [*await model.abatch([QUESTION, "Why?"]), "".join([part async for part in model.astream(QUESTION)])]

    def program() -> list[str]:
        return [model.invoke(QUESTION), "".join(model.stream(QUESTION)), *asyncio.run(awaited())]

    with use_cassette(tmp_path / "run.yaml", mode="all"):
        program()
    other = World()
    with use_cassette(tmp_path / "run.yaml", candidate=NativeChat(world=other), to=tmp_path / "derived.yaml"):
        found = program()
    assert len(other.reached) == 5
    calls = list(open_cassette(tmp_path / "derived.yaml").interactions())
    assert {call.metadata["candidate"] for call in calls} == {"NativeChat:fake-1"}
    with use_cassette(tmp_path / "derived.yaml"):
        assert program() == found


def test_nothing_to_try(twice: Twice) -> None:
    """A candidate for a recording in which no model is asked is an error before anything runs."""

    @boundary("tool")
    def look(city: str) -> str:
        return city

    twice.record(lambda: look("Paris"))
    with (
        pytest.raises(ConfigurationError, match="none is recorded\n  record a run that asks one"),
        twice.replays(candidate="openai:gpt-5-mini"),
    ):
        pytest.fail("it was opened")

"""An observed run is a cassette, and observing changes nothing."""

from __future__ import annotations

import asyncio
import base64
import contextvars
import re
from collections.abc import Callable
from functools import reduce
from operator import add
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableLambda, RunnableParallel
from langchain_core.tools import BaseTool, InjectedToolCallId, StructuredTool, ToolException, tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command
from pydantic import BaseModel

from agenttape_core import Interaction, open_cassette, use_cassette
from agenttape_core.errors import ConfigurationError
from agenttape_core.integration.threads import enter_branch
from agenttape_core.matching import Branch
from agenttape_langchain import TapeCallbackHandler

from .fakes import FakeChat, NativeChat, PlainChat, StreamingChat, World, calling, numbered

Build = Callable[[World], Runnable[Any, Any]]
Way = Callable[[Runnable[Any, Any], Any], list[Any]]


class Report(BaseModel):
    city: str
    degrees: int


# -- the world of the agents ---------------------------------------------------------------------------------------


def times(world: World, what: str) -> int:
    """Reach the world; how often it was reached so. Unlike its own count, it is the same in whatever order."""
    world.reach(what)
    return world.reached.count(what)


def tools_of(world: World) -> list[BaseTool]:
    """Tools that return text, an artifact, a command, and that have their error handled."""

    @tool
    def weather(city: str) -> str:
        """Tell the weather."""
        return f"{city}: {times(world, 'weather')} degrees"

    @tool(response_format="content_and_artifact")
    def chart(city: str) -> tuple[str, dict[str, Any]]:
        """Draw a chart."""
        return f"a chart of {city}", {"points": (1, times(world, "chart")), "raw": b"\x00\xff"}

    @tool
    def note(text: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Write into the state."""
        return Command(update={"messages": [ToolMessage(f"{text} {times(world, 'note')}", tool_call_id=tool_call_id)]})

    def rate(currency: str) -> str:
        """Look up a rate."""
        raise ToolException(f"no rate for {currency}, ticket {times(world, 'rate')}")

    return [weather, chart, note, StructuredTool.from_function(rate, handle_tool_error=True)]


ALL_TOOLS = (
    ("weather", {"city": "Paris"}),
    ("chart", {"city": "Paris"}),
    ("note", {"text": "hello"}),
    ("rate", {"currency": "EUR"}),
)


def first_calls(*wanted: tuple[str, dict[str, Any]]) -> Callable[[Any, int], AIMessage]:
    """A model that first calls these tools at once, and answers when it has seen their results."""

    def reply(messages: Any, number: int) -> AIMessage:
        if isinstance(messages[-1], ToolMessage):
            return numbered(messages, number)
        return calling(*wanted, number=number)

    return reply


def agent_of(world: World, model: type[FakeChat] = PlainChat, **options: Any) -> Runnable[Any, Any]:
    """An agent that calls each tool once, all in parallel."""
    return create_agent(model(world=world, reply=first_calls(*ALL_TOOLS)), tools_of(world), **options)


def nested_of(world: World) -> Runnable[Any, Any]:
    """A graph with a chain in one node and an agent, whose tool is an agent again, in another."""
    inner = create_agent(PlainChat(world=world, reply=first_calls(ALL_TOOLS[0])), tools_of(world), name="inner")

    @tool
    def ask_expert(question: str) -> str:
        """Ask an agent."""
        answer: str = inner.invoke({"messages": [("user", question)]})["messages"][-1].text
        return answer

    outer = create_agent(PlainChat(world=world, reply=first_calls(("ask_expert", {"question": "Rain?"}))), [ask_expert])
    chain = RunnableLambda(lambda state: state["messages"][-1].text) | PlainChat(world=world)
    graph = StateGraph(MessagesState)
    graph.add_node("chain", lambda state: {"messages": [chain.invoke(state)]})
    graph.add_node("agent", outer)
    graph.add_edge(START, "chain")
    graph.add_edge("chain", "agent")
    return graph.compile()


def parallel_of(world: World) -> Runnable[Any, Any]:
    """Two branches that ask a model the same."""
    branches = RunnableParallel(left=PlainChat(world=world), right=StreamingChat(world=world))
    return RunnableLambda(lambda given: given["messages"][-1][1]) | branches


RUNS: dict[str, Build] = {
    "agent": agent_of,
    "streaming agent": lambda world: agent_of(world, StreamingChat),
    "native agent": lambda world: agent_of(world, NativeChat),
    "structured": lambda world: create_agent(
        PlainChat(world=world, reply=lambda _, n: calling(("Report", {"city": "Paris", "degrees": n}), number=n)),
        response_format=ToolStrategy(Report),
    ),
    "nested": nested_of,
    "parallel": parallel_of,
}
QUESTION = {"messages": [("user", "What is the weather?")]}


def invoked(run: Runnable[Any, Any], config: Any) -> Any:
    """`invoke`."""
    return [run.invoke(QUESTION, config)]


def awaited(run: Runnable[Any, Any], config: Any) -> Any:
    """`ainvoke`."""
    return [asyncio.run(run.ainvoke(QUESTION, config))]


def streamed(run: Runnable[Any, Any], config: Any) -> Any:
    """`stream`."""
    return list(run.stream(QUESTION, config))


def astreamed(run: Runnable[Any, Any], config: Any) -> Any:
    """`astream`."""

    async def drain() -> list[Any]:
        return [part async for part in run.astream(QUESTION, config)]

    return asyncio.run(drain())


def events(run: Runnable[Any, Any], config: Any) -> Any:
    """`astream_events`, of which the last has the result."""

    async def drain() -> list[Any]:
        all_events = [event async for event in run.astream_events(QUESTION, config, version="v2")]
        return [all_events[-1]["data"]["output"]]

    return asyncio.run(drain())


WAYS = {way.__name__: way for way in (invoked, awaited, streamed, astreamed, events)}


def outcome(parts: list[Any]) -> list[Any]:
    """The results of a run; the order in which parallel branches end is free, also without a recorder."""
    return sorted((told(part) for part in parts), key=repr)


def told(value: Any) -> Any:
    """A result as comparable data, without the ids that LangGraph draws for messages that no boundary gave."""
    if isinstance(value, BaseMessage):
        plain = value.model_dump()
        if not isinstance(value, AIMessage):
            del plain["id"]
        return [type(value).__name__, plain]
    if isinstance(value, dict):
        return {key: told(item) for key, item in value.items()}
    return [told(item) for item in value] if isinstance(value, list | tuple) else value


@pytest.fixture
def handler(tmp_path: Path) -> TapeCallbackHandler:
    """A handler with a file to write."""
    return TapeCallbackHandler(tmp_path / "observed.yaml")


def observing(handler: TapeCallbackHandler) -> Any:
    """The config of an observed run."""
    return {"callbacks": [handler]}


# -- an observed run is a cassette ---------------------------------------------------------------------------------


@pytest.mark.sweep
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", RUNS)
def test_observed_run_replays(name: str, way: str, world: World, handler: TapeCallbackHandler) -> None:
    """Every shape of run, however it is called, replays from what was observed: equal, and nothing is executed."""
    run = RUNS[name](world)
    observed = WAYS[way](run, observing(handler))
    assert handler.errors == []
    world.gone = True
    with use_cassette(handler.path) as replay:
        replayed = WAYS[way](run, None)
    assert outcome(replayed) == outcome(observed)
    assert {call_record.match_rule for call_record in replay.report.replayed} == {"exact"}
    assert replay.report.recorded == replay.report.unused == ()


@pytest.mark.sweep
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", RUNS)
def test_handler_and_session_identify_calls_alike(name: str, way: str, tmp_path: Path) -> None:
    """Kind, name, address, fingerprint and nesting of each call are those that a recording session computes."""

    def identity(path: Path) -> list[tuple[str, str, str, str, str | None]]:
        """The kind, address and parent of each interaction of a cassette.

        Without the marks of concurrent branches (`~1`), which only a session can tell apart before they start.
        """
        recorded = list(open_cassette(path).interactions())
        places = {interaction.number: re.sub(r"~[\d.]+", "", interaction.address) for interaction in recorded}
        return sorted((i.kind, i.name, places[i.number], i.fingerprint, places.get(i.parent or 0)) for i in recorded)

    handler = TapeCallbackHandler(tmp_path / "observed.yaml")
    WAYS[way](RUNS[name](World()), observing(handler))
    with use_cassette(tmp_path / "taped.yaml", mode="once", freeze=()):  # a handler freezes nothing
        WAYS[way](RUNS[name](World()), None)
    assert identity(handler.path) == identity(tmp_path / "taped.yaml")


@pytest.mark.parametrize(
    ("first", "then"), [("invoked", "astreamed"), ("astreamed", "invoked"), ("streamed", "awaited")]
)
def test_observed_one_way_replays_another(first: str, then: str, world: World, handler: TapeCallbackHandler) -> None:
    """A run observed streaming serves a plain call, a sync one serves an async one, and the other way round."""
    run = agent_of(world, NativeChat)
    WAYS[first](run, observing(handler))
    world.gone = True
    with use_cassette(handler.path) as replay:
        WAYS[then](run, None)
    assert len(replay.report.replayed) == 6
    assert replay.report.recorded == ()


def test_closed_stream_is_observed_as_closed(world: World, handler: TapeCallbackHandler) -> None:
    """A reader who stops early leaves a recording of as many chunks as it read, which replays as far."""
    model = StreamingChat(world=world)
    stream = model.stream("Hi", observing(handler))
    observed = [next(stream), next(stream)]
    stream.close()
    closed = open_cassette(handler.path).outcome(1)
    assert (closed.status, closed.ended, len(closed.chunks or ())) == ("streamed", "closed", 2)
    world.gone = True
    with use_cassette(handler.path):
        again = model.stream("Hi")
        assert [next(again), next(again)] == observed
        again.close()


def test_tool_errors_replay_as_what_they_were(world: World, handler: TapeCallbackHandler) -> None:
    """A tool that raises past the agent raises the same again, and the failed run is on the file."""

    @tool
    def broken(x: int) -> str:
        """Break."""
        raise ValueError(f"{x} is too much, {world.reach('broken')}")

    agent = create_agent(PlainChat(world=world, reply=first_calls(("broken", {"x": 3}))), [broken])
    with pytest.raises(ValueError, match="3 is too much, 2"):
        agent.invoke(QUESTION, observing(handler))
    world.gone = True
    with use_cassette(handler.path) as replay, pytest.raises(ValueError, match="3 is too much, 2"):
        agent.invoke(QUESTION)
    assert [call_record.name for call_record in replay.report.replayed] == ["PlainChat", "broken"]


def test_wrong_arguments_are_no_call(world: World, handler: TapeCallbackHandler) -> None:
    """A tool that refused its arguments never ran: nothing is recorded of it, and it refuses again on replay."""
    agent = create_agent(PlainChat(world=world, reply=first_calls(("weather", {"town": 1}))), tools_of(world))
    observed = agent.invoke(QUESTION, observing(handler))
    assert "Field required" in observed["messages"][2].text
    assert [entry.kind for entry in open_cassette(handler.path).entries] == ["chat", "chat"]
    world.gone = True
    with use_cassette(handler.path):
        assert told(agent.invoke(QUESTION)) == told(observed)


def test_failing_model_replays_its_error(world: World, handler: TapeCallbackHandler) -> None:
    """A model's error is recorded with its type, and a retry that then worked works again."""

    def reply(messages: Any, number: int) -> AIMessage:
        if number == 1:
            raise TimeoutError("too slow")
        return numbered(messages, number)

    model = PlainChat(world=world, reply=reply).with_retry(
        retry_if_exception_type=(TimeoutError,), wait_exponential_jitter=False
    )
    observed = model.invoke("Hi", observing(handler))
    outcomes = [interaction.outcome for interaction in open_cassette(handler.path).interactions()]
    assert [outcome.status for outcome in outcomes] == ["raised", "returned"]
    world.gone = True
    with use_cassette(handler.path):
        assert model.invoke("Hi") == observed


BYTES = base64.b64encode(b"not really an image").decode()
BLOCKS: dict[str, dict[str, Any]] = {
    "openai image": {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{BYTES}"}},
    "image": {"type": "image", "base64": BYTES, "mime_type": "image/png"},
    "old image": {"type": "image", "source_type": "base64", "data": BYTES, "mime_type": "image/png"},
    "openai audio": {"type": "input_audio", "input_audio": {"data": BYTES, "format": "wav"}},
    "audio": {"type": "audio", "base64": BYTES, "mime_type": "audio/wav"},
    "openai file": {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{BYTES}"}},
    "file": {"type": "file", "base64": BYTES, "mime_type": "application/pdf"},
    "old file": {"type": "file", "source_type": "base64", "data": BYTES, "mime_type": "a/b", "filename": "a.pdf"},
    "file with id": {"type": "file", "base64": BYTES, "mime_type": "application/pdf", "id": "mine", "extras": {"a": 1}},
    "file by id": {"type": "file", "file_id": "file-1"},
    "openai file by id": {"type": "file", "file": {"file_id": "file-1"}},
    "file by url": {"type": "file", "url": "https://example.org/a.pdf", "mime_type": "application/pdf"},
}


@pytest.mark.sweep
@pytest.mark.parametrize("way", [invoked, streamed])
@pytest.mark.parametrize("block", BLOCKS)
def test_content_blocks_match(block: str, way: Way, world: World, handler: TapeCallbackHandler) -> None:
    """Callbacks and leaf calls get blocks of media in different forms, and still mean the same request."""

    def question() -> list[HumanMessage]:
        return [HumanMessage([{"type": "text", "text": "What is this?"}, dict(BLOCKS[block])])]

    model = StreamingChat(world=world)
    run: Runnable[Any, Any] = RunnableLambda(lambda _: question()) | model
    observed = way(run, observing(handler))
    assert handler.errors == []
    world.gone = True
    with use_cassette(handler.path):
        assert way(run, None) == observed


# -- one handler, many runs ----------------------------------------------------------------------------------------


def test_runs_are_added_to_the_file(world: World, handler: TapeCallbackHandler) -> None:
    """After each run the file holds all runs so far, and it replays them in their order."""
    agent = agent_of(world)
    observed = []
    for runs in (1, 2, 3):
        observed.append(agent.invoke(QUESTION, observing(handler)))
        assert len(open_cassette(handler.path).entries) == 6 * runs
    world.gone = True
    with use_cassette(handler.path) as replay:
        assert told([agent.invoke(QUESTION) for _ in observed]) == told(observed)
    assert {call_record.match_rule for call_record in replay.report.replayed} == {"exact"}


def test_old_file_is_replaced(world: World, handler: TapeCallbackHandler) -> None:
    """The first observed run replaces a file that an earlier process left at the path."""
    PlainChat(world=world).invoke("Hi", observing(handler))
    PlainChat(world=world).invoke("Ho", observing(TapeCallbackHandler(handler.path)))
    (only,) = open_cassette(handler.path).interactions()
    assert only.request["messages"][0]["content"] == "Ho"


async def test_tasks_share_a_handler(world: World, handler: TapeCallbackHandler) -> None:
    """Runs that overlap in tasks are kept apart: each request is recorded with its own answer."""
    model = NativeChat(world=world, reply=lambda messages, _: AIMessage(f"you said {messages[-1].text}"))

    async def read(number: int) -> str:
        chunks = []
        async for chunk in model.astream(f"{number}", observing(handler)):
            chunks.append(chunk)
            await asyncio.sleep(0)  # let the others go on
        return reduce(add, chunks).text

    assert await asyncio.gather(*map(read, range(4))) == [f"you said {n}" for n in range(4)]
    world.gone = True
    async with use_cassette(handler.path):
        assert [await read(number) for number in range(4)] == [f"you said {n}" for n in range(4)]


def test_abandoned_stream_of_an_agent_does_not_hold_the_file_back(world: World, handler: TapeCallbackHandler) -> None:
    """A reader who leaves an agent's stream ends the run: what was finished is on the file, and the next run too."""
    agent = agent_of(world)
    stream = agent.stream(QUESTION, observing(handler))
    next(stream)
    stream.close()
    finished = len(open_cassette(handler.path).entries)
    assert finished >= 1
    agent.invoke(QUESTION, observing(handler))
    assert len(open_cassette(handler.path).entries) == finished + 6


async def test_cancelled_run_leaves_what_it_finished(world: World, handler: TapeCallbackHandler) -> None:
    """Cancelling a run in the middle of a tool keeps the model call before it, and no answer of the tool."""
    started = asyncio.Event()

    @tool
    async def wait(x: int) -> str:
        """Wait for ever."""
        started.set()
        await asyncio.Event().wait()
        return ""

    agent = create_agent(PlainChat(world=world, reply=first_calls(("wait", {"x": 1}))), [wait])
    running = asyncio.create_task(agent.ainvoke(QUESTION, observing(handler)))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    chat, *others = open_cassette(handler.path).interactions()
    assert (chat.kind, chat.name) == ("chat", "PlainChat")
    # Before langchain-core 1.8.2, callbacks were not told that a tool was cancelled.
    assert [(one.kind, one.outcome.status) for one in others] in ([], [("tool", "cancelled")])


def request_text(interaction: Interaction) -> str:
    """The last words of the request."""
    return str(interaction.request["messages"][-1]["content"])


# -- observing changes nothing -------------------------------------------------------------------------------------


def test_unwritable_folder_does_not_break_the_run(world: World, tmp_path: Path) -> None:
    """A disk that refuses is an error of the handler and not of the run."""
    (tmp_path / "file").write_text("in the way of a folder")
    handler = TapeCallbackHandler(tmp_path / "file" / "observed.yaml")
    assert PlainChat(world=world).invoke("Hi", observing(handler)).text == "answer 1 to Hi"
    assert handler.errors
    assert (tmp_path / "file").read_text() == "in the way of a folder"


def test_bad_options_fail_at_once(tmp_path: Path) -> None:
    """A mistake in the options is an error where the handler is made, not a silent hole in production."""
    with pytest.raises(ConfigurationError):
        TapeCallbackHandler(tmp_path / "observed.yaml", tags=[1])  # type: ignore[list-item]


def test_tags_and_packing(world: World, tmp_path: Path) -> None:
    """Tags are in the header, and the suffix decides the layout: packed JSON lines replay as well."""
    handler = TapeCallbackHandler(tmp_path / "observed.jsonl.gz", tags=["incident", "417"])
    model = PlainChat(world=world)
    observed = model.invoke("Hi", observing(handler))
    assert open_cassette(handler.path).header.tags == ["incident", "417"]
    world.gone = True
    with use_cassette(handler.path):
        assert model.invoke("Hi") == observed


# -- secrets and crashes -------------------------------------------------------------------------------------------


def test_secrets_are_in_no_byte(world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Secrets in prompts, arguments, answers, chunks and errors reach neither file, nor journal, nor log."""
    secret = "sk-" + uuid4().hex + uuid4().hex
    seen: list[bytes] = []

    def files() -> bytes:
        return b"".join(path.read_bytes() for path in tmp_path.iterdir())

    @tool
    def spill(text: str) -> str:
        """Spill."""
        seen.append(files())  # the journal
        raise ValueError(f"refused {text}")

    def reply(messages: Any, number: int) -> AIMessage:
        if isinstance(messages[-1], ToolMessage):
            return AIMessage(f"the key is {secret} indeed")
        return calling(("spill", {"text": secret}), number=number, text=f"I try {secret} now")

    agent = create_agent(
        StreamingChat(world=world, reply=reply), [spill.model_copy(update={"handle_tool_error": True})]
    )
    handler = TapeCallbackHandler(tmp_path / "observed.yaml")
    question = {"messages": [("user", f"my key is {secret}")]}
    with pytest.raises(ValueError, match="refused"):
        list(agent.stream(question, observing(handler), stream_mode="messages"))
    assert seen[0].count(b"REDACTED") >= 2
    assert secret.encode() not in seen[0] + files()
    assert secret not in caplog.text + repr(handler.errors)
    world.gone = True
    with use_cassette(handler.path), pytest.raises(ValueError, match=f"refused {secret}"):
        agent.invoke(question)


def test_observes_after_a_session_that_was_left_elsewhere(world: World, tmp_path: Path) -> None:
    """A strand that an earlier session left in the context says nothing about where an observed call stands."""
    handler = TapeCallbackHandler(tmp_path / "observed.yaml")

    def observe() -> None:
        enter_branch(Branch((1,)))
        PlainChat(world=world).invoke("hi", observing(handler))

    contextvars.copy_context().run(observe)
    assert [entry.address for entry in open_cassette(handler.path).entries] == ["PlainChat"]

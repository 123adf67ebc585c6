"""Another model is tried on a recorded run: `candidate=`, with the tools held still."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from socket import create_connection
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from pydantic import BaseModel

from agenttape_core import open_cassette, use_cassette
from agenttape_core.cli.app import run as command
from agenttape_core.errors import ConfigurationError, NetworkBlockedError, UnrecordedCallsError

from .fakes import FakeChat, NativeChat, PlainChat, World, asking_for, calling

QUESTION: Any = {"messages": [("user", "weather?")]}


class Abroad(PlainChat):
    """A model of another client: it binds tools in a form of its own, and has no stream."""

    seen: list[Any] = []  # noqa: RUF012 - a field

    def bind_tools(self, tools: Sequence[Any], *, tool_choice: str | None = None, **kwargs: Any) -> Any:
        """Bind the names of the tools."""
        return self.bind(offered=[tool["function"]["name"] for tool in tools], chosen=tool_choice)

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        self.seen.append((kwargs, stop, [message.text for message in messages]))
        return self.result(messages)


class Speechless(FakeChat):
    """Calls no tools."""

    bind_tools = FakeChat.__mro__[1].bind_tools  # type: ignore[assignment] - that of the interface


@pytest.fixture
def weather(world: World) -> BaseTool:
    """A tool that reaches the world."""

    @tool
    def weather(city: str) -> str:
        """Tell the weather."""
        return f"sunny in {city} {world.reach('weather')}"

    return weather


@pytest.fixture
def run(world: World, weather: BaseTool) -> Callable[[str], list[BaseMessage]]:
    """Run the program, in one of four ways, and return its messages."""

    def once(shape: str = "invoke") -> list[BaseMessage]:
        agent: Any = create_agent(NativeChat(world=world, reply=asking_for("Paris")), [weather])
        if shape == "invoke":
            return agent.invoke(QUESTION)["messages"]  # type: ignore[no-any-return]
        if shape == "ainvoke":
            return asyncio.run(agent.ainvoke(QUESTION))["messages"]  # type: ignore[no-any-return]
        modes = ["messages", "values"]
        if shape == "stream":
            return list(agent.stream(QUESTION, stream_mode=modes))[-1][1]["messages"]  # type: ignore[no-any-return]

        async def stream() -> list[Any]:
            return [part async for part in agent.astream(QUESTION, stream_mode=modes)]

        return asyncio.run(stream())[-1][1]["messages"]  # type: ignore[no-any-return]

    return once


@pytest.fixture
def recorded(run: Callable[..., Any], tmp_path: Path) -> Path:
    """The recording of the program with its own model."""
    path = tmp_path / "weather.yaml"
    with use_cassette(path, mode="all"):
        run()
    return path


@pytest.mark.sweep
@pytest.mark.parametrize("shape", ["invoke", "ainvoke", "stream", "astream"])
@pytest.mark.parametrize("kind", [NativeChat, Abroad])
def test_a_whole_program(  # noqa: PLR0917 - fixtures
    kind: type[FakeChat], shape: str, run: Any, recorded: Path, world: World, tmp_path: Path
) -> None:
    """The candidate answers in each shape of a call, no tool is executed, and the derived cassette has the same end."""

    def texts(messages: Sequence[BaseMessage]) -> list[str]:
        """Return what the messages say."""
        return [message.text for message in messages]

    reached = len(world.reached)
    candidate = kind(world=world, reply=asking_for("Paris", "Rome", "Paris"))
    derived = tmp_path / "derived.yaml"
    told: list[dict[str, Any]] = []
    with use_cassette(recorded, candidate=candidate, to=derived, events=told.append) as session:
        messages = run(shape)
    assert {(event["subject"], event["run_id"]) for event in told} == {("replayEvent", session.report.run_id)}
    assert [event["event"] for event in told].count("call.refused") == 2
    refused = "The tool is not available."
    assert texts(messages) == ["weather?", "", "sunny in Paris 2", "", refused, "", refused, f"said: {refused}"]
    assert world.reached[reached:] == ["model"] * 4
    assert [(one.kind, one.name, one.nearest) for one in session.report.unrecorded] == [("tool", "weather", 2)] * 2
    assert session.report.unrecorded[0].to_dict()["request"] == {"name": "weather", "arguments": {"city": "Rome"}}
    assert session.report.unrecorded[1].reason == "was called again with a request that was recorded only once"
    cassette = open_cassette(derived)
    calls = list(cassette.interactions())
    assert [call.outcome.status for call in calls if call.kind == "tool"] == ["returned", "refused", "refused"]
    assert {call.metadata["candidate"] for call in calls if call.kind == "chat"} == {f"{kind.__name__}:fake-1"}
    assert cassette.preface.origin == {"candidate": f"{kind.__name__}:fake-1"}
    with use_cassette(derived) as replay:
        assert texts(run(shape)) == texts(messages)
    assert str(replay.report) == "7 replayed, 0 recorded"


@pytest.mark.parametrize("live", [(), ("weather",)])
def test_a_block_that_asks_no_model_is_no_trial(
    live: Sequence[str], weather: BaseTool, run: Any, recorded: Path, world: World
) -> None:
    """A block that only calls a tool, replayed or live, has tried nothing, and fails; one that asks a model has."""
    candidate = NativeChat(world=world, reply=asking_for("Paris"))
    with (
        pytest.raises(ConfigurationError, match=r"weather\.yaml: the candidate was not tried: the run asked no model"),
        use_cassette(recorded, candidate=candidate, live=live),
    ):
        weather.invoke({"city": "Paris"})
    with use_cassette(recorded, candidate=candidate, live=live):
        run()


def test_no_word_of_ours_reaches_the_candidate(run: Any, recorded: Path, world: World) -> None:
    """What a candidate reads of a refused tool is the sentence that was chosen, and nothing else."""
    candidate = Abroad(world=world, reply=asking_for("Rome"))
    with use_cassette(recorded, candidate=candidate, unavailable="Not today."):
        run()
    read = candidate.seen[-1][2]
    assert read == ["weather?", "", "Not today."]
    assert candidate.seen[0][0] == {"offered": ["weather"], "chosen": None}


CHOICES = {
    "any": "any",
    "required": "any",
    "weather": "weather",
    "none": "none",
    "auto": None,
}


@pytest.mark.parametrize("choice", CHOICES)
def test_the_tool_choice_and_the_stop_words(choice: str, world: World, weather: BaseTool, tmp_path: Path) -> None:
    """Another client gets the choice of tools in the words that all of them take, and the stop words."""
    path = tmp_path / "c.yaml"
    model = ChatOpenAI(model="gpt-5", api_key="none", base_url="http://127.0.0.1:1")
    bound = model.bind_tools([weather], tool_choice=choice).bind(stop=["!"], model="gpt-4")
    with use_cassette(path, mode="all", http=False):
        NativeChat(world=world).invoke("hello")
    candidate = Abroad(world=world)
    with use_cassette(path, candidate=candidate) as session:
        bound.invoke("hello")
    assert candidate.seen == [({"offered": ["weather"], "chosen": CHOICES[choice]}, ["!"], ["hello"])]
    assert session.interactions[-1].request["model"] == "gpt-4"  # what the program asks is compared, and recorded


class Weather(BaseModel):
    """The weather."""

    city: str


def test_a_schema_for_another_provider(world: World, tmp_path: Path) -> None:
    """An answer that is to follow a schema, in the way of one provider, is a tool for the candidate of another."""
    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="all"):
        NativeChat(world=world).invoke("hello")
    model = ChatOpenAI(model="gpt-5", api_key="none", base_url="http://127.0.0.1:1")
    candidate = Abroad(world=world, reply=lambda _, number: calling(("Weather", {"city": "Rome"}), number=number))
    with use_cassette(path, candidate=candidate):
        found = model.with_structured_output(Weather, method="json_schema").invoke("where?")
    assert found == Weather(city="Rome")
    assert candidate.seen[0][0] == {"offered": ["Weather"], "chosen": "Weather"}


def test_a_candidate_of_another_provider_is_asked_in_its_form(world: World, weather: BaseTool) -> None:
    """Tools that OpenAI was offered reach Anthropic in its spelling, with equal names and schemas."""
    from agenttape_langchain.candidates import _in_its_form, made

    options = ChatOpenAI(model="gpt-5", api_key="none").bind_tools([weather], tool_choice="weather").kwargs
    found = made(ChatAnthropic(model="claude-x", api_key="none"))
    assert found is not None
    asked = _in_its_form(found, options, lambda: None)
    assert [each["name"] for each in asked.options["tools"]] == ["weather"]
    assert asked.options["tools"][0]["input_schema"]["required"] == ["city"]
    assert asked.options["tool_choice"] == {"type": "tool", "name": "weather"}


def test_models_by_place(run: Any, recorded: Path, world: World) -> None:
    """A candidate is tried at its place; the other chat calls are replayed, and executed for want of a recording."""
    candidate = NativeChat(world=world, reply=asking_for("Paris"))
    address = "LangGraph/model@3/NativeChat"
    with use_cassette(recorded, candidate={address: candidate}) as session:
        run()
    assert [call_record.address for call_record in session.report.recorded] == [address]
    rome = NativeChat(world=world, reply=asking_for("Rome"))
    with use_cassette(recorded, candidate={"LangGraph/model@1/*": rome}) as session:
        run()
    assert len(session.report.recorded) == 2  # the second asks something new, and the program's own model answers


def test_fakes(run: Any, recorded: Path, world: World, tmp_path: Path) -> None:
    """A function of the user answers what was never recorded; its answer is tagged, and replays."""
    derived = tmp_path / "derived.yaml"
    candidate = NativeChat(world=world, reply=asking_for("Paris", "Rome"))
    fakes = {"weather": lambda city: f"rain in {city}"}
    with use_cassette(recorded, candidate=candidate, fakes=fakes, to=derived) as session:
        messages = run()
    assert messages[-1].text == "said: rain in Rome"
    assert str(session.report) == "1 replayed, 3 recorded, 1 faked"
    assert [call.tags for call in open_cassette(derived).interactions() if call.kind == "tool"] == [[], ["faked"]]
    with use_cassette(derived):
        assert run()[-1].text == "said: rain in Rome"


@pytest.mark.parametrize(
    ("hint", "runs"),
    [
        ({"metadata": {"idempotent": True}}, True),
        ({"metadata": {"readOnlyHint": True, "destructiveHint": False}}, True),
        ({"extras": {"idempotent": True}}, True),
        ({"metadata": {"idempotentHint": False, "title": "Weather"}}, False),
        ({}, False),
    ],
)
def test_idempotent_tools(  # noqa: PLR0917 - fixtures
    hint: dict[str, Any],
    runs: bool,
    run: Any,
    recorded: Path,
    weather: BaseTool,
    world: World,
) -> None:
    """A tool that says that it may be called again is executed where it has no recording, and only there."""
    for name, value in hint.items():
        setattr(weather, name, value)
    candidate = NativeChat(world=world, reply=asking_for("Paris", "Rome"))
    before = world.reached.count("weather")
    with use_cassette(recorded, candidate=candidate, live={"idempotent"}) as session:
        run()
    assert world.reached.count("weather") - before == int(runs)
    assert len(session.report.unrecorded) == int(not runs)


def test_drift_may_fail(run: Any, recorded: Path, world: World) -> None:
    """With `on_unrecorded="fail"` the run fails at its end, and the error names the calls."""
    with (
        pytest.raises(
            UnrecordedCallsError, match="the run made 1 unrecorded call\n  weather was called with a request"
        ),
        use_cassette(recorded, candidate=NativeChat(world=world, reply=asking_for("Rome")), on_unrecorded="fail"),
    ):
        run()


def test_only_the_candidate_may_connect(recorded: Path, world: World) -> None:
    """What the program does besides the candidate's call is refused the network, as without a candidate."""
    with (
        pytest.raises(NetworkBlockedError),
        use_cassette(recorded, candidate=NativeChat(world=world)),
        create_connection(("127.0.0.1", 9)),
    ):
        pass


def bad(world: World) -> dict[str, tuple[Any, str]]:
    """Return what is no candidate, and what is said about it."""
    speechless = Speechless(world=world)
    return {
        "unknown provider": ("nobody:x", "Unable to infer model provider"),
        "no model named": ("openai:", "it names no model"),
        "not installed": ("cohere:x", "langchain-cohere"),
        "no model": (7, "it isn't a chat model"),
        "no tools": (speechless, "it calls no tools, and call 1"),
        "no tools there": ({"model": speechless}, "it calls no tools"),
        "no such place": ({"modell": NativeChat(world=world)}, "no recorded call of .* is selected; there are model"),
    }


@pytest.mark.parametrize("what", list(bad(World())))
def test_bad_candidates(what: str, recorded: Path, world: World) -> None:
    """What cannot be tried is refused before anything runs."""
    candidate, said = bad(world)[what]
    with pytest.raises(ConfigurationError, match=said), use_cassette(recorded, candidate=candidate):
        pytest.fail("it was opened")


@pytest.mark.parametrize("mode", ["all", "new_episodes", "update"])
def test_a_recording_has_no_candidate(mode: Any, recorded: Path, world: World) -> None:
    """A session that records with a candidate is refused: its cassette would not be that of the program."""
    with (
        pytest.raises(ConfigurationError, match="records"),
        use_cassette(recorded, mode=mode, candidate=NativeChat(world=world)),
    ):
        pass


def test_bad_fakes_and_targets(recorded: Path, world: World) -> None:
    """A fake that is awaited is refused, and so is a cassette that would be derived from itself."""

    async def fake() -> None: ...

    with pytest.raises(ConfigurationError, match="expected a function that is not awaited"):
        use_cassette(recorded, fakes={"weather": fake})
    with (
        pytest.raises(ConfigurationError, match="cannot be derived from itself"),
        use_cassette(recorded, candidate=NativeChat(world=world), to=recorded),
    ):
        pass


def test_by_the_environment(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name may come from the environment, also by place."""
    for given in ("nobody:x", "model=nobody:x"):
        monkeypatch.setenv("AGENTTAPE_CANDIDATE", given)
        with pytest.raises(ConfigurationError, match="candidate='nobody:x'"), use_cassette(recorded):
            pass


# -- what a candidate may do with tools ----------------------------------------------------------------------------

ToolCall = tuple[str, dict[str, str]]
WEATHER: ToolCall = ("weather", {"city": "Paris"})
NEWS: ToolCall = ("news", {"city": "Paris"})
KINDS: dict[str, tuple[list[ToolCall], int]] = {
    "the same call": ([WEATHER], 0),
    "other arguments": ([("weather", {"city": "Rome"})], 1),
    "another tool": ([NEWS], 1),
    "too often": ([WEATHER, WEATHER], 1),
}
"""The calls of a candidate, and how many of them leave the recorded world."""


@pytest.fixture
def tools(world: World) -> list[Any]:
    """Tools that reach the world."""

    @tool
    def weather(city: str) -> str:
        """Tell the weather."""
        return f"sunny in {city} {world.reach('tool')}"

    @tool
    def news(city: str) -> str:
        """Tell the news."""
        return f"none of {city} {world.reach('tool')}"

    return [weather, news]


def loop(model: Any, tools: list[Any]) -> str:
    """A loop of plain code."""
    messages: list[Any] = [("user", "?")]
    bound, by_name = model.bind_tools(tools), {each.name: each for each in tools}
    while (answer := bound.invoke(messages)).tool_calls:
        messages += [answer, *(by_name[call["name"]].invoke(call) for call in answer.tool_calls)]
    return str(answer.text)


def agent(model: Any, tools: list[Any]) -> str:
    """An agent of LangChain."""
    return str(create_agent(model, tools).invoke({"messages": [("user", "?")]})["messages"][-1].text)  # type: ignore[typeddict-item]


def graph(model: Any, tools: list[Any]) -> str:
    """A graph of LangGraph."""
    builder = StateGraph(MessagesState)
    builder.add_node("model", lambda state: {"messages": [model.bind_tools(tools).invoke(state["messages"])]})
    builder.add_node("tools", ToolNode(tools))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", tools_condition)
    builder.add_edge("tools", "model")
    return str(builder.compile().invoke({"messages": [("user", "?")]})["messages"][-1].text)  # type: ignore[arg-type]


@pytest.mark.sweep
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("program", [loop, agent, graph], ids=lambda program: program.__name__)
def test_tools_are_held_still(  # noqa: PLR0917 - fixtures
    program: Callable[..., str],
    kind: str,
    tools: list[Any],
    world: World,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What was recorded is replayed, the rest is refused, kept and shown, and the derived cassette has the same end."""

    def replying(*calls: ToolCall) -> Callable[[Sequence[BaseMessage], int], AIMessage]:
        """Return the replies of a model that makes calls in turn, then says what it has read."""

        def reply(messages: Sequence[BaseMessage], number: int) -> AIMessage:
            told = [message.text for message in messages if isinstance(message, ToolMessage)]
            return calling(calls[len(told)], number=number) if len(told) < len(calls) else AIMessage(f"read {told}")

        return reply

    calls, refused = KINDS[kind]
    own = NativeChat(world=world, reply=replying(WEATHER))
    cassette, derived = tmp_path / "run.yaml", tmp_path / "derived.yaml"
    with use_cassette(cassette, mode="all"):
        program(own, tools)
    executed = world.reached.count("tool")
    with use_cassette(cassette, candidate=NativeChat(world=world, reply=replying(*calls)), to=derived) as tried:
        answer = program(own, tools)
    assert world.reached.count("tool") == executed
    assert answer.count("The tool is not available.") == len(tried.report.unrecorded) == refused
    items = [item for item in open_cassette(derived).interactions() if item.kind == "tool"]
    assert [item.outcome.status for item in items].count("refused") == refused
    with use_cassette(derived) as replay:
        assert program(own, tools) == answer
    assert not replay.report.recorded
    assert command(["diff", str(cassette), str(derived)]) == 0
    said = capsys.readouterr().out
    assert ("refused" in said) == bool(refused)
    assert command(["show", str(derived)]) == 0
    assert capsys.readouterr().out.count("! refused: no recording; answered") == refused

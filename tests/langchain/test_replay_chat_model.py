"""A model made of a cassette stands in for the one that was recorded, with no provider package."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from functools import reduce
from importlib import import_module
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

from agenttape_core import open_cassette, use_cassette
from agenttape_core.errors import CassetteMissError, CassetteNotFoundError, ConfigurationError
from agenttape_langchain import ReplayChatModel, tape

from ..kit.replaying import Twice
from .fakes import PlainChat, StreamingChat, World, by_key, calling, numbered

if TYPE_CHECKING:
    from examples.weather_agent.server import OpenAILoopback


class Trip(BaseModel):
    """A trip to a city."""

    city: str
    days: int


class TripDict(TypedDict):
    """A trip to a city."""

    city: str
    days: int


TRIP_SCHEMA = {"title": "Trip", "description": "A trip to a city.", **Trip.model_json_schema()}


@tool
def get_weather(city: str) -> str:
    """Get the weather in a city."""
    return f"{city}: sunny"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of the cassette."""
    return tmp_path / "chats.yaml"


@pytest.fixture
def chat(loopback: OpenAILoopback) -> ChatOpenAI:
    """The real client, and a service that never answers twice the same."""
    return ChatOpenAI(model="gpt-5-mini", base_url=loopback.base_url, api_key="x", stream_usage=True, temperature=1)


def recorded(path: Path, run: Callable[[], Any], mode: str = "once") -> Any:
    """The results of a run that was recorded with real ids: the stand-in has no frozen ones."""
    with use_cassette(path, mode=mode, freeze=()):
        return run()


def no_ids(value: Any) -> Any:
    """A message without its id where that is made of a run's, which no provider gave."""
    if isinstance(value, dict):
        return {key: no_ids(item) for key, item in value.items()}
    if isinstance(value, list):
        return [no_ids(item) for item in value]
    drawn = isinstance(value, AIMessage) and str(value.id).startswith("lc_run-")
    return value.model_copy(update={"id": None}) if drawn else value


# -- every way of calling it ---------------------------------------------------------------------------------------


def test_stream_and_invoke_serve_each_other(chat: ChatOpenAI, path: Path) -> None:
    """A recorded stream serves a plain call, and a plain recording can be streamed."""
    streamed, plain = recorded(path, lambda: (list(chat.stream("one")), chat.invoke("two")))
    replay = ReplayChatModel(path)
    assert replay.invoke("one").content == reduce(add, streamed).content
    assert reduce(add, replay.stream("two")).content == plain.content


def test_recorded_error_is_raised_again(chat: ChatOpenAI, loopback: OpenAILoopback, path: Path) -> None:
    """A provider's error has its own type and status again, so that retries and handlers see what they saw."""
    import openai

    loopback.fail_next(429, times=9)
    with pytest.raises(openai.RateLimitError), use_cassette(path, mode="once", on_error="keep"):
        chat.invoke("Hi")
    with pytest.raises(openai.RateLimitError, match="failing as told") as caught:
        ReplayChatModel(path).invoke("Hi")
    assert caught.value.status_code == 429


# -- tools and structured output -----------------------------------------------------------------------------------


def test_bound_tools_are_recognised_in_any_spelling(chat: ChatOpenAI, path: Path) -> None:
    """A tool is known by name, description and fields, whether it is an object or any provider's dict."""
    expected = recorded(path, lambda: chat.bind_tools([get_weather], tool_choice="any").invoke("Paris?"))
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    said = {"name": "get_weather", "description": "Get the weather in a city."}
    spellings: list[Any] = [
        get_weather,
        {"type": "function", "function": {**said, "parameters": schema, "strict": True}},
        {"type": "function", **said, "parameters": schema},
        {**said, "input_schema": schema},
    ]
    by_name = {"type": "function", "function": {"name": "get_weather"}}
    choices: list[Any] = ["any", "required", True, "get_weather", by_name]
    for spelling in spellings:
        for choice in choices:
            bound = ReplayChatModel(path).bind_tools([spelling], tool_choice=choice)
            assert no_ids(bound.invoke("Paris?")) == no_ids(expected)


@pytest.mark.parametrize(
    ("changed", "differs"),
    [
        ({"description": "Get the weather on Mars."}, r"tools\[get_weather\].function.description"),
        ({"name": "get_climate"}, r"tools\[get_weather\].function.name"),
        ({"parameters": {"type": "object", "properties": {"town": {"type": "string"}}}}, r"parameters.properties"),
    ],
)
def test_another_tool_is_a_miss(chat: ChatOpenAI, path: Path, changed: dict[str, Any], differs: str) -> None:
    """A tool with another name, description or field is another request, and the miss says where."""
    recorded(path, lambda: chat.bind_tools([get_weather]).invoke("Paris?"))
    from langchain_core.utils.function_calling import convert_to_openai_tool

    other = convert_to_openai_tool(get_weather)
    other["function"].update(changed)
    with pytest.raises(CassetteMissError, match=differs):
        ReplayChatModel(path).bind_tools([other]).invoke("Paris?")


@pytest.mark.sweep
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # of the real client, when it streams a model
@pytest.mark.parametrize("include_raw", [False, True], ids=["parsed", "raw"])
@pytest.mark.parametrize("schema", [Trip, TripDict, TRIP_SCHEMA], ids=["pydantic", "TypedDict", "JSON schema"])
@pytest.mark.parametrize("method", ["json_schema", "function_calling", "json_mode"])
def test_structured_output(
    chat: ChatOpenAI, loopback: OpenAILoopback, path: Path, *, method: Any, schema: Any, include_raw: bool
) -> None:
    """However it was recorded, structured output comes as the same object, plain and streamed; `method` may be left."""
    if method == "json_mode":
        script = import_module("weather_agent.policy").Script
        loopback.policy = script(json.dumps({"city": "Rome", "days": days}) for days in (2, 3))

    def run(model: Any, **how: Any) -> list[Any]:
        structured = model.with_structured_output(schema, include_raw=include_raw, **how)
        streamed = list(structured.stream("In JSON: a trip to Oslo?"))
        return [structured.invoke("In JSON: a trip to Rome?"), by_key(streamed) if include_raw else streamed]

    expected = recorded(path, lambda: run(chat, method=method))
    for how in [{"method": method}, {}] if method != "json_mode" else [{"method": method}]:
        replay = ReplayChatModel(path)
        assert no_ids(run(replay, **how)) == no_ids(expected)
        assert len(replay.report.replayed) == 2


def test_methods_are_told_apart(chat: ChatOpenAI, path: Path) -> None:
    """If a cassette holds a question by two methods, `method` selects the answer."""
    by_tool, by_format = recorded(
        path,
        lambda: [
            chat.with_structured_output(Trip, method=method).invoke("Rome?")
            for method in ("function_calling", "json_schema")
        ],
    )
    assert by_tool != by_format
    replay = ReplayChatModel(path)
    assert replay.with_structured_output(Trip, method="json_schema").invoke("Rome?") == by_format
    assert replay.with_structured_output(Trip, method="function_calling").invoke("Rome?") == by_tool


# -- agents --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"response_format": ToolStrategy(Trip)},
        {"response_format": ProviderStrategy(Trip)},
        {"response_format": Trip},
    ],
    ids=["tools", "ToolStrategy", "ProviderStrategy", "plain schema"],
)
def test_agent_with_the_stand_in_does_what_it_did(chat: ChatOpenAI, path: Path, options: dict[str, Any]) -> None:
    """An agent with a stand-in takes the same way, by tool calls or by a response format, to the same result."""

    def run(model: Any) -> tuple[list[Any], Any]:
        agent = create_agent(model, [get_weather], system_prompt="Be short.", **options)
        state = agent.invoke({"messages": [("user", "A trip to Paris?")]})
        messages = [message.model_dump(exclude={"id"}) for message in state["messages"]]
        return messages, state.get("structured_response")

    expected = recorded(path, lambda: run(chat))
    replay = ReplayChatModel(path)
    assert run(replay) == expected
    chats = [entry for entry in open_cassette(path).entries if entry.kind == "chat"]
    assert len(replay.report.replayed) == len(chats) >= 1


def test_agent_streams_through_the_stand_in(chat: ChatOpenAI, path: Path) -> None:
    """`stream_mode="messages"` gives the recorded chunks of the model, in order."""

    def run(model: Any) -> list[str]:
        agent = create_agent(model, [get_weather])
        parts = agent.stream({"messages": [("user", "Paris?")]}, stream_mode="messages")
        return [repr((part.content, getattr(part, "tool_call_chunks", None))) for part, _ in parts]

    expected = recorded(path, lambda: run(chat))
    assert len(expected) > 6
    assert run(ReplayChatModel(path)) == expected


# -- what matches --------------------------------------------------------------------------------------------------


def test_models_are_told_apart_by_name(loopback: OpenAILoopback, path: Path) -> None:
    """With two models in a cassette, `model=` selects one; without it, their recordings answer in order."""

    def ask(name: str) -> str:
        return str(ChatOpenAI(model=name, base_url=loopback.base_url, api_key="x").invoke("Hi").text)

    big, small = recorded(path, lambda: (ask("gpt-big"), ask("gpt-small")))
    assert big != small
    assert ReplayChatModel(path, model="gpt-small").invoke("Hi").text == small
    assert ReplayChatModel(path, model="gpt-big").invoke("Hi").text == big
    both = ReplayChatModel(path)
    assert [both.invoke("Hi").text, both.invoke("Hi").text] == [big, small]


def test_parameters_of_the_call_are_matched(chat: ChatOpenAI, path: Path) -> None:
    """The model's own parameters are the recording's, but what a call gives must be what was given."""
    warm, cold, plain = recorded(
        path, lambda: [chat.invoke("Hi", **given) for given in ({"temperature": 0.9}, {"temperature": 0.1}, {})]
    )
    replay = ReplayChatModel(path)
    assert replay.invoke("Hi", temperature=0.1).text == cold.text
    assert replay.bind(temperature=0.9).invoke("Hi").text == warm.text
    assert replay.invoke("Hi").text == plain.text
    with pytest.raises(CassetteMissError) as caught:
        replay.invoke("Hi", temperature=0.5)
    assert "temperature" in str(caught.value)
    assert "0.5" in str(caught.value)


def test_stop_words_are_matched(chat: ChatOpenAI, path: Path) -> None:
    """Other stop words are another request."""
    expected = recorded(path, lambda: chat.invoke("Hi", stop=["END"]))
    assert ReplayChatModel(path).invoke("Hi", stop=["END"]).text == expected.text
    for stop in (None, ["FIN"]):
        with pytest.raises(CassetteMissError):
            ReplayChatModel(path).invoke("Hi", stop=stop)


def test_changed_prompt_is_explained(chat: ChatOpenAI, path: Path) -> None:
    """A miss names the nearest recording, shows the words that differ, and is no `Exception` that one may eat."""
    recorded(path, lambda: [chat.invoke("What is the capital of France?"), chat.invoke("Who are you?")])
    model = ReplayChatModel(path).with_fallbacks([PlainChat(world=World())]).with_retry()
    with pytest.raises(CassetteMissError) as caught:
        model.invoke("What is the capital of Spain?")
    message = str(caught.value)
    assert "closest   call 1" in message
    assert "- What is the capital of France?" in message
    assert "+ What is the capital of Spain?" in message
    assert "you?" not in message
    assert str(path) in message


@pytest.mark.parametrize(("on_repeat", "answers"), [("last", "1 2 2 2 2"), ("cycle", "1 2 1 2 1")])
def test_exhausted_recordings(path: Path, on_repeat: Any, answers: str) -> None:
    """Called more often than recorded, it gives the last answer again, or all of them from the start."""
    model = PlainChat(world=World(), reply=lambda _, number: AIMessage(f"{number}"))
    recorded(path, lambda: [model.invoke("Hi"), model.invoke("Hi")])
    replay = ReplayChatModel(path, on_repeat=on_repeat)
    assert " ".join(replay.invoke("Hi").text for _ in range(5)) == answers


@pytest.mark.usefixtures("often")
def test_equal_questions_of_a_batch_are_answered_in_order(path: Path) -> None:
    """Equal inputs of a batch get the recorded answers in their order; where these take time, each comes once."""
    model = PlainChat(world=World(), reply=lambda _, number: AIMessage(f"{number}"))
    recorded(path, lambda: [model.invoke("Hi") for _ in range(40)])
    expected = [f"{number}" for number in range(1, 41)]
    assert [answer.text for answer in ReplayChatModel(path).batch(["Hi"] * 40)] == expected
    found = dict(ReplayChatModel(path).batch_as_completed(["Hi"] * 40))
    assert [found[place].text for place in range(40)] == expected
    paced = ReplayChatModel(path, pace="recorded").batch(["Hi"] * 40)
    assert sorted((answer.text for answer in paced), key=int) == expected


def test_exhausted_recordings_fail(path: Path) -> None:
    """By default the third question after two recordings is a miss that says so; a new instance starts over."""
    model = PlainChat(world=World())
    recorded(path, lambda: [model.invoke("Hi"), model.invoke("Hi")])
    replay = ReplayChatModel(path)
    answers = [replay.invoke("Hi").text for _ in range(2)]
    with pytest.raises(CassetteMissError, match="recorded only 2 times"):
        replay.invoke("Hi")
    assert ReplayChatModel(path).invoke("Hi").text == answers[0]


def test_secrets_of_the_asker_come_back(path: Path) -> None:
    """A cassette without the secret still answers whoever asks with it, and the secret is in the answer again."""
    secret = "sk-" + "a1B2c3D4e5" * 4
    model = PlainChat(world=World(), reply=lambda messages, _: AIMessage(f"you said {messages[-1].text}"))
    recorded(path, lambda: model.invoke(f"my key is {secret}"))
    assert secret not in path.read_text("utf-8")
    assert ReplayChatModel(path).invoke(f"my key is {secret}").text == f"you said my key is {secret}"


# -- under a session -----------------------------------------------------------------------------------------------


def test_stand_in_can_be_taped(path: Path, tmp_path: Path) -> None:
    """A session leaves a stand-in alone, which answers from its own cassette; one that is taped is recorded."""
    model = StreamingChat(world=World())
    recorded(path, lambda: [model.invoke("one"), list(model.stream("two"))])

    def run(stand_in: Any) -> list[Any]:
        return [stand_in.invoke("one").text, [chunk.text for chunk in stand_in.stream("two")]]

    expected = recorded(tmp_path / "automatic.yaml", lambda: run(ReplayChatModel(path)))
    assert not open_cassette(tmp_path / "automatic.yaml").entries
    with use_cassette(tmp_path / "taped.yaml", mode="once"):
        assert run(tape(ReplayChatModel(path))) == expected
    spent = ReplayChatModel(path)
    run(spent)
    with use_cassette(tmp_path / "taped.yaml") as replay:
        assert run(tape(spent)) == expected
    assert len(replay.report.replayed) == 2


def test_miss_inside_a_session_is_not_swallowed(path: Path, tmp_path: Path) -> None:
    """A miss of the stand-in passes through a recording session as what it is, and leaves no cassette."""
    recorded(path, lambda: PlainChat(world=World()).invoke("one"))
    with pytest.raises(CassetteMissError), use_cassette(tmp_path / "outer.yaml", mode="once"):
        ReplayChatModel(path).invoke("another")
    assert not (tmp_path / "outer.yaml").exists()


# -- mistakes ------------------------------------------------------------------------------------------------------


def test_missing_cassette(tmp_path: Path) -> None:
    """Constructing from nothing names the file and says what to do."""
    with pytest.raises(CassetteNotFoundError, match=r"nothing\.yaml") as caught:
        ReplayChatModel(tmp_path / "nothing.yaml")
    assert "record" in str(caught.value)


def test_cassette_without_chats(path: Path) -> None:
    """A cassette of tools alone makes no model, and the error says so."""
    recorded(path, lambda: get_weather.invoke({"city": "Paris"}))
    with pytest.raises(ConfigurationError, match="holds no chat") as caught:
        ReplayChatModel(path)
    assert str(path) in str(caught.value)


def test_unknown_model_lists_the_known(path: Path) -> None:
    """For a model that was not recorded, the error names those that were."""
    recorded(path, lambda: PlainChat(world=World(), model_name="fake-7").invoke("Hi"))
    with pytest.raises(ConfigurationError, match=r"no chat of the model 'gpt-5'.*'fake-7'"):
        ReplayChatModel(path, model="gpt-5")


def test_name_of_a_model_that_had_none(tmp_path: Path) -> None:
    """If the recorded models have no name, the message says to ask for none."""
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        GenericFakeChatModel(messages=iter([AIMessage("Hi.")])).invoke("Hello")
    with pytest.raises(ConfigurationError, match="a model without a name\n  leave out the `model`"):
        ReplayChatModel(tmp_path / "c.yaml", model="gpt-5")


# -- cost ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the records that are parsed whole, as they are."""
    from agenttape_core.storage import Cassette

    numbers: list[int] = []
    real = Cassette.interaction

    def interaction(self: Cassette, number: int) -> Any:
        numbers.append(number)
        return real(self, number)

    monkeypatch.setattr(Cassette, "interaction", interaction)
    return numbers


def test_each_record_is_read_once(path: Path, parsed: list[int]) -> None:
    """Constructing reads each chat once and no tool; a call reads no request again, also of a long conversation."""

    def reply(messages: Any, number: int) -> AIMessage:
        return numbered(messages, number) if number > 8 else calling(("get_weather", {"city": "Rome"}), number=number)

    agent = create_agent(PlainChat(world=World(), reply=reply), [get_weather])
    question = {"messages": [HumanMessage("Rome?")]}
    expected = recorded(path, lambda: agent.invoke(question))
    chats = [entry.number for entry in open_cassette(path).entries if entry.kind == "chat"]
    assert len(chats) == 9
    replay = ReplayChatModel(path)
    assert parsed == chats
    replayed = create_agent(replay, [get_weather]).invoke(question)
    assert parsed == chats
    assert replayed["messages"][-1].text == expected["messages"][-1].text
    assert sum(isinstance(message, ToolMessage) for message in replayed["messages"]) == 8


def test_a_model_without_parameters(twice: Twice) -> None:
    """A recorded model that names no parameters at all is replayed."""
    recorded = GenericFakeChatModel(messages=iter([AIMessage("one")]))
    twice.record(lambda: recorded.invoke("hi"))
    assert ReplayChatModel(twice.path).invoke("hi").content == "one"


async def test_a_miss_gets_out_of_async_calls(twice: Twice) -> None:
    """A miss of an awaited call is raised as itself, with handlers attached too."""
    recorded = GenericFakeChatModel(messages=iter([AIMessage("one")]))
    twice.record(lambda: recorded.invoke("hi"))
    model = ReplayChatModel(twice.path)
    with pytest.raises(CassetteMissError):
        await model.ainvoke("ho", config={"callbacks": [BaseCallbackHandler()]})


def test_settings_of_the_project_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    """A stand-in has the settings of its project, even if it's pickled, unless its own options differ."""
    monkeypatch.chdir(tmp_path)
    recorded(tmp_path / "one.yaml", lambda: PlainChat(world=world).invoke("Hi"))
    settings = '[tool.agenttape]\nmatch_on = ["exact", "request", "address"]\non_repeat = "last"\n'
    (tmp_path / "pyproject.toml").write_text(settings, encoding="utf-8")
    assert ReplayChatModel("one.yaml").invoke("Hello").text == "answer 1 to Hi"
    sent = pickle.dumps(ReplayChatModel("one.yaml"))
    monkeypatch.chdir("/")
    elsewhere = pickle.loads(sent)
    assert [elsewhere.invoke(said).text for said in ("Hello", "Hi")] == ["answer 1 to Hi"] * 2
    monkeypatch.chdir(tmp_path)
    model = ReplayChatModel("one.yaml")
    assert [model.invoke("Hi").text for _ in range(2)] == ["answer 1 to Hi"] * 2
    strict = ReplayChatModel("one.yaml", on_repeat="fail")
    strict.invoke("Hi")
    with pytest.raises(CassetteMissError):
        strict.invoke("Hi")

"""Every way of calling a chat model is recorded, and replayed equal, whichever way it was recorded."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import TYPE_CHECKING, Any

import pytest
from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableBinding
from langchain_openai import ChatOpenAI
from langchain_openai.chat_models.base import BaseChatOpenAI
from pydantic import BaseModel, Field

from agenttape_core import open_cassette, use_cassette
from agenttape_core.errors import ConfigurationError
from agenttape_langchain import ReplayChatModel, tape

from ..kit.replaying import Twice
from .fakes import FAKES, DelegatingChat, FakeChat, NativeChat, StreamingChat, World, calling
from .shapes import QUESTION, SHAPES, abatch, ainvoke, answer_of, astream, astream_events_v2, batch, invoke, stream

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from examples.weather_agent.server import OpenAILoopback

pytestmark = [
    pytest.mark.filterwarnings("ignore:astream_events version='v1' is deprecated"),
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings"),  # langchain-openai, streaming a parsed object
]


# -- how a model takes part ---------------------------------------------------------------------------------------


def plain(model: Any) -> Any:
    """Leave the model as it is: the session tapes it."""
    return model


WAYS = {"automatic": (plain, True), "taped": (tape, False)}
each_way = pytest.mark.parametrize("way", WAYS)


@pytest.mark.sweep
@each_way
@pytest.mark.parametrize("fake", FAKES)
@pytest.mark.parametrize("shape", SHAPES)
async def test_replays_what_it_recorded(shape: Any, fake: type[FakeChat], way: str, world: World, twice: Twice) -> None:
    """Replayed in the shape of the recording, everything is equal: chunks, ids, events; and nothing is executed."""
    wrap, automatic = WAYS[way]
    model = wrap(fake(world=world))
    await twice.awaited(lambda: shape(model), auto=automatic)
    assert len(twice.recording.report.recorded) == len(world.reached) == 1, "recorded once, however the leaves delegate"
    assert str(twice.replay.report) == "1 replayed, 0 recorded"


@pytest.mark.sweep
@pytest.mark.parametrize("fake", FAKES)
@pytest.mark.parametrize("recorded_by", SHAPES)
async def test_any_shape_serves_any_other(recorded_by: Any, fake: type[FakeChat], world: World, twice: Twice) -> None:
    """A recording serves every other shape with the same text, tool calls and token counts."""

    def reply(messages: Any, number: int) -> AIMessage:
        call = calling(("look_up", {"words": ["a", "b"], "deep": {"n": number}}), number=number, text=f"wait {number}")
        return call.model_copy(update={"usage_metadata": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}})

    model = fake(world=world, reply=reply)
    with twice.records():
        recorded = answer_of(await recorded_by(model))
    with twice.replays(on_repeat="cycle"):  # one session, as opening one takes longer than a call
        for shape in SHAPES:
            assert answer_of(await shape(model)) == recorded


# -- a real provider, and everything that is built around a model --------------------------------------------------


def look_up(word: str) -> str:
    """Look a word up."""
    return word


class Joke(BaseModel):
    """A joke to tell."""

    setup: str = Field(description="how it starts")
    stars: int = 3


JOKE = {
    "title": "joke",
    "description": "A joke.",
    "type": "object",
    "properties": {"setup": {"type": "string"}, "stars": {"type": "integer"}},
    "required": ["setup", "stars"],
    "additionalProperties": False,
}

BUILT: dict[str, Callable[[Any], Any]] = {
    "a forced tool": lambda model: model.bind_tools([look_up, Joke], tool_choice="Joke"),
    "stop words": lambda model: model.bind(stop=["number"]),
    "json schema": lambda model: model.with_structured_output(Joke),
    "json mode": lambda model: model.with_structured_output(JOKE, method="json_mode"),
    "with the raw answer": lambda model: model.with_structured_output(Joke, include_raw=True),
    "fallbacks with tools": lambda model: model.with_fallbacks([model]).bind_tools([look_up]),
    "retries with tools": lambda model: model.bind_tools([look_up]).with_retry(stop_after_attempt=2),
}


def chat(server: OpenAILoopback, **options: Any) -> ChatOpenAI:
    """OpenAI's own client, on the loopback."""
    return ChatOpenAI(
        **{"model": "gpt-5-mini", "base_url": server.base_url, "api_key": "x", "max_retries": 0, **options}
    )


@pytest.mark.sweep
@each_way
@pytest.mark.parametrize("built", BUILT)
async def test_what_is_built_around_a_model(built: str, way: str, loopback: OpenAILoopback, tmp_path: Path) -> None:
    """Bound tools, structured output, fallbacks and retries give the same on replay, in every shape."""
    wrap, automatic = WAYS[way]
    runnable = BUILT[built](wrap(chat(loopback)))
    calls = [invoke, ainvoke, stream, astream, batch, abatch, astream_events_v2]
    path = tmp_path / "chat.yaml"
    with use_cassette(path, mode="all", auto=automatic):
        recorded = [await shape(runnable) for shape in calls]
    assert loopback.calls == len(calls)
    loopback.stop()
    with use_cassette(path, auto=automatic) as replay:
        replayed = [await shape(runnable) for shape in calls]
    if built == "with the raw answer":  # its parsers run in parallel threads: the framework's order is by chance
        recorded, replayed = ([sorted(map(repr, seen)) for seen in all_seen] for all_seen in (recorded, replayed))
    assert replayed == recorded
    assert len(replay.report.replayed) == len(calls)


@pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning")
@pytest.mark.parametrize("fake", [StreamingChat, DelegatingChat, NativeChat])
async def test_protocol_streaming(fake: type[FakeChat], world: World, twice: Twice) -> None:
    """The content-block protocol (`version="v3"`) replays event by event, and serves and is replayed by the others."""
    if not hasattr(BaseChatModel, "_chat_model_stream_v3"):
        pytest.skip("this langchain-core has no protocol streaming")

    async def run(model: Any) -> tuple[list[Any], list[Any], Any]:
        sync = model.stream_events(QUESTION, version="v3")
        events = list(sync)
        aio = await model.astream_events(QUESTION, version="v3")
        return events, [event async for event in aio], (sync.output, await aio.output)

    model = fake(world=world)
    with twice.records():
        recorded = await run(model)
        recorded_plain = model.invoke(QUESTION)
    assert len(world.reached) == 3
    with twice.replays() as replay:
        assert await run(model) == recorded
        assert model.invoke(QUESTION) == recorded_plain
    assert len(replay.report.replayed) == 3
    with twice.replays():
        assert model.invoke(QUESTION).text == recorded[2][0].text
        assert "".join(chunk.text for chunk in model.stream(QUESTION)) == recorded[2][1].text
        assert model.stream_events(QUESTION, version="v3").output.text == recorded_plain.text


# -- what a taped model is -----------------------------------------------------------------------------------------


def test_taped_model_is_what_it_was(loopback: OpenAILoopback) -> None:
    """A taped model is of the provider's class, with its name, profile, parameters and way of binding tools."""
    real = chat(loopback)
    taped = tape(real)
    assert isinstance(taped, ChatOpenAI)
    assert isinstance(taped, BaseChatOpenAI)
    assert tape(taped) is taped
    assert type(taped).__name__ == "ChatOpenAI"
    assert type(taped).__module__ == type(real).__module__
    assert taped.get_name() == real.get_name()
    assert taped.profile == real.profile
    assert taped._llm_type == real._llm_type
    assert taped._identifying_params == real._identifying_params
    assert taped._get_ls_params() == real._get_ls_params()
    assert taped.lc_id() == real.lc_id()
    assert taped.to_json() == real.to_json()
    assert taped.model_dump() == real.model_dump()
    assert taped.get_output_schema() == real.get_output_schema()
    bound = taped.bind_tools([look_up])
    assert isinstance(bound, RunnableBinding)
    assert bound.kwargs == real.bind_tools([look_up]).kwargs


def test_state_is_shared(world: World) -> None:
    """A change of the model is seen by its taped twin, and the other way round."""
    real = StreamingChat(world=world)
    taped = tape(real)
    real.model_name = "renamed"
    taped.tags = ["t"]
    assert taped.model_name == "renamed"
    assert real.tags == ["t"]


def test_only_parts_of_langchain_are_taped() -> None:
    """Anything else is refused, with what to do instead."""
    with pytest.raises(ConfigurationError, match=r"expected a model, a tool, .* or another runnable"):
        tape("a prompt")


COPIES: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "model_copy": lambda model: model.model_copy(),
    "model_copy with a change": lambda model: model.model_copy(update={"tags": ["copied"]}),
    "model_copy deep": lambda model: model.model_copy(deep=True),
}


@pytest.mark.parametrize("how", COPIES)
def test_copies_are_taped_too(how: str, twice: Twice) -> None:
    """A copied or pickled taped model is equal to it and still taped."""
    taped = tape(StreamingChat(world=_PicklableWorld()))
    recorded = twice.record(lambda: COPIES[how](taped).invoke(QUESTION), auto=False)
    assert str(twice.recording.report) == "0 replayed, 1 recorded"
    copied = COPIES[how](taped)
    assert type(copied) is type(taped)
    assert tape(copied) is copied
    copied.world.gone = True
    with twice.replays(auto=False):
        assert copied.invoke(QUESTION) == recorded


class _PicklableWorld:
    """A world without a lock."""

    gone = False

    def reach(self, what: str) -> int:
        assert not self.gone
        return 1


async def test_models_made_by_name(loopback: OpenAILoopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of `init_chat_model` is taped in an automatic session, also if the model is chosen per call."""
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    options = {"base_url": loopback.base_url, "max_retries": 0}
    fixed = init_chat_model("openai:gpt-5-mini", **options)
    chosen = init_chat_model(configurable_fields="any", model_provider="openai", **options)
    late = chosen.bind_tools([look_up]).with_config(configurable={"model": "gpt-5-late"})
    shaped = chosen.with_structured_output(JOKE).with_config(configurable={"model": "gpt-5-shaped"})
    calls = [invoke, ainvoke, stream, astream, batch, abatch]
    path = tmp_path / "chat.yaml"

    async def run() -> list[Any]:
        return [await shape(model) for model in (fixed, late, shaped) for shape in calls]

    with use_cassette(path, mode="all") as recording:
        recorded = await run()
    assert loopback.calls == len(recording.interactions) == 3 * len(calls)
    loopback.stop()
    with use_cassette(path):
        assert await run() == recorded


def test_stream_broken_midway(world: World, twice: Twice) -> None:
    """A stream that broke gives the same chunks and then the same error; a plain call gives the error."""

    class BreakingChat(StreamingChat):
        """Its stream breaks after two chunks."""

        def _stream(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
            for number, chunk in enumerate(self.chunks(messages)):
                if number == 2:
                    raise TimeoutError(f"broken at {number}")
                yield chunk

    model = BreakingChat(world=world)

    def collect() -> list[Any]:
        seen: list[Any] = []
        with pytest.raises(TimeoutError, match="broken at 2"):
            for chunk in model.stream(QUESTION):
                seen.append(chunk)  # noqa: PERF402 - what came before the error counts
        return seen

    recorded = twice(collect)
    assert len(recorded) == 2
    with twice.replays(), pytest.raises(TimeoutError, match="broken at 2"):
        model.invoke(QUESTION)


def test_leaf_called_by_hand(world: World, twice: Twice) -> None:
    """A leaf method that code calls itself, past the framework, is recorded and replayed too."""
    model = tape(NativeChat(world=world))
    twice(lambda: model._generate([HumanMessage(QUESTION)], stop=["x"]))


def test_several_choices(loopback: OpenAILoopback, twice: Twice) -> None:
    """Every choice of a request for several comes back."""
    model = chat(loopback, n=3)
    recorded = twice.record(lambda: model.generate([[HumanMessage(QUESTION)]]))
    loopback.stop()
    with twice.replays():
        assert model.generate([[HumanMessage(QUESTION)]]) == recorded
    assert len({choice.text for choice in recorded.generations[0]}) == 3


def test_names_and_callbacks_are_not_asked(world: World, twice: Twice) -> None:
    """Tags, metadata, run names and callbacks are no part of the request."""
    model = StreamingChat(world=world)
    recorded = twice.record(lambda: model.invoke(QUESTION))
    with twice.replays():
        renamed = model.with_config(tags=["new"], metadata={"user": "else"}, run_name="renamed")
        assert renamed.invoke(QUESTION).text == recorded.text


def test_tools_that_a_model_knows_by_name(tmp_path: Path) -> None:
    """A model may bind tools by their names, which are sent as they are."""
    model = FakeListChatModel(responses=["yes"]).bind(tools=["look"])
    for mode in ("all", "none"):
        with use_cassette(tmp_path / "c.yaml", mode=mode):
            assert model.invoke("Is it?").content == "yes"
    assert open_cassette(tmp_path / "c.yaml").interaction(1).request["tools"] == ["look"]


@pytest.mark.parametrize(("cls", "name"), [(NativeChat, "_generate"), (NativeChat, "_agenerate")])
def test_a_taped_method_holds_its_signature(cls: Any, name: str, tmp_path: Path) -> None:
    """The signature of the real method is there, as LangChain reads it on each call and would make it each time."""
    real = inspect.signature(getattr(cls, name))

    with use_cassette(tmp_path / "run.yaml", mode="record"):
        assert vars(getattr(cls, name))["__signature__"] == real
    assert "__signature__" not in vars(getattr(cls, name))
    assert vars(getattr(ReplayChatModel, name))["__signature__"] == inspect.signature(getattr(ReplayChatModel, name))

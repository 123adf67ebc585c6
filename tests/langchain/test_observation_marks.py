"""Facts that callbacks do not receive are marked in the cassette; a strict replay names them and does not guess."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk, GenerationChunk
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool

from agenttape_core import Step, open_cassette, use_cassette
from agenttape_core.errors import CassetteMissError, UnrecordableValueError
from agenttape_langchain import TapeCallbackHandler

from .fakes import NativeChat, Numbers, PlainChat, StreamingChat, World
from .parts import BatchingText


@pytest.fixture
def handler(tmp_path: Path) -> TapeCallbackHandler:
    """A handler with a file to write."""
    return TapeCallbackHandler(tmp_path / "seen.yaml")


def missing(handler: TapeCallbackHandler) -> list[Step]:
    """The calls that are known to be missing."""
    return [s for s in open_cassette(handler.path).steps() if s.fidelity == "missing" and s.kind != "gap"]


def notes(handler: TapeCallbackHandler) -> list[str]:
    """The reasons why interactions are not exact."""
    return [interaction.fidelity_note for interaction in open_cassette(handler.path).interactions()]


# -- calls that are missing ------------------------------------------------------------------------------------------


def test_answers_of_a_cache(world: World, handler: TapeCallbackHandler) -> None:
    """A cached answer reached no provider, so it is a step. The program replays; without its cache a miss says why."""

    def ask_twice(*, cached: bool, config: Any = None) -> list[AIMessage]:
        model = PlainChat(world=world, cache=InMemoryCache() if cached else False)
        chain = RunnableLambda(lambda text: [model.invoke(text), model.invoke(text)])
        return chain.invoke("Hi", config)

    observed = ask_twice(cached=True, config={"callbacks": [handler]})
    (answered,) = missing(handler)
    assert (answered.kind, answered.status, handler.errors) == ("model", "ended", [])
    assert answered.output is not None
    world.gone = True
    with use_cassette(handler.path) as replay:
        assert ask_twice(cached=True) == observed
    assert str(replay.report) == "1 replayed, 0 recorded"
    with pytest.raises(CassetteMissError, match="LangChain's cache answered it"), use_cassette(handler.path):
        ask_twice(cached=False)


async def test_cancelled_calls(world: World, handler: TapeCallbackHandler) -> None:
    """A call that was cancelled is recorded as that, and a replay that does not cancel it learns why it cannot."""

    class Slow(NativeChat):
        async def _astream(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
            begun.set()
            await asyncio.Event().wait()
            yield None

    async def give_up(_: Any) -> str:
        call = asyncio.create_task(anext(Slow(world=world).astream("Hi")))  # type: ignore[arg-type]
        await begun.wait()
        call.cancel()
        await asyncio.wait([call])
        return "never mind"

    begun = asyncio.Event()
    assert await RunnableLambda(give_up).ainvoke(1, {"callbacks": [handler]}) == "never mind"
    assert missing(handler) == []
    with pytest.raises(CassetteMissError, match="the recorded call was cancelled by the program"):
        async with use_cassette(handler.path):
            await RunnableLambda(lambda _: Slow(world=world).invoke("Hi")).with_config(run_name="give_up").ainvoke(1)
    assert handler.errors == []


async def test_calls_that_never_ended(world: World, handler: TapeCallbackHandler) -> None:
    """A cancelled tool whose end is not reported is given up with the run that it belongs to."""

    @tool
    async def wait_for_ever() -> str:
        """Wait."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    async def give_up(_: Any) -> str:
        call = asyncio.create_task(wait_for_ever.ainvoke({}))
        await begun.wait()
        call.cancel()
        await asyncio.wait([call])
        return "never mind"

    begun = asyncio.Event()
    await RunnableLambda(give_up).ainvoke(1, {"callbacks": [handler]})
    assert handler.errors == []
    # From langchain-core 1.8.2 on, callbacks are told that a tool was cancelled: it is recorded as any cancelled call.
    outcomes = [(one.kind, one.name, one.outcome.status) for one in open_cassette(handler.path).interactions()]
    if outcomes:
        assert (outcomes, missing(handler)) == ([("tool", "wait_for_ever", "cancelled")], [])
        return
    (open_call,) = missing(handler)
    assert (open_call.kind, open_call.name) == ("tool", "wait_for_ever")
    # From langchain-core 1.8 on, callbacks are told of the step.
    assert open_call.status in {"open", "failed"}
    assert ("no callback reported its end" in open_call.fidelity_note) == (open_call.status == "open")


def test_values_that_cannot_be_recorded(
    world: World, handler: TapeCallbackHandler, caplog: pytest.LogCaptureFixture
) -> None:
    """The error is logged and kept, the run continues, the rest is recorded, and the cassette shows what it lacks."""

    @tool
    def connect() -> Any:
        """Connect."""
        return iter(())

    chain = connect | RunnableLambda(lambda _: PlainChat(world=world).invoke("on it goes"))
    chain.invoke({}, {"callbacks": [handler]})
    assert [entry.name for entry in open_cassette(handler.path).entries] == ["PlainChat"]
    assert [type(error) for error in handler.errors] == [UnrecordableValueError]
    assert str(handler.path) in caplog.text
    (lost,) = missing(handler)
    assert (lost.name, lost.address) == ("connect", "RunnableSequence/connect")
    assert "it could not be recorded: cannot record the value" in lost.fidelity_note
    with pytest.raises(CassetteMissError, match="it could not be recorded"), use_cassette(handler.path):
        chain.invoke({})


def test_a_stream_with_a_hole_is_none(world: World, handler: TapeCallbackHandler) -> None:
    """If one chunk cannot be kept, the others are not taken for the whole."""

    class Odd(StreamingChat):
        def chunks(self, messages: Any) -> Iterator[ChatGenerationChunk]:
            yield from super().chunks(messages)
            yield ChatGenerationChunk(message=AIMessageChunk(""), generation_info={"raw": object()})

    list(Odd(world=world).stream("Hi", {"callbacks": [handler]}))
    assert [type(error) for error in handler.errors] == [UnrecordableValueError]
    (lost,) = missing(handler)
    assert "a stream with a hole is none" in lost.fidelity_note
    assert open_cassette(handler.path).entries == ()


def test_calls_that_nobody_tells_of(world: World, handler: TapeCallbackHandler) -> None:
    """LangChain fires no callbacks for embeddings. A replay that comes to one learns that it was never observed."""
    embed = RunnableLambda(lambda text: Numbers(world).embed_query(text))
    embed.invoke("Hi", {"callbacks": [handler]})
    world.gone = True
    with (
        pytest.raises(CassetteMissError, match=r"missing +the run was recorded by a callback handler"),
        use_cassette(handler.path),
    ):
        embed.invoke("Hi")


# -- calls of which less is known than came back ----------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning")
def test_streams_told_in_events_only(world: World, handler: TapeCallbackHandler) -> None:
    """Of a stream of events (v3) by a model that tells no tokens, only the sum is known; it is replayed on request."""

    class Silent(StreamingChat):
        """Streams, and tells no callback of its chunks."""

        def _stream(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Iterator[Any]:
            yield from self.chunks(messages)

    model = Silent(world=world)

    def events(config: Any = None) -> str:
        return "".join(str(part) for part in model.stream_events("Hi", config, version="v3").text)

    observed = events({"callbacks": [handler]})
    assert notes(handler) == ["it was streamed, but callbacks received only the whole answer, and not the chunks"]
    world.gone = True
    with (
        pytest.raises(CassetteMissError, match=r"was recorded incompletely \(call 1\): it was streamed"),
        use_cassette(handler.path),
    ):
        events()
    with use_cassette(handler.path, accept={"lossy"}):
        assert events() == observed


def test_text_models_that_keep_their_chunks_to_themselves(world: World, handler: TapeCallbackHandler) -> None:
    """A text model's stream is only shown chunk by chunk if the model itself does; whole, closed or broken."""

    class Mute(BatchingText):
        def _stream(self, prompt: str, *args: Any, **kwargs: Any) -> Iterator[GenerationChunk]:
            yield from (GenerationChunk(text=word) for word in ("a", "b"))
            if prompt == "break":
                raise TimeoutError

    list(Mute(world=world).stream("whole", {"callbacks": [handler]}))
    closed = Mute(world=world).stream("closed", {"callbacks": [handler]})
    next(closed)
    closed.close()  # type: ignore[attr-defined]
    with pytest.raises(TimeoutError):
        list(Mute(world=world).stream("break", {"callbacks": [handler]}))
    assert len(notes(handler)) == 3
    assert all("not the chunks" in note for note in notes(handler))


def test_artifacts_of_calls_by_hand(world: World, handler: TapeCallbackHandler) -> None:
    """Callbacks receive the artifact of a tool only for the tool call of a model."""

    @tool(response_format="content_and_artifact")
    def draw(city: str) -> tuple[str, dict[str, int]]:
        """Draw."""
        return f"a chart of {city}", {"points": world.reach("draw")}

    call = {"name": "draw", "args": {"city": "Rome"}, "id": "call_1", "type": "tool_call"}
    observed = [draw.invoke({"city": "Paris"}, {"callbacks": [handler]}), draw.invoke(call, {"callbacks": [handler]})]
    assert [note != "" for note in notes(handler)] == [True, False]
    world.gone = True
    with pytest.raises(CassetteMissError, match="the tool returned an artifact"), use_cassette(handler.path):
        draw.invoke({"city": "Paris"})
    with use_cassette(handler.path, accept={"lossy"}):
        assert [draw.invoke({"city": "Paris"}), draw.invoke(call)] == observed


async def test_artifacts_of_asynchronous_calls_by_hand(world: World, handler: TapeCallbackHandler) -> None:
    """The same holds for coroutines."""

    @tool(response_format="content_and_artifact")
    async def draw(city: str) -> tuple[str, int]:
        """Draw."""
        return f"a chart of {city}", world.reach("draw")

    await draw.ainvoke({"city": "Paris"}, {"callbacks": [handler]})
    assert [note != "" for note in notes(handler)] == [True]


def test_what_is_exact_is_not_marked(world: World, handler: TapeCallbackHandler) -> None:
    """Plain answers, streams and errors of tools and models are what came back."""

    @tool
    def weather(city: str) -> dict[str, str]:
        """Tell the weather."""
        return {"city": city}

    model = StreamingChat(world=world)
    call = {"name": "weather", "args": {"city": "Rome"}, "id": "call_1", "type": "tool_call"}
    config = {"callbacks": [handler]}
    model.invoke("Hi", config)
    list(model.stream("Hi", config))
    weather.invoke({"city": "Paris"}, config)
    weather.invoke(call, config)
    assert notes(handler) == ["", "", "", ""]
    assert missing(handler) == []

"""Text models are recorded, and replayed without being reached."""

# ruff: noqa: D103 - what is no test says by its name what it does

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import LLM, BaseLLM
from langchain_core.outputs import Generation, GenerationChunk, LLMResult
from langchain_core.prompts import PromptTemplate

from agenttape_core import use_cassette
from agenttape_core.errors import CassetteMissError
from agenttape_langchain import tape

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from .fakes import World

QUESTION = "how are you?"


class FakeText(BaseLLM):
    """The base of the fakes.

    Args:
        world: The world that is reached by each call.
        model_name: What the provider would be asked for.
    """

    world: Any
    model_name: str = "text-1"
    temperature: float = 0.5

    @property
    def _llm_type(self) -> str:
        return "fake-text"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model_name": self.model_name, "temperature": self.temperature}

    def said(self, prompt: str) -> str:
        """Reach the world and return what it says."""
        return f"answer {self.world.reach('model')} to {prompt}"

    def _generate(self, prompts: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> LLMResult:
        generations = [[Generation(text=self.said(p), generation_info={"finish_reason": "stop"})] for p in prompts]
        usage = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
        return LLMResult(generations=generations, llm_output={"token_usage": usage, "model_name": self.model_name})


class Batching(FakeText):
    """Has only `_generate`."""


class Streaming(FakeText):
    """Streams too."""

    def _stream(
        self, prompt: str, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[GenerationChunk]:
        for word in self.said(prompt).split(" "):
            chunk = GenerationChunk(text=f"{word} ", generation_info={"word": word} if word == "to" else None)
            if run_manager is not None:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk


class Native(Streaming):
    """Has all four leaves."""

    async def _agenerate(self, prompts: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> LLMResult:
        return self._generate(prompts, stop, **kwargs)

    async def _astream(
        self, prompt: str, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[GenerationChunk]:
        for chunk in self._stream(prompt, stop, **kwargs):
            if run_manager is not None:
                await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk


class Simple(LLM):
    """Has only `_call`, as the simplest models do."""

    world: Any

    @property
    def _llm_type(self) -> str:
        return "simple"

    def _call(self, prompt: str, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> str:
        return f"answer {self.world.reach('model')} to {prompt}"


class Bare(BaseLLM):
    """Takes no run manager; the framework's asynchronous methods cannot call such a model."""

    world: Any

    @property
    def _llm_type(self) -> str:
        return "bare"

    def _generate(self, prompts: Any, stop: Any = None) -> LLMResult:  # type: ignore[override]
        return LLMResult(generations=[[Generation(text=f"{p} {self.world.reach('model')}")] for p in prompts])


FAKES = [Batching, Streaming, Native, Simple]


async def invoke(model: Any) -> Any:
    return [model.invoke(QUESTION)]


async def ainvoke(model: Any) -> Any:
    return [await model.ainvoke(QUESTION)]


async def stream(model: Any) -> Any:
    return list(model.stream(QUESTION))


async def astream(model: Any) -> Any:
    return [chunk async for chunk in model.astream(QUESTION)]


async def batch(model: Any) -> Any:
    return model.batch([QUESTION, "and you?"])


async def abatch(model: Any) -> Any:
    return await model.abatch([QUESTION, "and you?"])


async def generate(model: Any) -> Any:
    result = model.generate([QUESTION], stop=["\n"])
    result.run = None
    return [result]


async def events(model: Any) -> Any:
    seen = [event async for event in model.astream_events(QUESTION, version="v2")]
    return [(event["event"], event["name"], event["data"]) for event in seen]


async def in_a_chain(model: Any) -> Any:
    return [(PromptTemplate.from_template("{q}") | model).invoke({"q": QUESTION})]


@pytest.mark.sweep
@pytest.mark.parametrize("way", ["automatic", "taped"])
@pytest.mark.parametrize(
    "shape",
    [
        invoke,
        ainvoke,
        stream,
        astream,
        batch,
        abatch,
        generate,
        events,
        in_a_chain,
    ],
)
@pytest.mark.parametrize("cls", FAKES)
async def test_text_model_replays(cls: Any, shape: Any, way: str, world: World, tmp_path: Path) -> None:
    """However a model is called, the replay gives what the recording gave, and reaches nothing."""
    real = cls(world=world)
    model, automatic = (real if way == "automatic" else tape(real)), way != "taped"
    path = tmp_path / "text.yaml"
    with use_cassette(path, mode="all", auto=automatic) as recording:
        recorded = await shape(model)
    assert {(row.kind, row.name) for row in recording.interactions} == {("completion", cls.__name__)}
    assert len(recording.interactions) == 1
    world.gone = True
    with use_cassette(path, auto=automatic) as replay:
        assert await shape(model) == recorded
    assert [replayed.match_rule for replayed in replay.report.replayed] == ["exact"]


def test_model_that_takes_no_run_manager(world: World, tmp_path: Path) -> None:
    """A leaf that takes less than the framework offers is called with no more; a taped one is recorded once."""
    path = tmp_path / "text.yaml"
    with use_cassette(path, mode="all") as recording:
        recorded = [Bare(world=world).invoke(QUESTION), tape(Bare(world=world)).invoke(QUESTION)]
    assert len(recording.interactions) == 2
    world.gone = True
    with use_cassette(path):
        assert [tape(Bare(world=world)).invoke(QUESTION), Bare(world=world).invoke(QUESTION)] == recorded


@pytest.mark.parametrize("recorded_by", [invoke, stream, astream])
@pytest.mark.parametrize("replayed_to", [invoke, ainvoke, stream, astream])
async def test_stream_and_plain_call_serve_each_other(
    recorded_by: Any, replayed_to: Any, world: World, tmp_path: Path
) -> None:
    """A recorded stream serves a plain call, and vice versa, sync and async."""
    path, model = tmp_path / "text.yaml", Native(world=world)
    with use_cassette(path, mode="all"):
        recorded = await recorded_by(model)
    world.gone = True
    with use_cassette(path):
        assert "".join(await replayed_to(model)) == "".join(recorded)


def test_request_is_what_the_provider_gets(world: World, tmp_path: Path) -> None:
    """The prompts, the parameters of the model, stop words and what the call itself gives."""
    with use_cassette(tmp_path / "text.yaml", mode="all") as recording:
        Batching(world=world).bind(top_p=0.1).invoke(QUESTION, stop=["."])
        list(Streaming(world=world).stream(QUESTION, top_p=0.1))
    common = {"model": "text-1", "temperature": 0.5, "prompts": [QUESTION], "top_p": 0.1}
    first, second = (row.request for row in recording.interactions)
    assert first == {**common, "stop": ["."]}
    assert second == common


def test_usage_is_recorded(world: World, tmp_path: Path) -> None:
    """The token counts of the provider are in the cassette."""
    with use_cassette(tmp_path / "text.yaml", mode="all") as recording:
        Batching(world=world).invoke(QUESTION)
    usage = recording.interactions[0].outcome.usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens) == (3, 5)


@pytest.mark.parametrize("changed", [{"temperature": 0.9}, {"model_name": "text-2"}])
def test_changed_model_misses(changed: dict[str, Any], world: World, tmp_path: Path) -> None:
    """Another model or temperature is another request."""
    path = tmp_path / "text.yaml"
    with use_cassette(path, mode="all"):
        Batching(world=world).invoke(QUESTION)
    world.gone = True
    with pytest.raises(CassetteMissError), use_cassette(path):
        Batching(world=world, **changed).with_retry().invoke(QUESTION)


@pytest.mark.parametrize("cls", [Batching, Native, Simple])
async def test_parallel_equal_calls_find_their_own(cls: Any, world: World, tmp_path: Path) -> None:
    """Concurrent equal prompts each get their own answer."""
    model, path = cls(world=world), tmp_path / "text.yaml"
    with use_cassette(path, mode="all"):
        recorded = await asyncio.gather(*(model.ainvoke(QUESTION) for _ in range(6)))
    assert len(set(recorded)) == 6
    world.gone = True
    with use_cassette(path) as replay:
        assert await asyncio.gather(*(model.ainvoke(QUESTION) for _ in range(6))) == recorded
    assert {replayed.match_rule for replayed in replay.report.replayed} == {"exact"}


async def test_callbacks_hear_the_tokens_of_a_replayed_stream(world: World, tmp_path: Path) -> None:
    """A replay tells callbacks of each chunk, as the provider does."""

    class Tokens(BaseCallbackHandler):
        """Hears the tokens of a stream."""

        def __init__(self) -> None:
            self.heard: list[Any] = []

        def on_llm_new_token(self, token: str, *, chunk: Any = None, **kwargs: Any) -> None:
            """Hear one."""
            self.heard.append((token, chunk))

    path, model = tmp_path / "text.yaml", Native(world=world)
    heard = []
    for mode in ("all", "none"):
        tokens = Tokens()
        with use_cassette(path, mode=mode):
            list(model.stream(QUESTION, config={"callbacks": [tokens]}))
            [chunk async for chunk in model.astream("and you?", config={"callbacks": [tokens]})]
        heard.append(tokens.heard)
        world.gone = True
    assert len(heard[0]) > 8
    assert heard[1] == heard[0]


def test_closed_and_broken_streams(world: World, tmp_path: Path) -> None:
    """A stream that is left early, and one that breaks, are recorded as that."""

    class Breaking(Streaming):
        def _stream(self, prompt: str, *args: Any, **kwargs: Any) -> Iterator[GenerationChunk]:
            yield GenerationChunk(text="so far")
            raise ConnectionError("lost")

    def run() -> list[str]:
        reader = Streaming(world=world).stream(QUESTION)
        seen = [next(reader), next(reader)]
        reader.close()  # type: ignore[attr-defined]
        with pytest.raises(ConnectionError, match="lost"):
            seen += Breaking(world=world).stream(QUESTION)
        return seen

    path = tmp_path / "text.yaml"
    with use_cassette(path, mode="all") as recording:
        recorded = run()
    assert sorted(str(row.outcome.ended) for row in recording.interactions) == ["closed", "raised"]
    world.gone = True
    with use_cassette(path):
        assert run() == recorded


def test_taped_model_is_what_it_was(world: World) -> None:
    """A taped model is of its class and shares the state of the original."""
    real = Streaming(world=world)
    taped = tape(real)
    assert isinstance(taped, Streaming)
    assert tape(taped) is taped
    real.model_name = "text-2"
    assert taped.model_name == "text-2"
    assert taped.invoke(QUESTION) == f"answer 1 to {QUESTION}"


def test_classes_are_left_as_they_were(tmp_path: Path) -> None:
    """After the last session no class of the framework or of a provider has changed."""
    classes: list[Any] = [BaseLLM, LLM, Bare, *FAKES]
    before = [dict(vars(cls)) for cls in classes]
    with use_cassette(tmp_path / "text.yaml", mode="all"):
        assert "_generate" in vars(LLM)
    assert [dict(vars(cls)) for cls in classes] == before

"""Text models are recorded, and replayed without being reached."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import BaseLLM
from langchain_core.outputs import Generation, GenerationChunk, LLMResult

from agenttape_core import use_cassette
from agenttape_langchain import tape

from ..kit.replaying import Twice
from .fakes import World
from .parts import PARTS, AsyncText, BatchingText, StreamingText
from .shapes import QUESTION, ainvoke, astream, invoke, stream


class Bare(BaseLLM):
    """Takes no run manager; the framework's asynchronous methods cannot call such a model."""

    world: Any

    @property
    def _llm_type(self) -> str:
        return "bare"

    def _generate(self, prompts: Any, stop: Any = None) -> LLMResult:  # type: ignore[override]
        return LLMResult(generations=[[Generation(text=f"{p} {self.world.reach('model')}")] for p in prompts])


@pytest.mark.parametrize("cls", PARTS["text model"].classes)
async def test_results_and_events_replay(cls: Any, world: World, twice: Twice) -> None:
    """Whole results and events are the same in a replay, by whichever methods a model answers."""
    model = cls(world=world)

    async def run() -> list[Any]:
        result = model.generate([QUESTION], stop=["\n"])
        result.run = None  # ids of the run
        seen = [event async for event in model.astream_events(QUESTION, version="v2")]
        return [result, [(event["event"], event["name"], event["data"]) for event in seen]]

    await twice.awaited(run)


def test_model_that_takes_no_run_manager(world: World, twice: Twice) -> None:
    """A leaf that takes less than the framework offers is called with no more; a taped one is recorded once."""
    recorded = twice.record(lambda: [Bare(world=world).invoke(QUESTION), tape(Bare(world=world)).invoke(QUESTION)])
    assert len(twice.recording.interactions) == 2
    with twice.replays():
        assert [tape(Bare(world=world)).invoke(QUESTION), Bare(world=world).invoke(QUESTION)] == recorded


@pytest.mark.parametrize("recorded_by", [invoke, stream, astream])
@pytest.mark.parametrize("replayed_to", [invoke, ainvoke, stream, astream])
async def test_stream_and_plain_call_serve_each_other(
    recorded_by: Any, replayed_to: Any, world: World, twice: Twice
) -> None:
    """A recorded stream serves a plain call, and vice versa, sync and async."""
    model = AsyncText(world=world)
    with twice.records():
        recorded = await recorded_by(model)
    with twice.replays():
        assert "".join(await replayed_to(model)) == "".join(recorded)


def test_request_is_what_the_provider_gets(world: World, tmp_path: Path) -> None:
    """The prompts, the parameters of the model, stop words and what the call itself gives; the usage is recorded."""
    with use_cassette(tmp_path / "text.yaml", mode="all") as recording:
        BatchingText(world=world).bind(top_p=0.1).invoke(QUESTION, stop=["."])
        list(StreamingText(world=world).stream(QUESTION, top_p=0.1))
    common = {"model": "text-1", "temperature": 0.5, "prompts": [QUESTION], "top_p": 0.1}
    first, second = (row.request for row in recording.interactions)
    assert first == {**common, "stop": ["."]}
    assert second == common
    usage = recording.interactions[0].outcome.usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens) == (3, 5)


async def test_callbacks_hear_the_tokens_of_a_replayed_stream(world: World, tmp_path: Path) -> None:
    """A replay tells callbacks of each chunk, as the provider does."""

    class Tokens(BaseCallbackHandler):
        """Hears the tokens of a stream."""

        def __init__(self) -> None:
            self.heard: list[Any] = []

        def on_llm_new_token(self, token: str, *, chunk: Any = None, **kwargs: Any) -> None:
            """Hear one."""
            self.heard.append((token, chunk))

    path, model = tmp_path / "text.yaml", AsyncText(world=world)
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


def test_closed_and_broken_streams(world: World, twice: Twice) -> None:
    """A stream that is left early, and one that breaks, are recorded as that."""

    class Breaking(StreamingText):
        def _stream(self, prompt: str, *args: Any, **kwargs: Any) -> Iterator[GenerationChunk]:
            yield GenerationChunk(text="so far")
            raise ConnectionError("lost")

    def run() -> list[str]:
        reader = StreamingText(world=world).stream(QUESTION)
        seen = [next(reader), next(reader)]
        reader.close()  # type: ignore[attr-defined]
        with pytest.raises(ConnectionError, match="lost"):
            seen += Breaking(world=world).stream(QUESTION)
        return seen

    twice(run)
    assert sorted(str(row.outcome.ended) for row in twice.recording.interactions) == ["closed", "raised"]

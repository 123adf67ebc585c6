"""The inputs of chains in the headers of their recordings, and chains begun again from them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import ConfigurableField, Runnable, RunnableLambda

from agenttape_core import boundary, open_cassette, replay_source, use_cassette
from agenttape_core.cli.commands.replay import Again, restart_of
from agenttape_langchain import TapeCallbackHandler

from ..kit.replaying import Twice
from ..kit.world import gone
from .fakes import NativeChat, World


def chain(world: World) -> Runnable[Any, str]:
    """A prompt, a model and a parser."""
    prompt = ChatPromptTemplate.from_messages([("system", "Be brief."), ("placeholder", "{messages}")])
    return prompt | NativeChat(world=world) | StrOutputParser()


GIVEN = {"messages": [HumanMessage("Hello from Ms Smith")]}


async def _astreamed(runnable: Any, config: Any) -> list[str]:
    return [part async for part in runnable.astream(GIVEN, config)]


RUNS: dict[str, Any] = {
    "invoke": lambda runnable, config: runnable.invoke(GIVEN, config),
    "stream": lambda runnable, config: "".join(runnable.stream(GIVEN, config)),
    "ainvoke": lambda runnable, config: asyncio.run(runnable.ainvoke(GIVEN, config)),
    "astream": lambda runnable, config: "".join(asyncio.run(_astreamed(runnable, config))),
}


@pytest.mark.sweep
@pytest.mark.parametrize("way", RUNS)
@pytest.mark.parametrize("observed", [False, True], ids=["recorded", "observed"])
def test_a_chain_runs_again(tmp_path: Path, way: str, observed: bool) -> None:
    """However a chain was run and recorded, its header has the input, and it answers the same again from it."""
    path, config = tmp_path / "run.yaml", {"callbacks": []}
    if observed:
        live = RUNS[way](chain(World()), {"callbacks": [TapeCallbackHandler(path)]})
    else:
        with use_cassette(path, mode="all"):
            live = RUNS[way](chain(World()), config)
    header = open_cassette(path).header
    assert header.input["messages"][0]["$message"]["content"] == "Hello from Ms Smith"
    assert header.volatile.entry.awaited == way.startswith("a")
    again = replay_source(path, chain(gone()))
    assert (again.answer, again.report.recorded) == (live, ())


def test_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command knows that the header has the first input of a batch only; another one is answered if it is given."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "batched.py").write_text("chain = None\n")
    with use_cassette("run.yaml", mode="all"):
        live = chain(World()).batch([GIVEN, {"messages": [HumanMessage("Good day")]}])
    assert len(set(live)) == 2
    asked = restart_of(Again("run.yaml", "batched:chain", None, None, None, ()))
    assert "a recording of 2 runs, as of a batch, with the input of the first" in asked.advice
    for number, given in enumerate((None, {"messages": [["user", "Good day"]]})):
        again = replay_source("run.yaml", chain(gone()), given=given, on_unused="ignore")
        assert again.answer == live[number]


def test_configurable_values_come_back(twice: Twice) -> None:
    """A chain runs again with the configurable values of its config."""

    def configured(world: World) -> Any:
        model = NativeChat(world=world).configurable_fields(model_name=ConfigurableField(id="model"))
        return RunnableLambda(str) | model | StrOutputParser()

    live = twice.record(lambda: configured(World()).invoke("Hi", {"configurable": {"model": "other"}}))
    again = replay_source(twice.path, configured(gone()))
    assert (again.answer, len(again.report.replayed)) == (live, 1)


def test_only_outermost_chains_count(tmp_path: Path) -> None:
    """A chain that runs inside of a boundary, or inside of another chain, began no run."""

    @boundary("tool")
    def summarise(text: str) -> str:
        return (RunnableLambda(str.upper) | RunnableLambda(str.strip)).invoke(text)

    whole = RunnableLambda(lambda given: summarise(given["text"])) | RunnableLambda(lambda text: text + "!")
    with use_cassette(tmp_path / "run.yaml", mode="all"):
        summarise("first")
        assert whole.invoke({"text": "second"}) == "SECOND!"
    assert open_cassette(tmp_path / "run.yaml").header.input == {"text": "second"}

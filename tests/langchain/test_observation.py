"""A handler writes the whole tree of a run: what reached outside as interactions, everything else as steps."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.agents import AgentAction, AgentFinish
from langchain_core.callbacks import adispatch_custom_event, dispatch_custom_event
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import LLMResult
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from tenacity import Future, RetryCallState, Retrying

from agenttape_core import open_cassette, use_cassette
from agenttape_langchain import TapeCallbackHandler

from .fakes import NativeChat, PlainChat, StreamingChat, World, calling, numbered
from .parts import BatchingText, StreamingText

QUESTION = {"messages": [("user", "Rain?")]}


@pytest.fixture
def handler(tmp_path: Path) -> Iterator[TapeCallbackHandler]:
    """A handler with a file to write, which must have recorded everything."""
    handler = TapeCallbackHandler(tmp_path / "seen.yaml")
    yield handler
    assert handler.errors == []


def steps(handler: TapeCallbackHandler) -> list[tuple[str, str, str]]:
    """The steps of what was observed: kind, name and address."""
    return [(s.kind, s.name, s.address) for s in open_cassette(handler.path).steps() if s.kind != "gap"]


# -- the tree ------------------------------------------------------------------------------------------------------


def agent_of(world: World) -> Any:
    """An agent that looks something up and answers."""

    @tool
    def weather(city: str) -> str:
        """Tell the weather."""
        dispatch_custom_event("looked_up", {"city": city, "api_key": "swordfish"})
        return f"rain {world.reach('weather')}"

    def reply(messages: Any, number: int) -> AIMessage:
        asked = calling(("weather", {"city": "Paris"}), number=number)
        return numbered(messages, number) if isinstance(messages[-1], ToolMessage) else asked

    return create_agent(PlainChat(world=world, reply=reply, tags=["small"]), [weather], name="forecaster")


def test_the_tree_of_an_agent(world: World, handler: TapeCallbackHandler) -> None:
    """Steps and interactions together are the run, in the order of their addresses, inner below outer."""
    agent_of(world).invoke(QUESTION, {"callbacks": [handler], "tags": ["night"], "metadata": {"user": "u1"}})

    cassette = open_cassette(handler.path)
    assert [(r.kind, r.name, r.address) for r in cassette.records() if r.kind != "gap"] == [
        ("agent", "forecaster", "forecaster"),
        ("node", "model", "forecaster/model@1"),
        ("chat", "PlainChat", "forecaster/model@1/PlainChat"),
        ("node", "tools", "forecaster/tools@2[0]"),
        ("tool", "weather", "forecaster/tools@2[0]/weather"),
        ("event", "looked_up", "forecaster/tools@2[0]/weather"),
        ("node", "model", "forecaster/model@3"),
        ("chat", "PlainChat", "forecaster/model@3/PlainChat"),
    ]
    agent, model = next(s for s in cassette.steps() if s.kind == "agent"), cassette.interaction(1)
    assert (agent.tags, agent.metadata, agent.status) == (["night"], {"user": "u1"}, "ended")
    assert (model.tags, model.metadata) == (["small"], {})  # what they inherit stands where it was given
    assert agent.input == cassette.header.input
    assert len(agent.output["messages"]) == 4
    assert all(s.input is s.output is None for s in cassette.steps() if s.kind == "node")


def test_what_is_noise_or_secret_is_left_out(world: World, handler: TapeCallbackHandler) -> None:
    """The frameworks' own notes are not written, and secrets of the program's notes are redacted."""
    metadata = {"user": "u1", "password": "swordfish", "ls_method": "traceable", "odd": object()}
    agent_of(world).invoke(QUESTION, {"callbacks": [handler], "metadata": metadata})
    text = Path(handler.path).read_text()
    assert "swordfish" not in text
    assert not re.search(r"lc_versions|langgraph_|ls_|seq:step|graph:step|checkpoint_ns", text)
    agent = next(s for s in open_cassette(handler.path).steps() if s.kind == "agent")
    assert agent.metadata["password"].startswith("[REDACTED:")
    assert set(agent.metadata["odd"]) == {"$opaque"}


def test_durations_first_token_and_usage(world: World, handler: TapeCallbackHandler) -> None:
    """Durations, the times of chunks and token counts are recorded."""
    chain = RunnableLambda(lambda x: x) | StreamingChat(world=world)
    list(chain.stream("Hi", {"callbacks": [handler]}))
    cassette = open_cassette(handler.path)
    volatile, streamed = cassette.header.volatile, cassette.outcome(1)
    assert len(volatile.timings[1].offsets_ms) == len(streamed.chunks or ()) > 3
    assert streamed.usage is not None
    assert streamed.usage.input_tokens == 3
    assert set(volatile.steps) == {s.number for s in cassette.steps()}


def test_failures_are_steps_that_failed(world: World, handler: TapeCallbackHandler) -> None:
    """An error is on every step that it went through, with its type."""

    def fail(_: Any) -> Any:
        raise LookupError("no such city")

    with pytest.raises(LookupError):
        (RunnableLambda(lambda x: x) | RunnableLambda(fail)).invoke(1, {"callbacks": [handler], "run_name": "outer"})
    failed = [s for s in open_cassette(handler.path).steps() if s.status == "failed"]
    assert [(s.name, s.error.type) for s in failed if s.error is not None] == [
        ("outer", "builtins:LookupError"),
        ("fail", "builtins:LookupError"),
    ]


def test_everything_that_callbacks_tell(world: World, handler: TapeCallbackHandler) -> None:
    """Texts, the decisions of older agents, retries and events of the program's own are kept, each at its place."""
    retrying = RetryCallState(Retrying(), None, (), {})
    retrying.attempt_number, retrying.idle_for = 2, 1.5
    retrying.outcome = Future(2)
    retrying.outcome.set_exception(TimeoutError("slow"))

    def busy(value: Any, run_manager: Any) -> Any:
        run_manager.on_text("thinking")
        RunnableLambda(lambda x: x).with_config(run_name="inner").invoke(1, {"callbacks": run_manager.get_child()})
        run_manager.on_agent_action(AgentAction("search", {"q": 1}, "let me see"))
        run_manager.on_agent_finish(AgentFinish({"answer": 2}, "there"))
        run_manager.on_retry(retrying)
        return value

    RunnableLambda(busy).invoke(1, {"callbacks": [handler]})
    told = [(s.kind, s.name, s.address, s.data) for s in open_cassette(handler.path).steps() if s.kind != "gap"]
    assert told == [
        ("chain", "busy", "busy", None),
        ("event", "text", "busy", "thinking"),
        ("chain", "inner", "busy/inner", None),
        ("event", "agent_action", "busy", {"tool": "search", "input": {"q": 1}, "log": "let me see"}),
        ("event", "agent_finish", "busy", {"output": {"answer": 2}, "log": "there"}),
        ("retry", "retry", "busy", {"attempt": 2, "wait_s": 1.5}),
    ]
    retry = next(s for s in open_cassette(handler.path).steps() if s.kind == "retry")
    assert retry.error is not None
    assert retry.error.type == "builtins:TimeoutError"


async def test_asynchronous_runs(world: World, handler: TapeCallbackHandler) -> None:
    """One handler works below asynchronous managers, too: events keep their place, and none is recorded twice."""

    async def busy(value: Any) -> Any:
        await adispatch_custom_event("before", value)
        answer = await NativeChat(world=world).ainvoke("Hi")
        await adispatch_custom_event("after", answer.text)
        return value

    chain = RunnableLambda(busy)
    await asyncio.gather(*(chain.ainvoke(n, {"callbacks": [handler]}) for n in range(3)))
    await chain.abatch([3, 4], {"callbacks": [handler]})
    cassette = open_cassette(handler.path)
    assert len(cassette.entries) == 5
    before = [s.data for s in cassette.steps() if s.name == "before"]
    assert sorted(before) == [0, 1, 2, 3, 4]
    kinds = [record.kind for record in cassette.records() if record.kind != "gap"]
    assert kinds == ["chain", "event", "chat", "event"] * 5


def test_large_output_is_left_out(world: World, handler: TapeCallbackHandler) -> None:
    """A conversation that the calls hold already is not written once more."""
    RunnableLambda(lambda _: "word " * 20_000).invoke(1, {"callbacks": [handler]})
    (chain,) = [s for s in open_cassette(handler.path).steps() if s.kind == "chain"]
    assert chain.output is None
    assert chain.data["left_out"] == "output"
    assert chain.data["bytes"] > 100_000


# -- every kind of call ---------------------------------------------------------------------------------------------


async def test_retrievers_and_text_models_replay(world: World, handler: TapeCallbackHandler) -> None:
    """Searches, prompts alone and in batches, streams: what was observed is what a session records, and is replayed."""

    class Shelf(BaseRetriever):
        """Has no settings, as an observer doesn't see them."""

        world: Any

        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return [Document(f"page {self.world.reach('shelf')} on {query}")]

    shelf, scribe = Shelf(world=world), StreamingText(world=world)

    async def run(config: Any) -> list[Any]:
        return [
            shelf.invoke("rain", config),
            await shelf.ainvoke("snow", config),
            scribe.invoke("one", config),
            BatchingText(world=world).generate(["two", "three"], callbacks=config.get("callbacks")).generations,
            (
                await BatchingText(world=world).agenerate(["four", "five"], callbacks=config.get("callbacks"))
            ).generations,
            list(scribe.stream("six seven", config)),
            [chunk async for chunk in scribe.astream("eight nine", config)],
            scribe.batch(["ten", "ten"], config),
        ]

    observed = await run({"callbacks": [handler]})
    path = Path(handler.path).with_name("taped.yaml")
    async with use_cassette(path, mode="once", freeze=()):
        await run({})
    seen, taped = (sorted((e.kind, e.fingerprint) for e in open_cassette(p).entries) for p in (handler.path, path))
    assert seen == taped
    world.gone = True
    async with use_cassette(handler.path) as replay:
        assert await run({}) == observed
    assert replay.report.unused == ()


def test_failing_batch_of_prompts_is_one_failure(world: World, handler: TapeCallbackHandler) -> None:
    """An error of a call with several prompts is recorded once, and raised again."""

    class Broken(BatchingText):
        def _generate(self, prompts: list[str], *args: Any, **kwargs: Any) -> LLMResult:
            raise TimeoutError(f"scribe {self.world.reach('scribe')}")

    broken = Broken(world=world)
    with pytest.raises(TimeoutError, match="scribe 1"):
        broken.generate(["a", "b"], callbacks=[handler])
    assert [(e.kind, e.name) for e in open_cassette(handler.path).entries] == [("completion", "Broken")]
    world.gone = True
    with use_cassette(handler.path), pytest.raises(TimeoutError, match="scribe 1"):
        broken.generate(["a", "b"])


SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
SPELLINGS: dict[str, dict[str, Any]] = {
    "openai": {
        "type": "function",
        "function": {"name": "weather", "description": "Tell\n    it.", "parameters": SCHEMA},
    },
    "openai responses": {"type": "function", "name": "weather", "description": "Tell it.", "parameters": SCHEMA},
    "anthropic": {"name": "weather", "description": "Tell\n        it.", "input_schema": SCHEMA},
    "bedrock": {"toolSpec": {"name": "weather", "description": "Tell it.", "inputSchema": {"json": SCHEMA}}},
    "json schema": {"title": "weather", "description": "Tell it.", **SCHEMA},
    "built in": {"type": "web_search", "max_uses": 3},
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_tools_in_any_spelling(spelling: str, world: World, handler: TapeCallbackHandler) -> None:
    """However a provider spells its tools, the observed call is the one that a session asks for."""
    model = PlainChat(world=world).bind(tools=[SPELLINGS[spelling]], tool_choice="auto")
    observed = model.invoke("Hi", {"callbacks": [handler]})
    world.gone = True
    with use_cassette(handler.path) as replay:
        assert model.invoke("Hi") == observed
    assert [replayed.match_rule for replayed in replay.report.replayed] == ["exact"]

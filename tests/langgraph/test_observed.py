"""What a handler has observed replays as the same run, or is refused with the reason: a table of programs."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph

from agenttape_core import use_cassette
from agenttape_core.errors import CassetteMissError
from agenttape_langchain import TapeCallbackHandler

from .fakes import NativeChat, World, arun, run
from .observed_programs import ASKED, PROGRAMS, by_last

if TYPE_CHECKING:
    from pathlib import Path

_DRAWN = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[0-9a-f]{32}\b")
"""An id that the frameworks have drawn: of a message without one, of a run, of a task, of an interrupt."""


def renamed(value: Any) -> str:
    """Return a value in full, its drawn ids numbered: a handler freezes none, but each must stand where it stood."""
    numbers: dict[str, str] = {}
    return _DRAWN.sub(lambda found: numbers.setdefault(found[0], f"<{len(numbers)}>"), repr(value))


@pytest.mark.sweep
@pytest.mark.parametrize("is_async", [False, True], ids=["threads", "tasks"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_observed_programs(name: str, is_async: bool, world: World, tmp_path: Path) -> None:
    """A replay of an observed program gives all that it gave, or says what the handler could not see."""
    # The programs that no observer sees enough of, and the reason that a replay gives.
    refused = {
        "embedding": "fires callbacks for chat models, text models, tools and retrievers only",
        "drawing_numbers": "recorded by a handler, which freezes nothing",
    }

    program = PROGRAMS[name]

    def drive(**config: Any) -> Any:
        calls = program(world, {"configurable": {"thread_id": "1"}, **config})
        return asyncio.run(arun(calls)) if is_async else run(calls)

    with TapeCallbackHandler(tmp_path / "c.jsonl") as handler:
        observed = drive(callbacks=[handler])
    assert handler.errors == []
    world.gone = True
    if name in refused:
        with pytest.raises(CassetteMissError, match=refused[name]), use_cassette(tmp_path / "c.jsonl"):
            drive()
        return
    with use_cassette(tmp_path / "c.jsonl") as session:
        replayed = drive()
    assert renamed(replayed) == renamed(observed)
    assert session.report.unused == ()


@pytest.mark.parametrize("name", ["swarm", "streaming_tools", "remembering_tools", "asking_tools"])
def test_a_handler_in_a_session(name: str, world: World, tmp_path: Path) -> None:
    """A handler and a session record the same run, each all of it; a replay may be observed like any run."""

    def drive(**config: Any) -> Any:
        return run(PROGRAMS[name](world, {"configurable": {"thread_id": "1"}, **config}))

    with TapeCallbackHandler(tmp_path / "seen.jsonl") as handler, use_cassette(tmp_path / "taped.jsonl", mode="all"):
        recorded = drive(callbacks=[handler])
    world.gone = True
    with TapeCallbackHandler(tmp_path / "again.jsonl") as again, use_cassette(tmp_path / "taped.jsonl"):
        assert drive(callbacks=[again]) == recorded
    for path in ("seen.jsonl", "again.jsonl"):
        with use_cassette(tmp_path / path):
            assert renamed(drive()) == renamed(recorded)
    assert (handler.errors, again.errors) == ([], [])


def test_metadata_of_parts_keep_their_order(world: World, tmp_path: Path) -> None:
    """The metadata of chunks of an agent within a tool have the keys in the order in which they came."""
    inner = create_agent(NativeChat(world=world, model_name="inner"), [], name="inner")

    @tool
    async def dig() -> str:
        """Dig."""
        return str((await inner.ainvoke(ASKED))["messages"][-1].text)

    async def drive(**config: Any) -> list[list[str]]:
        agent: Any = create_agent(by_last(world, ("dig", {})), [dig])
        builder = StateGraph(MessagesState).add_node("agent", agent).add_edge(START, "agent")
        given = {"configurable": {"thread_id": "1"}, **config}
        parts = builder.compile().astream(ASKED, given, stream_mode="messages", subgraphs=True)
        return [list(metadata) async for _, (_, metadata) in parts]

    with TapeCallbackHandler(tmp_path / "c.jsonl") as handler:
        observed = asyncio.run(drive(callbacks=[handler]))
    assert handler.errors == []
    world.gone = True
    with use_cassette(tmp_path / "c.jsonl"):
        assert asyncio.run(drive()) == observed


def test_effects_that_cannot_be_written(world: World, tmp_path: Path) -> None:
    """The run goes on, the call is marked, and its replay is refused with the reason."""

    @tool
    def dig() -> str:
        """Dig."""
        get_stream_writer()({"handle": object()})
        return f"dug {world.reach('dig')}"

    def drive(**config: Any) -> Any:
        agent: Any = create_agent(by_last(world, ("dig", {})), [dig])
        return list(agent.stream(ASKED, config, stream_mode="custom"))

    with TapeCallbackHandler(tmp_path / "c.jsonl") as handler:
        assert len(drive(callbacks=[handler])) == 1
    assert handler.errors == []
    world.gone = True
    told = "effect on its graph that cannot be written"
    with pytest.raises(CassetteMissError, match=told), use_cassette(tmp_path / "c.jsonl"):
        drive()


def test_the_config_of_a_caller_is_left_as_it_was(world: World, tmp_path: Path) -> None:
    """What a handler puts around a tool is gone when the tool has ended, however it did."""
    kept: list[Any] = []

    @tool
    def dig(n: int, config: RunnableConfig) -> str:
        """Dig."""
        if n:
            raise LookupError(n)
        return str(world.reach("dig"))

    def work(state: MessagesState, config: RunnableConfig) -> Any:
        before = dict(config["configurable"])
        for n in (0, 1):
            with suppress(LookupError):
                dig.run({"n": n}, config=config)
        kept.append(config["configurable"] == before)

    graph = StateGraph(MessagesState).add_node("work", work).add_edge(START, "work").compile()
    with TapeCallbackHandler(tmp_path / "c.jsonl") as handler:
        graph.invoke(ASKED, {"callbacks": [handler]})
    assert (handler.errors, kept) == ([], [True])

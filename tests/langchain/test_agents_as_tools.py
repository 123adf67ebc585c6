"""A tool that is an agent is run on replay: its prompts, tools and models are compared, its events are there."""

from __future__ import annotations

import asyncio
import sys
import types
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.tools import ToolRuntime
from langchain_core.documents import Document
from langchain_core.messages import ToolMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import BaseTool, create_retriever_tool, tool
from langchain_core.vectorstores import VectorStore
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from agenttape_core import Session, use_cassette
from agenttape_core.errors import CassetteMissError, UnusedInteractionsError

from ..kit.replaying import Twice
from .fakes import NativeChat, World, in_turn

QUESTION = {"messages": [("user", "Write about tapes.")]}


def supervisor(world: World, *, researcher: str = "You research.", has_search: bool = True) -> Any:
    """Return an agent with two agents as tools, the first of which has a tool of its own."""

    @tool
    def search(query: str) -> str:
        """Search."""
        return f"found {query} {world.reach('search')}"

    search_first = in_turn([("search", {"query": "tapes"})])
    inner = create_agent(
        NativeChat(world=world, reply=search_first), [search] if has_search else [], system_prompt=researcher
    )
    writer = create_agent(NativeChat(world=world), [], system_prompt="You write.")

    @tool
    def ask_researcher(question: str) -> str:
        """Ask the researcher."""
        asked = f"{question} {uuid.uuid4().hex[:5]} {datetime.now(UTC)}"
        return str(inner.invoke({"messages": [("user", asked)]})["messages"][-1].text)

    @tool
    async def ask_writer(topic: str) -> str:
        """Ask the writer."""
        await asyncio.sleep(0.001)
        asked = f"{topic} {uuid.uuid4().hex[:5]} {datetime.now(UTC)}"
        return str((await writer.ainvoke({"messages": [("user", asked)]}))["messages"][-1].text)

    both = in_turn([("ask_researcher", {"question": "tapes?"}), ("ask_writer", {"topic": "tapes"})])
    return create_agent(NativeChat(world=world, reply=both), [ask_researcher, ask_writer], system_prompt="You lead.")


@pytest.fixture
async def supervised(world: World, tmp_path: Path) -> tuple[Path, Any]:
    """Record the supervisor; return the cassette and the end of its run."""
    path = tmp_path / "supervised.yaml"
    with use_cassette(path, mode="all"):
        recorded = await supervisor(world).ainvoke(QUESTION)
    world.gone = True
    return path, recorded


async def test_supervisor_replays(supervised: tuple[Path, Any], world: World) -> None:
    """Both sub-agents run, in parallel, each at its own time; all that they ask is replayed."""
    path, recorded = supervised
    with use_cassette(path) as replay:
        assert await supervisor(world).ainvoke(QUESTION) == recorded
    assert {call_record.name for call_record in replay.report.stepped_into} == {"ask_researcher", "ask_writer"}
    assert len(replay.report.replayed) == 6
    assert [str(one) for one in replay.report.not_run] == ["search (calls nothing that is recorded)"]


async def test_edited_prompt_of_a_sub_agent_is_a_miss(supervised: tuple[Path, Any], world: World) -> None:
    """The miss names the sub-agent and shows what differs; it is no error of the tool, and the run stops."""
    path, _ = supervised
    with pytest.raises(CassetteMissError) as missed, use_cassette(path):
        await supervisor(world, researcher="You are a pirate.").ainvoke(QUESTION)
    assert "/ask_researcher/LangGraph/model@1/NativeChat" in missed.value.address
    assert "pirate" in str(missed.value)


async def test_tool_taken_from_a_sub_agent_is_a_miss(supervised: tuple[Path, Any], world: World) -> None:
    """A sub-agent without one of its tools asks another request."""
    path, _ = supervised
    with pytest.raises(CassetteMissError, match="tools"), use_cassette(path):
        await supervisor(world, has_search=False).ainvoke(QUESTION)


async def test_frozen_serves_sub_agents_as_blocks(supervised: tuple[Path, Any], world: World) -> None:
    """By name, a sub-agent is replayed as one tool: an edit inside it is not noticed, and the report says so."""
    path, recorded = supervised
    with use_cassette(path, replay_only={"tool"}) as replay:
        found = await supervisor(world, researcher="You are a pirate.").ainvoke(QUESTION)
    assert found == recorded
    assert [str(one) for one in replay.report.not_run] == [
        "ask_researcher (replay-only)",
        "ask_writer (replay-only)",
    ]


async def test_events_of_sub_agents_are_replayed(world: World, twice: Twice) -> None:
    """`astream_events` shows the models and tools of the sub-agents on replay, with their ids, as it was recorded."""

    async def events(session: Session) -> list[tuple[Any, ...]]:
        assert session is not None
        stream = supervisor(world).astream_events(QUESTION, version="v2", config={"max_concurrency": 1})
        return [(one["event"], one["name"], one["run_id"], one["parent_ids"]) async for one in stream]

    with twice.records() as session:
        recorded = await events(session)
    with twice.replays() as session:
        found = await events(session)
    assert sorted(found) == sorted(recorded)
    assert sum(name == "NativeChat" and event == "on_chat_model_start" for event, name, *_ in found) == 5


# -- other tools that call what is recorded ----------------------------------------------------------------------------


def test_retriever_tool_is_stepped_into(world: World, twice: Twice) -> None:
    """The tool that LangChain makes of a retriever runs: another prompt for its documents shows at once."""

    class Shelf(BaseRetriever):
        """Finds one document."""

        world: Any

        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return [Document(f"{query} {self.world.reach('shelf')}")]

    def finder(prompt: str) -> BaseTool:
        document_prompt = ChatPromptTemplate.from_template(prompt) if prompt else None
        return create_retriever_tool(Shelf(world=world), "find", "Find.", document_prompt=document_prompt)

    recorded = twice.record(lambda: finder("").invoke({"query": "a"}))
    with twice.replays() as replay:
        assert finder("").invoke({"query": "a"}) == recorded == "a 1"
        assert [call_record.name for call_record in replay.report.stepped_into] == ["find"]


class Rows(VectorStore):
    """Finds one document by a client that nothing can watch."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.client = sys.modules["psycopg"].Connection()

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        return [Document(f"{query} {self.world.reach('rows')}")]

    def drop(self) -> str:
        """Do what no boundary records."""
        return f"dropped {self.client}"

    @classmethod
    def from_texts(cls, *args: Any, **kwargs: Any) -> Rows:
        raise NotImplementedError


@pytest.fixture
def psycopg(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of that name, installed and loaded."""
    module: Any = types.ModuleType("psycopg")
    module.__file__ = "/x/site-packages/psycopg/__init__.py"
    exec("class Connection: pass", module.__dict__)
    monkeypatch.setitem(sys.modules, "psycopg", module)


@pytest.mark.usefixtures("psycopg")
def test_boundaries_over_native_clients_are_no_side_effects(world: World, twice: Twice) -> None:
    """A tool over a store, or an agent with a tool, is stepped into; its saver, or what goes past it, isn't."""

    class NativeSaver(InMemorySaver):
        """Keeps checkpoints beside such a client."""

        def __init__(self) -> None:
            super().__init__()
            self.client = sys.modules["psycopg"].Connection()

    store = Rows(world)
    found = create_retriever_tool(store.as_retriever(), "found", "Find.")

    @tool
    def looked(query: str) -> str:
        """Look."""
        return store.similarity_search(query)[0].page_content

    @tool
    def dropped(query: str) -> str:
        """Drop."""
        return looked.invoke({"query": query}) + store.drop()[:7]

    def asking(name: str, saver: InMemorySaver) -> BaseTool:
        agent = create_agent(NativeChat(world=world), [dropped], checkpointer=saver)

        @tool(name)
        def ask(query: str) -> str:
            """Ask."""
            config: Any = {"configurable": {"thread_id": "1"}}
            return str(agent.invoke({"messages": [("user", query)]}, config)["messages"][-1].text)

        return ask

    def run() -> list[Any]:
        tools = [found, looked, dropped, asking("asked", InMemorySaver()), asking("saved", NativeSaver())]
        return [each.invoke({"query": "a"}) for each in tools]

    twice(run)
    assert [call_record.name for call_record in twice.replay.report.stepped_into] == [
        "found",
        "VectorStoreRetriever",
        "looked",
        "asked",
    ]
    assert {str(one).partition(",")[0] for one in twice.replay.report.not_run} == {
        "dropped (uses psycopg",
        "saved (uses psycopg",
    }


@pytest.mark.filterwarnings("ignore:This API is in beta")
def test_runnable_as_a_tool_is_stepped_into(world: World, twice: Twice) -> None:
    """`as_tool` of a chain runs; an edited prompt in it is a miss."""

    def translator(prompt: str) -> BaseTool:
        chain = ChatPromptTemplate.from_template(prompt) | NativeChat(world=world)
        return chain.as_tool(name="translate", description="Translate.", arg_types={"text": str})

    twice(lambda: translator("To Latin: {text}").invoke({"text": "tape"}))
    with pytest.raises(CassetteMissError, match="Greek"), twice.replays():
        translator("To Greek: {text}").invoke({"text": "tape"})


def test_results_of_every_sort(world: World, twice: Twice) -> None:
    """Artifacts, commands on the state and custom streams are made by the code of a tool that is stepped into."""
    model = NativeChat(world=world)

    @tool(response_format="content_and_artifact")
    def look(at: str) -> tuple[str, dict[str, str]]:
        """Look."""
        return "looked", {"said": model.invoke(at).text}

    @tool
    def note(text: str, runtime: ToolRuntime) -> Command[Any]:
        """Note."""
        runtime.stream_writer({"noting": model.invoke(text).text})
        seen = len(runtime.state["messages"])
        return Command(update={"messages": [ToolMessage(f"noted after {seen}", tool_call_id=runtime.tool_call_id)]})

    asking = in_turn([("look", {"at": "it"})], [("note", {"text": "that"})])
    agent = create_agent(NativeChat(world=world, reply=asking), [look, note])

    def run() -> list[Any]:
        return list(agent.stream(QUESTION, stream_mode=["values", "custom"]))

    recorded = twice(run)
    assert [call_record.name for call_record in twice.replay.report.stepped_into] == ["look", "note"]
    assert sum(mode == "custom" for mode, _ in recorded) == 1
    assert len(twice.replay.report.replayed) == 5


def test_tool_that_asks_a_human(world: World, twice: Twice) -> None:
    """A tool that asks a model and then a human stops for its question on replay, and goes on with the answer."""
    model = NativeChat(world=world)

    @tool
    def publish(text: str) -> str:
        """Publish."""
        draft = model.invoke(f"Draft {text}").text
        return f"{draft}: {interrupt({'publish?': draft})}"

    asking = in_turn([("publish", {"text": "it"})])

    def run() -> list[Any]:
        agent = create_agent(NativeChat(world=world, reply=asking), [publish], checkpointer=InMemorySaver())
        config: Any = {"configurable": {"thread_id": "1"}}
        return [agent.invoke(QUESTION, config), agent.invoke(Command(resume="yes"), config)]

    twice(run)
    assert [call_record.name for call_record in twice.replay.report.stepped_into] == ["publish", "publish"]


def test_call_left_out_is_unused(world: World, twice: Twice) -> None:
    """A sub-agent that no longer makes a call leaves it unused, where the whole tool was replayed before."""
    model = NativeChat(world=world)

    def drafting(times: int) -> BaseTool:
        @tool
        def draft(text: str) -> int:
            """Draft."""
            return len([model.invoke(f"{text} {number}") for number in range(times)])

        return draft

    twice.record(lambda: drafting(2).invoke({"text": "a"}))
    with pytest.raises(UnusedInteractionsError, match="2 of the 3"), twice.replays():
        drafting(1).invoke({"text": "a"})

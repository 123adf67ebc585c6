"""Stand-ins made of a cassette answer as the recorded parts did, with no session and no provider."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool

import agenttape_langchain
from agenttape_core import boundary, returns, use_cassette, what_if
from agenttape_core.errors import CassetteMissError, CassetteNotFoundError, ConfigurationError
from agenttape_langchain import (
    ReplayChatMessageHistory,
    ReplayChatModel,
    ReplayEmbeddings,
    ReplayLLM,
    ReplayRetriever,
    ReplayTool,
    ReplayVectorStore,
)

from ..kit.replaying import Twice
from .fakes import PlainChat, World, calling
from .parts import (
    PARTS,
    BatchingText,
    ConfigurableRetriever,
    PlainEmbeddings,
    PlainRetriever,
    RemoteHistory,
    RemoteVectorStore,
)

STAND_INS: dict[str, Callable[..., Any]] = {
    **{name: part.stand_in for name, part in PARTS.items()},
    "tool": lambda cassette: ReplayTool(cassette, "find"),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of the cassette."""
    return tmp_path / "run.yaml"


@pytest.mark.parametrize("part", STAND_INS)
def test_cassette_without_such_calls_is_refused(part: str, world: World, path: Path) -> None:
    """Nothing can be made of a cassette that holds nothing of the sort, nor of none."""
    with pytest.raises(CassetteNotFoundError):
        STAND_INS[part](path)
    with use_cassette(path, mode="all"):
        PlainChat(world=world).invoke("a")
    with pytest.raises(ConfigurationError, match="nothing can replace it"):
        STAND_INS[part](path)


@pytest.mark.parametrize("on_repeat", ["fail", "last", "cycle"])
def test_exhausted(on_repeat: Any, world: World, path: Path) -> None:
    """More calls than were recorded fail, or get the last answer, or start over."""
    with use_cassette(path, mode="all"):
        first, second = (PlainEmbeddings(world).embed_query("a") for _ in range(2))
    stand_in = ReplayEmbeddings(path, on_repeat=on_repeat)
    assert [stand_in.embed_query("a") for _ in range(2)] == [first, second]
    if on_repeat == "fail":
        with pytest.raises(CassetteMissError):
            stand_in.embed_query("a")
    else:
        assert stand_in.embed_query("a") == (second if on_repeat == "last" else first)


def test_exhausted_request_of_one_of_several_models(world: World, path: Path) -> None:
    """A request that only one of several models got is answered by that one, also again."""
    with use_cassette(path, mode="all"):
        PlainEmbeddings(world, model="embed-1").embed_query("a")
        recorded = PlainEmbeddings(world, model="embed-2").embed_query("b")
    stand_in = ReplayEmbeddings(path, on_repeat="last")
    assert [stand_in.embed_query("b") for _ in range(2)] == [recorded] * 2


def test_model_is_chosen(world: World, path: Path) -> None:
    """If a cassette holds several models, one may be named; one that it does not hold is refused."""
    with use_cassette(path, mode="all"):
        vectors = [PlainEmbeddings(world, model=f"embed-{n}").embed_query("a") for n in range(2)]
        texts = [BatchingText(world=world, model_name=f"text-{n}").invoke("a") for n in range(2)]
    assert ReplayEmbeddings(path, model="embed-1").embed_query("a") == vectors[1]
    assert ReplayLLM(path, model="text-1").invoke("a") == texts[1]
    assert [ReplayEmbeddings(path).embed_query("a") for _ in range(2)] == [vectors[0]] * 2
    for make in (ReplayEmbeddings, ReplayLLM):
        with pytest.raises(ConfigurationError, match=r"no (embeddings|completion) of model 'gpt'; it holds .*-0.*-1"):
            make(path, model="gpt")


def test_name_and_conversation_are_chosen(world: World, path: Path) -> None:
    """If a cassette holds several stores or retrievers, a name selects one; a conversation selects a history."""
    with use_cassette(path, mode="all"):
        PlainRetriever(world=world).invoke("a")
        found = ConfigurableRetriever(world=world).invoke("a")
        for session_id in "12":
            RemoteHistory(world, {"2": [HumanMessage("two")]}, session_id).messages.clear()
    assert ReplayRetriever(path, name="ConfigurableRetriever").invoke("a") == found
    assert ReplayRetriever(path).name == "PlainRetriever"
    assert ReplayChatMessageHistory(path, session_id="2").messages == [HumanMessage("two")]
    with pytest.raises(
        ConfigurationError, match="no retrieval of 'Other'; it holds ConfigurableRetriever, PlainRetriever"
    ):
        ReplayRetriever(path, name="Other")


def test_what_a_call_gives_must_be_equal(world: World, path: Path) -> None:
    """The settings of the recorded retriever are taken over; the arguments of a call count."""
    with use_cassette(path, mode="all"):
        one, many = ConfigurableRetriever(world=world).invoke("a", k=1), ConfigurableRetriever(world=world).invoke("a")
    assert ReplayRetriever(path).invoke("a", k=1) == one
    assert ReplayRetriever(path).invoke("a") in (one, many)
    with pytest.raises(CassetteMissError):
        ReplayRetriever(path).invoke("a", k=5)


async def test_parallel_calls_are_each_replayed_once(world: World, path: Path) -> None:
    """Equal calls at once never get the same recording."""
    model = PlainEmbeddings(world)
    with use_cassette(path, mode="all"):
        recorded = await asyncio.gather(*(model.aembed_query("a") for _ in range(6)))
    stand_in = ReplayEmbeddings(path)
    replayed = await asyncio.gather(*(asyncio.to_thread(stand_in.embed_query, "a") for _ in range(6)))
    assert sorted(replayed) == sorted(recorded)


def test_retriever_of_a_vector_store(world: World, path: Path) -> None:
    """The retriever that a stand-in makes finds what the recorded one found, by the store's call inside."""
    with use_cassette(path, mode="all"):
        found = RemoteVectorStore(world).as_retriever(search_kwargs={"k": 3}).invoke("q")
    assert ReplayVectorStore(path).as_retriever(search_kwargs={"k": 3}).invoke("q") == found
    with pytest.raises(ConfigurationError, match="made of a cassette, not of texts"):
        ReplayVectorStore.from_texts(["a"], None)


def test_recorded_errors_are_raised(path: Path) -> None:
    """A stand-in fails as the recorded part failed."""

    class Failing(PlainEmbeddings):
        def embed_query(self, text: str) -> list[float]:
            raise TimeoutError("too late")

    with use_cassette(path, mode="all"), pytest.raises(TimeoutError):
        Failing(None).embed_query("a")  # type: ignore[arg-type]
    with pytest.raises(TimeoutError, match="too late"):
        ReplayEmbeddings(path).embed_query("a")


# -- tools ---------------------------------------------------------------------------------------------------------


@tool
def find(city: str, days: int = 1) -> str:
    """Find a hotel."""
    return f"a hotel in {city} for {days}"


async def test_whole_agent_without_its_parts(world: World, path: Path) -> None:
    """An agent of a stand-in model and a stand-in tool does what the recorded one did, also asynchronously."""

    def asks_the_tool(messages: Any, number: int) -> AIMessage:
        """Ask for the tool once, then answer."""
        if isinstance(messages[-1], ToolMessage):
            return AIMessage(f"answer {messages[-1].content}")
        return calling(("find", {"city": "Paris"}), number=number)

    question = {"messages": [("user", "a hotel?")]}
    with use_cassette(path, mode="all", freeze=()):
        recorded = create_agent(PlainChat(world=world, reply=asks_the_tool), [find]).invoke(question)["messages"]
    world.gone = True
    for is_async in (False, True):
        stand_in = ReplayTool(path, "find")
        agent = create_agent(ReplayChatModel(path), [stand_in])
        replayed = (await agent.ainvoke(question) if is_async else agent.invoke(question))["messages"]
        assert [message.content for message in replayed] == [message.content for message in recorded]
        assert replayed[2].tool_call_id == recorded[2].tool_call_id
        assert len(stand_in.report.replayed) == 1
    assert (stand_in.name, stand_in.description) == ("find", "Find a hotel.")
    assert stand_in.args.keys() == {"city", "days"}


def test_tool_that_no_chat_describes(path: Path) -> None:
    """Without a chat that has the tool, its description must be given."""
    with use_cassette(path, mode="all"):
        recorded = find.invoke({"city": "Rome", "days": 2})
    with pytest.raises(ConfigurationError, match=r"description=\.\.\., args_schema=\.\.\."):
        ReplayTool(path, "find")
    stand_in = ReplayTool(path, "find", description="Find it.", args_schema=find.args_schema)
    assert stand_in.invoke({"city": "Rome", "days": 2}) == recorded
    with pytest.raises(CassetteMissError):
        stand_in.invoke({"city": "Rome", "days": 3})


async def test_tool_with_an_artifact(path: Path) -> None:
    """Content and artifact come back as such, with the id of the call that asks."""

    @tool(response_format="content_and_artifact")
    def find(city: str) -> tuple[str, Document]:
        """Find a hotel."""
        return f"a hotel in {city}", Document("Ritz")

    with use_cassette(path, mode="all"):
        find.invoke({"name": "find", "args": {"city": "Paris"}, "id": "recorded", "type": "tool_call"})
    for is_async in (False, True):
        stand_in = ReplayTool(path, "find", description="", args_schema=find.args_schema)
        call: Any = {"name": "find", "args": {"city": "Paris"}, "id": "live", "type": "tool_call"}
        answer = await stand_in.ainvoke(call) if is_async else stand_in.invoke(call)
        assert answer.artifact == Document("Ritz")
        assert (answer.content, answer.tool_call_id) == ("a hotel in Paris", "live")


def test_tool_that_returns_its_call_id(path: Path) -> None:
    """The id of the recorded call inside a result is that of the call which asks now."""

    @tool
    def find(city: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> ToolMessage:
        """Find a hotel."""
        return ToolMessage(f"a hotel in {city}", tool_call_id=tool_call_id)

    with use_cassette(path, mode="all"):
        find.invoke({"name": "find", "args": {"city": "Paris"}, "id": "call_recorded", "type": "tool_call"})
    schema = find.tool_call_schema.model_json_schema()
    stand_in = ReplayTool(path, "find", description="", args_schema=schema)
    answer = stand_in.invoke({"name": "find", "args": {"city": "Paris"}, "id": "call_live", "type": "tool_call"})
    assert answer.tool_call_id == "call_live"


# -- the package ---------------------------------------------------------------------------------------------------


def test_every_promised_name_is_there() -> None:
    """Every name that the package promises is there, under that name."""
    for name in agenttape_langchain.__all__:
        assert getattr(agenttape_langchain, name).__name__ == name


@pytest.mark.process
def test_imports_wait_until_they_are_needed(tmp_path: Path) -> None:
    """Our packages import neither a framework nor core's parts; a session no tools, and a stand-in no agents."""
    imports = """
import sys

before = set(sys.modules)  # what measures coverage imports some

import agenttape_langchain

def loaded(*names):
    return sorted(name for name in sys.modules if name.startswith(names) and name not in before)

print(loaded("pydantic", "langchain", "langgraph", "yaml", "dataclasses"))
print(loaded("agenttape_core."))
import agenttape_langchain.tape
assert agenttape_langchain.tape.__name__ == agenttape_langchain.tape.__qualname__ == "tape"  # the function
from agenttape_core import use_cassette
with use_cassette(sys.argv[1]):
    pass
print(loaded("agenttape_core.cli", "agenttape_core.tools", "agenttape_core.checks", "agenttape_core.transports"))
import agenttape_langgraph
print(loaded("agenttape_langchain.importers", "agenttape_langchain.stand_ins", "langchain.", "langgraph"))
agenttape_langchain.ReplayEmbeddings
print({"langchain", "numpy"} & sys.modules.keys())
"""

    path = tmp_path / "empty.yaml"
    with use_cassette(path, mode="all", check_replay=False):
        pass
    done = subprocess.run([sys.executable, "-c", imports, str(path)], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        "[]",
        "['agenttape_core.garbage', 'agenttape_core.locks', 'agenttape_core.on_demand']",
        "[]",
        "[]",
        "set()",
    ]


def test_stand_in_takes_no_part_in_a_session(world: World, twice: Twice) -> None:
    """A stand-in answers from its own cassette also while an automatic session replays the rest of the same one."""

    @tool
    def tell(city: str) -> str:
        """Tell."""
        return f"{city} {world.reach('tell')}"

    with twice.records():
        answer = PlainChat(world=world).invoke("question")
        told = tell.invoke({"city": "Rome"})
    model = ReplayChatModel(twice.path)
    with twice.replays(on_unused="ignore") as session:
        assert model.invoke("question").text == answer.text
        assert tell.invoke({"city": "Rome"}) == told
    assert str(session.report) == "1 replayed, 0 recorded, 1 unused"
    assert str(model.report) == "1 replayed, 0 recorded"


def test_a_miss_that_the_program_catches_is_told(world: World, tmp_path: Path) -> None:
    """No block ends with a stand-in, so its miss is told when it happens: to what judges the run around it."""
    recorded = tmp_path / "run.yaml"

    @boundary("tool")
    def look() -> str:
        return "seen"

    with use_cassette(recorded, mode="all"):
        look()
        PlainChat(world=world).invoke("Hi")
    model = ReplayChatModel(recorded)

    def program() -> str:
        try:
            return str(model.invoke("Ho").text)
        except CassetteMissError:
            return look()

    found = what_if(recorded, program, {"look": returns("changed")})
    assert found.result == "changed"
    assert [line.partition(": ")[2].partition(" at ")[0] for line in found.failed] == [
        "PlainChat was called with a request that isn't in the cassette"
    ]

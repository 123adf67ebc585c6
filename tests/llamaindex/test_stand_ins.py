"""Stand-ins made of a cassette for each interface: no session, nothing real, a miss for what was not recorded."""

# Without `from __future__ import annotations`: the framework finds the context of a tool by the class of a parameter.

import asyncio
import copy
import gc
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.graph_stores.types import EntityNode
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.tools import FunctionTool, ToolMetadata
from llama_index.core.vector_stores.types import VectorStoreQuery
from llama_index.core.workflow import Context

import agenttape_llamaindex
from agenttape_core import use_cassette
from agenttape_core.errors import CassetteMissError, ConfigurationError
from agenttape_llamaindex import (
    ReplayChatStore,
    ReplayEmbedding,
    ReplayKVStore,
    ReplayLLM,
    ReplayMemory,
    ReplayNodePostprocessor,
    ReplayPropertyGraphStore,
    ReplayReader,
    ReplayRetriever,
    ReplaySparseEmbedding,
    ReplayTool,
    ReplayVectorStore,
    tape,
)

from .acceptance import FRAMEWORK_WARNINGS
from .fakes import FakeSparse
from .programs import Weather, after_tools, city_tools
from .scripted import ScriptedLLM, World
from .services import (
    ChatService,
    GraphService,
    KeyValueService,
    MemoryService,
    Pages,
    Reranker,
    Service,
    VectorService,
)
from .test_tools import OldThermometer, Thermometer, blocks_tool

pytestmark = FRAMEWORK_WARNINGS

NODE = TextNode(id_="a", text="Oslo", embedding=[0.5, 0.25])
HELLO = ChatMessage(role="user", content="Hello")


@pytest.fixture(scope="module", autouse=True)
def _freed() -> Iterator[None]:
    """Free the stand-ins: the framework's methods stay wrapped while there are any."""
    yield
    gc.collect()


async def use_vector_store(store: Any) -> Any:
    """Call a vector store in both forms."""
    query = VectorStoreQuery(query_embedding=[0.5, 0.25], similarity_top_k=1)
    found = [store.add([NODE]), store.query(query), await store.aquery(query, filters=None)]
    return [*found, await store.async_add([NODE]), store.delete("a"), await store.adelete(ref_doc_id="a")]


async def use_chat_store(store: Any) -> Any:
    """Call a chat store in both forms."""
    store.set_messages("ada", [HELLO])
    await store.async_add_message("ada", HELLO)
    found = [store.get_messages("ada"), await store.aget_messages(key="ada"), store.get_keys()]
    return [
        *found,
        store.delete_message("ada", 0),
        await store.adelete_last_message("ada"),
        store.delete_messages("ada"),
    ]


async def use_kv_store(store: Any) -> Any:
    """Call a key-value store in both forms."""
    store.put("a", {"x": 1}, collection="c")
    await store.aput("b", {"x": 2})
    store.put_all([("d", {"x": 3})])
    return [store.get("a", collection="c"), await store.aget("b"), store.get_all(), store.delete("a", "c")]


async def use_graph_store(store: Any) -> Any:
    """Call a property graph store in both forms."""
    store.upsert_nodes([EntityNode(name="a")])
    await store.aupsert_nodes([EntityNode(name="a")])
    found = [store.get(ids=["a"]), await store.aget(ids=["a"]), store.get_triplets(entity_names=["a"])]
    query = VectorStoreQuery(query_embedding=[0.5], similarity_top_k=1)
    return [*found, store.structured_query("MATCH"), await store.avector_query(query), store.delete(ids=["a"])]


async def use_memory(memory: Any) -> Any:
    """Call a memory in both forms."""
    memory.put(HELLO)
    await memory.aput_messages([HELLO])
    return [memory.get("Where?"), await memory.aget(input="When?"), memory.get_all(), memory.reset()]


async def use_postprocessor(postprocessor: Any) -> Any:
    """Call a postprocessor in both forms."""
    nodes = [NodeWithScore(node=NODE, score=0.5)]
    first = postprocessor.postprocess_nodes(nodes, query_str="Where?")
    return [first, await postprocessor.apostprocess_nodes(nodes, query_str="When?")]


async def use_reader(reader: Any) -> Any:
    """Call a reader in both forms."""
    return [reader.load_data("a", "b", depth=2), await reader.aload_data("c")]


async def use_retriever(retriever: Any) -> Any:
    """Call a retriever in both forms."""
    return [retriever.retrieve("Where?"), await retriever.aretrieve("When?")]


async def use_sparse(embedding: Any) -> Any:
    """Call a sparse embedding model in both forms."""
    found = [embedding.get_query_embedding("q"), await embedding.aget_query_embedding("r")]
    batch = [embedding.get_text_embedding_batch(["a", "bc"]), await embedding.aget_text_embedding_batch(["d"])]
    return [*found, *batch, embedding.model_name]


USES: dict[str, tuple[Any, Any, Callable[[Any], Any]]] = {
    "vector store": (VectorService, ReplayVectorStore, use_vector_store),
    "chat store": (ChatService, ReplayChatStore, use_chat_store),
    "key-value store": (KeyValueService, ReplayKVStore, use_kv_store),
    "property graph store": (GraphService, ReplayPropertyGraphStore, use_graph_store),
    "memory": (MemoryService, ReplayMemory, use_memory),
    "postprocessor": (Reranker, ReplayNodePostprocessor, use_postprocessor),
    "reader": (Pages, ReplayReader, use_reader),
    "retriever": (Service, ReplayRetriever, use_retriever),
    "sparse embedding model": (FakeSparse, ReplaySparseEmbedding, use_sparse),
}


@pytest.mark.parametrize("kind", USES)
async def test_a_stand_in_answers_as_the_recorded_object(kind: str, world: World, tmp_path: Path) -> None:
    """What was found and returned comes back, each call once, without a session; no session records it."""
    real, stand_in, use = USES[kind]
    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="all") as session:
        recorded = await use(real(world))
    world.gone = True
    chosen = {"model": "sparse-1"} if kind == "sparse embedding model" else {"name": real.__name__}
    standing = stand_in(path, **chosen)
    assert tape(standing) is standing
    with use_cassette(tmp_path / "other.yaml", mode="all", on_unused="ignore") as other:
        assert await use(standing) == recorded
    assert other.interactions == []
    assert len(standing.report.replayed) == len(session.interactions) > 1
    with pytest.raises(CassetteMissError, match="was called again with a request"):
        await use(standing)
    assert await use(pickle.loads(pickle.dumps(standing))) == recorded  # as in another process, from the start
    assert await use(stand_in(path, on_repeat="last")) is not None


@pytest.mark.parametrize("kind", USES)
def test_a_cassette_without_such_recordings_is_refused(kind: str, world: World, tmp_path: Path) -> None:
    """A cassette of another sort of object makes no stand-in."""
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        ScriptedLLM(world).chat([HELLO])
    with pytest.raises(ConfigurationError, match="record a run that calls it"):
        USES[kind][1](tmp_path / "c.yaml")


async def test_stores_of_one_cassette_are_told_apart(world: World, tmp_path: Path) -> None:
    """Interfaces that have methods of the same name are not taken for each other."""
    path = tmp_path / "c.yaml"
    real = {kind: (cls(world), use) for kind, (cls, _, use) in USES.items() if kind.endswith("store")}
    with use_cassette(path, mode="all"):
        recorded = {kind: await use(store) for kind, (store, use) in real.items()}
    for kind, told in recorded.items():
        assert await USES[kind][2](USES[kind][1](path)) == told


# -- tools ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda world: city_tools(world)[0], blocks_tool, Thermometer, OldThermometer])
async def test_a_tool_returns_what_was_recorded(make: Any, world: World, tmp_path: Path) -> None:
    """Blocks, raw outputs and inputs are equal, of a tool made of a function and of a class."""

    def output(told: Any) -> Any:
        """Return all of an output of a tool."""
        return told.model_dump(), told.content

    async def use_tool(tool: Any, given: dict[str, Any], *, is_called_only: bool) -> list[Any]:
        """Call a tool in each way there is."""
        if is_called_only:
            return [output(tool(**given))]
        return [output(tool(**given)), output(tool.call(**given)), output(await tool.acall(**given))]

    tool = make(world)
    given = {next(iter(tool.metadata.get_parameters_dict()["properties"])): "Oslo"}
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        recorded = await use_tool(tool, given, is_called_only=make is OldThermometer)
    world.gone = True
    with pytest.raises(ConfigurationError, match="no chat with a description"):
        ReplayTool(tmp_path / "c.yaml", tool.metadata.name)
    stand_in = ReplayTool(tmp_path / "c.yaml", tool.metadata.name, metadata=tool.metadata)
    assert await use_tool(stand_in, given, is_called_only=make is OldThermometer) == recorded
    with pytest.raises(CassetteMissError, match="Rome"):
        stand_in(**dict.fromkeys(given, "Rome"))
    with pytest.raises(ConfigurationError, match="no tool of 'other'"):
        ReplayTool(tmp_path / "c.yaml", "other", metadata=tool.metadata)


def test_a_callback_gets_the_recorded_result(world: World, tmp_path: Path) -> None:
    """What the program makes of a result is its own."""

    def measure(city: str) -> Weather:
        """Measure."""
        return Weather(city=city, degrees=world.reach("measure"))

    with use_cassette(tmp_path / "c.yaml", mode="all"):
        FunctionTool.from_defaults(measure)(city="Oslo")
    metadata = ToolMetadata(name="measure", description="Measure.")
    stand_in = ReplayTool(tmp_path / "c.yaml", "measure", metadata=metadata, callback=lambda held: f"{held.degrees}!")
    assert stand_in(city="Oslo").content == "1!"


async def test_a_pickled_tool_starts_again(world: World, tmp_path: Path) -> None:
    """A pickled tool has its description and its callback, and answers from the start; a copy continues."""

    def measure(city: str) -> int:
        """Measure."""
        return world.reach("measure")

    with use_cassette(tmp_path / "c.yaml", mode="all"):
        FunctionTool.from_defaults(measure)(city="Oslo")
    metadata = ToolMetadata(name="measure", description="Measure.")
    stand_in = ReplayTool(tmp_path / "c.yaml", "measure", metadata=metadata, callback=hex)
    assert stand_in(city="Oslo").content == "0x1"
    sent = pickle.loads(pickle.dumps(stand_in))
    assert (await sent.acall(city="Oslo")).content == "0x1"
    assert sent.metadata.to_openai_tool() == metadata.to_openai_tool()
    sent._recorded = copy.copy(sent._recorded)
    for each in (copy.copy(stand_in), copy.deepcopy(stand_in), sent):
        with pytest.raises(CassetteMissError, match="was called again with a request"):
            each(city="Oslo")
    with pytest.raises(TypeError, match="mode"):
        ReplayTool(tmp_path / "c.yaml", "measure", mode="all")  # type: ignore[call-arg] # it has two options alone


def test_an_agent_runs_on_stand_ins_alone(world: World, tmp_path: Path) -> None:
    """Model and tool of an agent are made of its cassette, with the description of the tool and its effects."""

    async def work_of(agent: FunctionAgent) -> Any:
        """Run an agent; return its answer, its streamed events and its state."""
        handler = agent.run("Go")
        events = [type(event).__name__ async for event in handler.stream_events()]
        return str(await handler), events, await handler.ctx.store.get("state")

    def agent_of(llm: Any, tools: list[Any]) -> FunctionAgent:
        """Return an agent."""
        return FunctionAgent(llm=llm, tools=tools, initial_state={"seen": []}, timeout=None)

    async def visit(ctx: Context, city: str) -> str:
        """Visit a city."""
        async with ctx.store.edit_state() as state:
            state["state"]["seen"].append(city)
        return f"seen {world.reach('visit')}"

    llm = ScriptedLLM(world, after_tools([("visit", {"city": "Oslo"})]))
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        recorded = asyncio.run(work_of(agent_of(llm, [visit])))
    world.gone = True
    tool = ReplayTool(tmp_path / "c.yaml", "visit")
    assert tool.metadata.description.endswith("Visit a city.")
    assert list(tool.metadata.get_parameters_dict()["properties"]) == ["city"]
    assert "city" in tool.metadata.fn_schema_str
    assert asyncio.run(work_of(agent_of(ReplayLLM(tmp_path / "c.yaml"), [tool]))) == recorded
    assert recorded[2] == {"seen": ["Oslo"]}


# -- the package ------------------------------------------------------------------------------------------------------


@pytest.mark.process
def test_the_package_is_imported_without_llamaindex() -> None:
    """Importing the package and `tape` does not wait for LlamaIndex: a name imports what it needs."""
    program = (
        "import sys, agenttape_llamaindex.tape; from agenttape_llamaindex import tape; assert callable(tape)\n"
        "assert 'llama_index.core' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_names_that_are_not_there_are_said_to_be_missing() -> None:
    """A name that the package does not have is an ordinary `AttributeError`."""
    with pytest.raises(AttributeError, match="ReplayChatModel"):
        agenttape_llamaindex.ReplayChatModel  # noqa: B018
    assert ReplayEmbedding is agenttape_llamaindex.ReplayEmbedding

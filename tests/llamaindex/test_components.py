"""Retrievers, rerankers, stores and memories: whose are recorded, what comes back, and the stand-in for a retriever."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from llama_index.core import Document, SimpleDirectoryReader, VectorStoreIndex
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.graph_stores import EntityNode, SimplePropertyGraphStore
from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
from llama_index.core.memory import ChatMemoryBuffer, Memory
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import QueryFusionRetriever, VectorIndexRetriever
from llama_index.core.schema import TextNode
from llama_index.core.storage.chat_store import SimpleChatStore
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.storage.docstore.keyval_docstore import KVDocumentStore
from llama_index.core.storage.kvstore import SimpleKVStore
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import VectorStoreQuery

from agenttape_core import use_cassette
from agenttape_core.errors import CassetteMissError, ConfigurationError, IncompleteObjectError
from agenttape_llamaindex import ReplayRetriever, tape

from .acceptance import FRAMEWORK_WARNINGS, record_and_replay, run
from .programs import close, documents, librarian, shown, shown_response, vector_index
from .scripted import ScriptedEmbedding, ScriptedLLM, World
from .services import ChatService, KeyValueService, LazyPages, Pages, Reranker, Service, VectorService

pytestmark = FRAMEWORK_WARNINGS


def test_parts_of_services_are_recorded_whole(tmp_path: Path) -> None:
    """Nodes with their ids, scores and metadata are replayed, inside their spans and events."""

    async def service_rag(world: World) -> Any:
        """Ask an engine whose retriever and reranker are services, each way."""
        engine = RetrieverQueryEngine.from_args(
            Service(world), llm=ScriptedLLM(world, librarian), node_postprocessors=[Reranker(world)]
        )
        return [shown_response(engine.query("Where?")), shown_response(await engine.aquery("When?"))]

    recorded, replayed = record_and_replay(service_rag, tmp_path / "service.yaml")
    assert replayed.value == recorded.value
    assert replayed.log == recorded.log
    kinds = [(item.kind, item.name) for item in recorded.cassette.interactions]
    assert kinds[:3] == [("retrieval", "Service"), ("retrieval", "Reranker"), ("chat", "ScriptedLLM")]


def test_parts_of_the_framework_run(tmp_path: Path) -> None:
    """A retriever of the framework's over others is no boundary; what it asks is recorded."""

    async def program(world: World) -> Any:
        fusion = QueryFusionRetriever(
            [Service(world), vector_index(world).as_retriever(similarity_top_k=1)],
            llm=ScriptedLLM(world, lambda *_: "one\ntwo"),
            num_queries=3,
            use_async=True,
        )
        found = [*fusion.retrieve("Rome"), *await fusion.aretrieve("Paris")]
        return [(node.node.node_id, node.text, node.score) for node in found]

    recorded, replayed = record_and_replay(program, tmp_path / "fusion.yaml")
    assert replayed.value == recorded.value
    assert replayed.log == recorded.log
    assert {item.name for item in recorded.cassette.interactions} == {"Service", "ScriptedLLM", "ScriptedEmbedding"}


def test_a_taped_part_of_the_framework_is_replayed_whole(tmp_path: Path) -> None:
    """Taped by hand, a search in memory is a retrieval, and its embedding belongs to it."""
    world = World()
    index = vector_index(world)

    def program(world: World) -> Any:
        retriever = tape(index.as_retriever(similarity_top_k=2))
        assert type(retriever) is not VectorIndexRetriever
        assert isinstance(retriever, VectorIndexRetriever)
        return [(node.node.node_id, node.score) for node in retriever.retrieve("Rome")]

    path = tmp_path / "taped.yaml"
    recorded = run(program, world, path, "once")
    world.gone = True
    replayed = run(program, world, path, "none")
    assert replayed.value == recorded.value
    assert [(item.kind, item.parent) for item in recorded.cassette.interactions] == [
        ("retrieval", None),
        ("embeddings", 1),
    ]


def test_settings_of_a_search_are_part_of_what_is_asked(tmp_path: Path) -> None:
    """A retriever that looks for more is another request."""
    world, path = World(), tmp_path / "settings.yaml"
    with use_cassette(path, mode="once"):
        Service(world).retrieve("Where?")
    with pytest.raises(CassetteMissError, match="similarity_top_k"), use_cassette(path, on_unused="ignore"):
        Service(world, similarity_top_k=3).retrieve("Where?")


def test_a_stand_in_retrieves_what_was_recorded(tmp_path: Path) -> None:
    """`ReplayRetriever` needs no session and no service, and chooses among several by name."""
    world, path = World(), tmp_path / "stand_in.yaml"
    with use_cassette(path, mode="once"):
        recorded = Service(world).retrieve("Where?")
    world.gone = True
    stand_in = ReplayRetriever(path, name="Service")
    assert stand_in.retrieve("Where?") == recorded
    assert str(stand_in.report) == "1 replayed, 0 recorded"
    engine = RetrieverQueryEngine.from_args(ReplayRetriever(path), llm=ScriptedLLM(World(), librarian))
    assert [node.node for node in engine.query("Where?").source_nodes] == [node.node for node in recorded]
    with pytest.raises(ConfigurationError, match="Other"):
        ReplayRetriever(path, name="Other")


# -- stores -----------------------------------------------------------------------------------------------------------


def test_stores_of_services_are_recorded(tmp_path: Path) -> None:
    """A write is not repeated and a read is replayed, in all the framework's uses of stores."""

    async def service_stores(world: World) -> Any:
        """Ingest into stores of services, ask them, and chat with a memory in one."""
        embedding = ScriptedEmbedding(world)
        pipeline = IngestionPipeline(
            transformations=[embedding],
            vector_store=VectorService(world),
            docstore=KVDocumentStore(KeyValueService(world)),
            docstore_strategy=DocstoreStrategy.UPSERTS,
        )
        nodes = await pipeline.arun(documents=documents())
        index = VectorStoreIndex.from_vector_store(pipeline.vector_store, embed_model=embedding)
        found = await index.as_retriever(similarity_top_k=2).aretrieve("Rome")
        memory = ChatMemoryBuffer.from_defaults(chat_store=ChatService(world), chat_store_key="ada")
        await memory.aput(ChatMessage(role="user", content="Hello"))
        memory.put(ChatMessage(role="assistant", content="Hi"))
        return [
            [node.node_id for node in nodes],
            [(node.node.node_id, node.score) for node in found],
            [shown(message) for message in await memory.aget()],
        ]

    recorded, replayed = record_and_replay(service_stores, tmp_path / "stores.yaml")
    assert replayed.value == recorded.value
    assert replayed.log == recorded.log
    kinds = {(item.kind, item.name) for item in recorded.cassette.interactions}
    assert kinds == {
        ("embeddings", "ScriptedEmbedding"),
        ("memory", "VectorService"),
        ("retrieval", "VectorService"),
        ("memory", "KeyValueService"),
        ("memory", "ChatService"),
    }


@pytest.mark.parametrize("store", [VectorService, KeyValueService, ChatService])
def test_a_taped_store_is_recorded_by_itself(store: Any, tmp_path: Path) -> None:
    """`tape` gives a store of the same kind that takes part in a session that is not automatic."""

    def program(world: World) -> Any:
        taped = tape(store(world))
        assert isinstance(taped, store)
        if store is VectorService:
            return [taped.add([TextNode(id_="a", text="x")]), taped.query(VectorStoreQuery(similarity_top_k=1)).ids]
        if store is KeyValueService:
            taped.put("a", {"b": 1})
            return taped.get("a")
        taped.add_message("a", ChatMessage(role="user", content="x"))
        return [shown(message) for message in taped.get_messages("a")]

    recorded, replayed = record_and_replay(program, tmp_path / "taped.yaml", auto=False)
    assert replayed.value == recorded.value
    assert recorded.value


def test_what_is_kept_in_the_process_is_no_boundary(tmp_path: Path) -> None:
    """Stores in memory run; nothing of them is recorded, and a chat store in memory is refused by `tape`."""

    async def program(world: World) -> Any:
        store = SimpleVectorStore()
        store.add([TextNode(text="x", embedding=[1.0])])
        SimpleDocumentStore().add_documents(documents())
        memory = Memory.from_defaults(session_id="ada")
        await memory.aput_messages([ChatMessage(role="user", content=str(number)) for number in range(3)])
        await memory.aput(ChatMessage(role="assistant", content="last"))
        world.reach("nothing else")
        with pytest.raises(ConfigurationError, match="in the process"):
            tape(memory.sql_store)
        told = [message.content for message in await memory.aget()]
        await close(memory)
        return told

    recorded = run(program, World(), tmp_path / "nothing.yaml", "once")
    assert not recorded.cassette.interactions
    assert recorded.value == ["0", "1", "2", "last"]  # sorted by moments, of which no two are equal


@pytest.mark.parametrize("cls", [Pages, LazyPages])
@pytest.mark.parametrize("auto", [True, False])
async def test_a_reader_of_others_is_replayed(cls: Any, world: World, tmp_path: Path, *, auto: bool) -> None:
    """A reader loads nothing on replay, in whichever form it is called; a reader of the core runs."""
    (tmp_path / "page.txt").write_text("a page")

    async def load() -> list[list[Document]]:
        reader = cls(world) if auto else tape(cls(world))
        loaded = [reader.load_data("a", "b", depth=2), await reader.aload_data("c")]
        if cls is LazyPages:
            loaded += [list(reader.lazy_load_data("d")), list(await reader.alazy_load_data("e"))]
        return [*loaded, SimpleDirectoryReader(input_files=[tmp_path / "page.txt"]).load_data()]

    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="all", auto=auto):
        recorded = await load()
    world.gone = True
    with use_cassette(path, auto=auto) as session:
        assert await load() == recorded
    assert recorded[0][1].text.startswith("b ")
    assert recorded[-1][0].text == "a page"
    assert [(replayed.kind, replayed.name) for replayed in session.report.replayed] == [
        ("retrieval", cls.__name__)
    ] * len(recorded[:-1])
    with pytest.raises(CassetteMissError), use_cassette(path, auto=auto):
        (cls(world) if auto else tape(cls(world))).load_data("another")


@pytest.mark.parametrize("taped", [False, True])
def test_stores_in_memory_run(tmp_path: Path, *, taped: bool) -> None:
    """They hold on replay what the program put there, and nothing of them is recorded; taped ones too."""
    made: Any = tape if taped else lambda store: store
    for mode in ("all", "none"):
        with use_cassette(tmp_path / "c.yaml", mode=mode, auto=not taped) as session:
            vectors = made(SimpleVectorStore())
            vectors.add([TextNode(text="a", id_="1", embedding=[1.0, 0.0])])
            assert vectors.query(VectorStoreQuery(query_embedding=[1.0, 0.0], similarity_top_k=1)).ids == ["1"]
            items, chats, graph = made(SimpleKVStore()), made(SimpleChatStore()), made(SimplePropertyGraphStore())
            items.put("a", {"x": 1})
            assert items.get("a") == {"x": 1}
            chats.add_message("k", ChatMessage(role="user", content="hi"))
            assert len(chats.get_messages("k")) == 1
            graph.upsert_nodes([EntityNode(name="a")])
            assert len(graph.get()) == 1
        assert session.interactions == []


def test_nothing_is_executed_after_a_replayed_write(world: World, tmp_path: Path) -> None:
    """A store of others to which a write was replayed does not hold it; reading it changes nothing."""
    store = KeyValueService(world)
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        store.get("a")
        store.put("a", {"x": 1})
    with (
        pytest.raises(IncompleteObjectError, match="this KeyValueService"),
        use_cassette(tmp_path / "c.yaml", mode="new_episodes"),
    ):
        store.get("a")
        store.get("b")
        store.put("a", {"x": 1})
        store.get("c")

"""What is particular to key-value stores, histories, compressors and document indexes that are recorded."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.indexing import InMemoryRecordManager, index
from langchain_core.indexing.base import DeleteResponse, DocumentIndex, UpsertResponse
from langchain_core.indexing.in_memory import InMemoryDocumentIndex
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.runnables.history import RunnableWithMessageHistory
from langchain_core.stores import InMemoryByteStore, InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore

from agenttape_core import use_cassette
from agenttape_core.errors import ConfigurationError, IncompleteObjectError
from agenttape_langchain import tape

from ..kit.replaying import Twice
from .fakes import PlainChat, World
from .parts import DOCUMENTS, RemoteHistory, RemoteStore, Reranker

# -- key-value stores ----------------------------------------------------------------------------------------------


async def test_request_names_method_arguments_and_namespace(world: World, tmp_path: Path) -> None:
    """The request says what is read or written, and where; a default says nothing."""
    with use_cassette(tmp_path / "store.yaml", mode="all") as recording:
        RemoteStore(world).mset(key_value_pairs=[("a", b"1")])
        list(RemoteStore(world).yield_keys())
        [key async for key in RemoteStore(world).ayield_keys(prefix=None)]
    first, second, third = (row.request for row in recording.interactions)
    assert first["method"] == "mset"
    assert first["arguments"] == {"key_value_pairs": [["a", {"$bytes": "MQ=="}]]}
    assert first["settings"] == {"namespace": "cats"}
    assert second == third == {"method": "yield_keys", "arguments": {}, "settings": {"namespace": "cats"}}


async def test_keys_are_generated(world: World, twice: Twice) -> None:
    """`yield_keys` stays a generator: left early it's recorded as that, it fails where it failed, and serves async."""

    class Failing(RemoteStore):
        def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
            yield "a"
            raise ConnectionError("down")

    async def run() -> list[Any]:
        keys, broken = RemoteStore(world).yield_keys(prefix="a"), Failing(world).yield_keys()
        assert inspect.isgenerator(keys)
        seen = [next(keys), next(broken)]
        keys.close()
        with pytest.raises(ConnectionError, match="down"):
            next(broken)
        return seen

    with twice.records():
        recorded, whole = await run(), list(RemoteStore(world).yield_keys())
    with twice.replays():
        assert await run() == recorded
        assert [key async for key in RemoteStore(world).ayield_keys()] == whole
    assert inspect.isgenerator(tape(RemoteStore(world)).yield_keys())


@pytest.mark.parametrize("cls", [InMemoryStore, InMemoryByteStore])
@pytest.mark.parametrize("taped", [False, True])
async def test_a_store_in_memory_runs(cls: Any, tmp_path: Path, *, taped: bool) -> None:
    """It holds on replay what the program put there, and nothing of it is recorded."""
    for mode in ("all", "none"):
        with use_cassette(tmp_path / "store.yaml", mode=mode) as session:
            store = tape(cls()) if taped else cls()
            store.mset([("a", b"1"), ("b", b"2")])
            await store.amdelete(["b"])
            assert await store.amget(["a", "b"]) == [b"1", None]
            assert [key async for key in store.ayield_keys()] == list(store.yield_keys()) == ["a"]
            assert store.store == {"a": b"1"}
        assert session.interactions == []


@pytest.mark.parametrize("write", ["mset", "mdelete", "amset", "amdelete"])
async def test_nothing_is_executed_after_a_replayed_write(write: str, world: World, tmp_path: Path) -> None:
    """A store to which a write was replayed does not hold it; one that was only read is as it was."""
    path, store = tmp_path / "store.yaml", RemoteStore(world)

    async def change() -> None:
        done = getattr(store, write)([("a", b"1")] if "mset" in write else ["a"])
        if write.startswith("a"):
            await done

    with use_cassette(path, mode="all"):
        store.mget(["a"])
        await change()
    with (
        pytest.raises(IncompleteObjectError, match="this RemoteStore"),
        use_cassette(path, mode="new_episodes") as session,
    ):
        store.mget(["a"])
        store.mget(["b"])
        assert (len(session.report.replayed), len(session.report.recorded)) == (1, 1)
        await change()
        store.mget(["c"])


# -- histories -------------------------------------------------------------------------------------------------------


def test_request_names_method_messages_and_conversation(world: World, tmp_path: Path) -> None:
    """The request says what is added to which conversation; one message is a list of one."""
    with use_cassette(tmp_path / "history.yaml", mode="all") as recording:
        RemoteHistory(world).add_message(HumanMessage("a"))
        RemoteHistory(world).add_messages([HumanMessage("a")])
        assert RemoteHistory(world).messages == []
    first, second, third = (row.request for row in recording.interactions)
    assert first == second
    assert first == {
        "method": "add_messages",
        "arguments": {"messages": [{"role": "user", "content": "a"}]},
        "settings": {"session_id": "1"},
    }
    assert third == {"method": "messages", "arguments": {}, "settings": {"session_id": "1"}}


@pytest.mark.filterwarnings("ignore:RunnableWithMessageHistory is deprecated")
def test_conversation_replays(world: World, twice: Twice) -> None:
    """A chain with a history replays turn by turn without it."""

    def run() -> list[Any]:
        kept: dict[str, list[BaseMessage]] = {}
        chain = RunnableWithMessageHistory(
            PlainChat(world=world), lambda session_id: RemoteHistory(world, kept, session_id)
        )
        config: Any = {"configurable": {"session_id": "7"}}
        return [chain.invoke("hello", config), chain.invoke("and now?", config)]

    twice(run)
    assert [row.kind for row in twice.recording.interactions] == ["memory", "chat", "memory", "memory"] * 2
    assert len(twice.recording.interactions[5].request["messages"]) == 3


def test_history_in_the_process_is_no_boundary(tmp_path: Path) -> None:
    """A history that keeps its messages in a list is the user's code: nothing of it is recorded, and `tape` says so."""

    class InProcess(BaseChatMessageHistory):
        def __init__(self) -> None:
            self.messages = []

        def add_messages(self, messages: Sequence[BaseMessage]) -> None:
            self.messages = [*self.messages, *messages]

        def clear(self) -> None:
            self.messages = []

    before = dict(vars(InProcess))
    with use_cassette(tmp_path / "history.yaml", mode="all") as recording:
        assert dict(vars(InProcess)) == before
        history = InProcess()
        history.add_user_message("a")
        assert len(asyncio.run(history.aget_messages())) == 1
    assert recording.interactions == []
    with pytest.raises(ConfigurationError, match="keeps its messages in the process"):
        tape(InProcess())


def test_messages_of_a_taped_history_can_be_set(world: World) -> None:
    """The messages of a taped history can be read and set outside sessions."""
    taped = tape(RemoteHistory(world))
    taped.messages = [HumanMessage("a")]
    taped.add_user_message("b")
    assert [message.content for message in taped.messages] == ["a", "b"]


# -- compressors ---------------------------------------------------------------------------------------------------


def test_request_is_documents_query_and_settings(world: World, tmp_path: Path) -> None:
    """The request has the documents with metadata that no JSON has, the query, and settings without keys."""
    with use_cassette(tmp_path / "kept.yaml", mode="all") as recording:
        Reranker(world=world).compress_documents(DOCUMENTS[:1], "a")
    assert recording.interactions[0].request == {
        "method": "compress_documents",
        "arguments": {
            "documents": [{"content": "text 0", "metadata": {"n": 0, "at": {"name": "object"}}, "id": "0"}],
            "query": "a",
        },
        "settings": {"model": "rerank-1", "top_n": 2},
    }


def test_parts_of_a_pipeline_are_its_children(world: World, twice: Twice) -> None:
    """Calls that a compressor makes are recorded below it, and not made on replay."""

    class Pipeline(BaseDocumentCompressor):
        parts: list[Any]

        def compress_documents(
            self, documents: Sequence[Document], query: str, callbacks: Any = None
        ) -> Sequence[Document]:
            for part in self.parts:
                documents = part.compress_documents(documents, query, callbacks)
            return documents

    pipeline = Pipeline(parts=[Reranker(world=world, top_n=3)])
    twice(lambda: pipeline.compress_documents(DOCUMENTS, "a"))
    assert [(row.name, row.parent) for row in twice.recording.interactions] == [("Pipeline", None), ("Reranker", 1)]
    assert len(twice.replay.report.replayed) == 1


# -- document indexes ----------------------------------------------------------------------------------------------


async def use_index(index: Any) -> list[Any]:
    """Take two documents in, and find, get and delete some, in both ways."""
    one, two = Document("cats", id="1"), Document("dogs", id="2")
    made = [index.upsert([one, two]), index.get(["1"]), index.invoke("dogs"), index.delete(["1"]), index.get(["1"])]
    made += [await index.aupsert([one]), await index.aget(["1"]), await index.ainvoke("cats")]
    return [*made, await index.adelete(["1"]), await index.aget(["1"])]


BETA = pytest.mark.filterwarnings("ignore::langchain_core._api.beta_decorator.LangChainBetaWarning")


@BETA
async def test_remote_index_is_replayed(world: World, twice: Twice) -> None:
    """A replay takes no documents in, and finds, gets and deletes none: what the index answered is replayed."""

    class Remote(DocumentIndex):
        world: Any
        held: Any

        def upsert(self, items: Sequence[Document], /, **kwargs: Any) -> UpsertResponse:
            self.world.reach("upsert")
            self.held.update({str(item.id): item for item in items})
            return UpsertResponse(succeeded=[str(item.id) for item in items], failed=[])

        def delete(self, ids: list[str] | None = None, **kwargs: Any) -> DeleteResponse:
            self.world.reach("delete")
            return DeleteResponse(num_deleted=len([self.held.pop(each) for each in ids or ()]))

        def get(self, ids: Sequence[str], /, **kwargs: Any) -> list[Document]:
            self.world.reach("get")
            return [self.held[each] for each in ids if each in self.held]

        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            self.world.reach("search")
            return [each for each in self.held.values() if query in each.page_content]

    await twice.awaited(lambda: use_index(Remote(world=world, held={})))
    assert len(world.reached) == 10


@BETA
async def test_index_in_memory_runs(twice: Twice) -> None:
    """An index in memory is part of the program: nothing of it is recorded."""
    await twice.awaited(lambda: use_index(InMemoryDocumentIndex()))
    assert not twice.recording.report.recorded


# -- indexing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cleanup", ["full", "incremental"])
def test_what_is_no_longer_there_is_deleted(cleanup: Literal["full", "incremental"], tmp_path: Path) -> None:
    """A second index at the same frozen moment deletes what the first one had and it has not."""

    def indexed() -> Any:
        manager = InMemoryRecordManager("docs")
        manager.create_schema()
        store = InMemoryVectorStore(DeterministicFakeEmbedding(size=4))
        changes = []
        for texts in (["one", "two"], ["one"], ["one", "three"]):
            documents = [Document(text, metadata={"source": "a"}) for text in texts]
            options: Any = {"cleanup": cleanup, "source_id_key": "source", "key_encoder": "sha256"}
            changes.append(index(documents, manager, store, **options))
        return changes, sorted(document["text"] for document in store.store.values())

    plain = indexed()
    assert plain[1] == ["one", "three"]
    for mode in ("all", "none"):
        with use_cassette(tmp_path / "run.yaml", mode=mode):
            assert indexed() == plain

"""Vector stores elsewhere are recorded, reads and writes, and replayed without a store; those in memory run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from copy import copy
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

from agenttape_core import in_memory, use_cassette
from agenttape_core.errors import ConfigurationError, IncompleteObjectError
from agenttape_langchain import tape

from ..kit.replaying import Twice
from .fakes import World
from .parts import PlainEmbeddings, RemoteVectorStore


def test_request_names_method_arguments_and_collection(world: World, tmp_path: Path) -> None:
    """Positional and named arguments are one request; a sync and an async call too."""
    with use_cassette(tmp_path / "store.yaml", mode="all") as recording:
        RemoteVectorStore(world).similarity_search("q", 2, {"year": 1984})
        RemoteVectorStore(world).similarity_search(k=2, query="q", filter={"year": 1984})
        asyncio.run(RemoteVectorStore(world).asimilarity_search("q", k=2, filter={"year": 1984}))
        RemoteVectorStore(world).add_documents([Document("c", metadata={"x": 1}, id="1")])
    requests = [row.request for row in recording.interactions]
    assert requests[0] == {
        "method": "similarity_search",
        "arguments": {"query": "q", "k": 2, "filter": {"year": 1984}},
        "settings": {"collection_name": "cats"},
    }
    assert requests[1] == requests[2] == requests[0]
    assert requests[3]["arguments"] == {"documents": [{"content": "c", "metadata": {"x": 1}, "id": "1"}]}


def test_taped_store_that_cannot_add_says_so(world: World) -> None:
    """An alias decides as the interface does by the methods that a class has."""

    class Nothing(RemoteVectorStore):
        add_texts = VectorStore.add_texts
        add_documents = VectorStore.add_documents

    with pytest.raises(NotImplementedError, match="add_texts"):
        tape(Nothing(world)).add_texts(["a"])


class Counted(InMemoryVectorStore):
    """Does more than the store of the framework, and its work by it."""

    def add_documents(self, documents: list[Document], ids: list[str] | None = None, **kwargs: Any) -> list[str]:
        self.added = getattr(self, "added", 0) + len(documents)
        return super().add_documents(documents, ids, **kwargs)

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        return [document for document, _ in self.similarity_search_with_score(query, k)]


@pytest.mark.parametrize("way", ["automatic", "taped", "both"])
@pytest.mark.parametrize("cls", [InMemoryVectorStore, Counted])
async def test_a_store_in_memory_runs(cls: Any, way: str, world: World, twice: Twice) -> None:
    """In a replay it holds what the program put there; only its embeddings are replayed, and its retriever runs."""

    async def use_in_memory(store: Any) -> list[Any]:
        """Fill a store in memory and search it in every way; all that it answers, and all that it holds."""
        answers = [
            store.add_documents([Document("a", id="1"), Document("bb"), Document("ccc")]),
            store.similarity_search_with_score("q", k=2),
            await store.amax_marginal_relevance_search("q", k=1),
            [(document.id, document.page_content) for document in await store.as_retriever().ainvoke("q")],
            store.delete(["1"]),
        ]
        return [*answers, store.store]

    automatic = way != "taped"

    async def run() -> list[Any]:
        store = cls(PlainEmbeddings(world))
        return await use_in_memory(store if way == "automatic" else tape(store))

    recorded = await twice.awaited(run, auto=automatic)
    assert [row.kind for row in twice.recording.interactions] == ["embeddings"] * 4
    assert [text for _, text in recorded[3]] != []
    assert len(recorded[-1]) == 2
    assert len(twice.replay.report.replayed) == 4


def test_a_taped_retriever_over_a_store_in_memory_runs(world: World, tmp_path: Path) -> None:
    """Its embeddings are replayed, also where nothing else takes part."""
    path = tmp_path / "store.yaml"
    found = []
    for mode in ("all", "none"):
        world.gone = mode == "none"
        with use_cassette(path, mode=mode, auto=False) as session:
            store = tape(InMemoryVectorStore(PlainEmbeddings(world)))
            store.add_texts(["a", "bb"], ids=["1", "2"])
            found.append(tape(store.as_retriever()).invoke("q"))
    assert found[0] == found[1] != []
    assert [replayed.kind for replayed in session.report.replayed] == ["embeddings"] * 2


def test_store_made_of_texts(world: World, twice: Twice) -> None:
    """Texts that a class method adds to the store it makes are in the store, too."""

    def run() -> Any:
        store = InMemoryVectorStore.from_texts(["a", "bb"], PlainEmbeddings(world))
        return store.similarity_search("q"), store.store

    twice(run)


def test_who_derives_from_a_store_in_memory_and_works_elsewhere_is_replayed(world: World, twice: Twice) -> None:
    """A leaf that uses no part of the class in memory belongs to something else."""

    class Client(InMemoryVectorStore):
        """Derives from a store in memory, and does its work elsewhere."""

        def __init__(self, world: World) -> None:
            super().__init__(PlainEmbeddings(world))
            self.world = world

        def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
            return [Document(f"{query} {self.world.reach('search')}")]

    twice(lambda: Client(world).similarity_search("q"))


def test_a_declared_class_runs(world: World, tmp_path: Path) -> None:
    """A class of the user's that keeps all it has in this process is no boundary once it is declared."""

    @in_memory
    class Mine(RemoteVectorStore):
        def __init__(self, texts: list[str]) -> None:
            self.texts = texts

        def add_texts(self, texts: Iterable[str], *args: Any, **kwargs: Any) -> list[str]:
            self.texts += texts
            return []

        def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
            return [Document(text) for text in self.texts if query in text]

    with use_cassette(tmp_path / "store.yaml", mode="all") as session:
        store = tape(Mine([]))
        store.add_texts(["a", "ab"])
        assert [document.page_content for document in store.as_retriever().invoke("b")] == ["ab"]
    assert session.interactions == []
    with pytest.raises(ConfigurationError, match="takes a class"):
        in_memory(Mine([]))  # type: ignore[type-var]


@pytest.mark.parametrize("module", ["langchain_community.vectorstores.faiss", "elsewhere"])
def test_classes_of_others_are_known_by_name(module: str, world: World, tmp_path: Path) -> None:
    """A known class of a package that need not be installed runs; one of the same name elsewhere is replayed."""
    cls = type("FAISS", (RemoteVectorStore,), {"__module__": module})
    with use_cassette(tmp_path / "store.yaml", mode="all") as session:
        cls(world).similarity_search("q")
    assert len(session.interactions) == (module == "elsewhere")


@pytest.mark.parametrize("through", ["store", "retriever", "alias", "copy"])
def test_nothing_is_executed_after_a_replayed_write(through: str, world: World, tmp_path: Path) -> None:
    """A store to which a write was replayed does not hold it: no session executes anything on it, whoever calls."""
    path, store = tmp_path / "store.yaml", RemoteVectorStore(world)
    with use_cassette(path, mode="all"):
        store.add_texts(["a"])
    with use_cassette(path):
        store.add_texts(["a"])
    use: dict[str, Any] = {
        "store": lambda: store.similarity_search("q"),
        "retriever": lambda: store.as_retriever().invoke("q"),
        "alias": lambda: tape(store).similarity_search("q"),
        "copy": lambda: copy(store).similarity_search("q"),
    }
    for mode, name in (("all", "other.yaml"), ("new_episodes", "store.yaml")):
        with (
            pytest.raises(
                IncompleteObjectError, match=r"this RemoteVectorStore is incomplete\n.*store\.yaml"
            ) as refused,
            use_cassette(tmp_path / name, mode=mode),
            pytest.raises(IncompleteObjectError),
        ):  # and the session remembers it
            use[through]()
        assert "in_memory(RemoteVectorStore)" in str(refused.value)
    with pytest.raises(IncompleteObjectError), use_cassette(tmp_path / "bare.yaml", mode="all", auto=False):
        store.similarity_search("q")
    assert RemoteVectorStore(world).similarity_search("q") != []
    with use_cassette(tmp_path / "fresh.yaml", mode="all"):
        assert RemoteVectorStore(world).similarity_search("q") != []  # another object of the class


def test_reads_that_were_replayed_change_nothing(world: World, tmp_path: Path) -> None:
    """An object of which only reads were replayed may be executed."""
    path, store = tmp_path / "store.yaml", RemoteVectorStore(world)
    with use_cassette(path, mode="all"):
        store.similarity_search("q")
    with use_cassette(path, mode="new_episodes") as session:
        store.similarity_search("q")
        store.similarity_search("r")
        store.add_texts(["a"])
        store.similarity_search("s")
    assert (len(session.report.replayed), len(session.report.recorded)) == (1, 3)


@pytest.mark.parametrize("auto", [True, False])
async def test_retriever_of_a_store(auto: bool, world: World, twice: Twice) -> None:
    """The retriever of a store is recorded with the store's call inside, or only that where only it is taped."""

    async def run(*, auto: bool) -> list[Any]:
        store = RemoteVectorStore(world) if auto else tape(RemoteVectorStore(world))
        retriever = store.as_retriever(search_kwargs={"k": 3})
        return [retriever.invoke("q"), await retriever.ainvoke("q")]

    with twice.records(auto=auto) as recording:
        recorded = await run(auto=auto)
    names = ["VectorStoreRetriever", "RemoteVectorStore"] * 2 if auto else ["RemoteVectorStore"] * 2
    assert [row.name for row in recording.interactions] == names
    with twice.replays(auto=auto) as replay:
        assert await run(auto=auto) == recorded
    assert len(replay.report.replayed) == 2
    with twice.replays(auto=False, on_unused="ignore"):
        assert await run(auto=False) == recorded


def test_long_vector_in_a_request_is_one_line(world: World, twice: Twice) -> None:
    """A search by a vector of the usual length does not fill a thousand lines."""

    class ByVector(RemoteVectorStore):
        def similarity_search_by_vector(self, embedding: list[float], k: int = 4, **kwargs: Any) -> list[Document]:
            return [Document(str(self.world.reach("search")))]

    twice(lambda: ByVector(world).similarity_search_by_vector([0.1] * 1536))
    assert len(twice.path.read_text().splitlines()) < 60

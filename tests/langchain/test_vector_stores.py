"""Vector stores elsewhere are recorded, reads and writes, and replayed without a store; those in memory run."""

from __future__ import annotations

import asyncio
from copy import copy
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

from agenttape_core import in_memory, use_cassette
from agenttape_core.errors import CassetteMissError, ConfigurationError, IncompleteObjectError
from agenttape_langchain import tape

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from .fakes import World


class CountingEmbeddings(Embeddings):
    """Gives each text a vector of its own."""

    model = "counting"

    def __init__(self, world: World) -> None:
        self.world = world

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return [float(self.world.reach("embeddings")), float(len(text)), 1.0]


class RemoteStore(VectorStore):
    """A store somewhere else: it has the fewest methods that the interface wants, and keeps nothing in the process."""

    def __init__(self, world: World, collection_name: str = "cats") -> None:
        self.world = world
        self.collection_name = collection_name

    def add_texts(
        self, texts: Iterable[str], metadatas: Any = None, *, ids: list[str] | None = None, **kwargs: Any
    ) -> list[str]:
        return [f"id-{self.world.reach('add')}" for _ in texts]

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool | None:
        return self.world.reach("delete") > 0

    def get_by_ids(self, ids: Any, /) -> list[Document]:
        return [Document(f"got {self.world.reach('get')}", id=each) for each in ids]

    def similarity_search(self, query: str, k: int = 4, filter: Any = None, **kwargs: Any) -> list[Document]:  # noqa: A002
        return [doc for doc, _ in self.similarity_search_with_score(query, k, filter)]

    def similarity_search_with_score(self, *args: Any, **kwargs: Any) -> list[tuple[Document, float]]:
        number = self.world.reach("search")
        return [(Document(f"{args[0]} {number}", metadata={"n": number}), 0.25 * n) for n in range(2)]

    def max_marginal_relevance_search(self, query: str, *args: Any, **kwargs: Any) -> list[Document]:
        return [Document(f"{query} {self.world.reach('mmr')}")]

    def _select_relevance_score_fn(self) -> Any:
        return lambda distance: 1.0 - distance

    @classmethod
    def from_texts(cls, texts: list[str], embedding: Any, metadatas: Any = None, **kwargs: Any) -> RemoteStore:
        store = cls(embedding.world)
        store.add_texts(texts, metadatas)
        return store


class DocumentStore(RemoteStore):
    """Implements the other of the two ways of adding."""

    add_texts = VectorStore.add_texts

    def add_documents(self, documents: list[Document], **kwargs: Any) -> list[str]:
        return [f"id-{self.world.reach('add')}" for _ in documents]


async def every_call(store: Any) -> list[Any]:
    """The results of the methods of the interface."""
    return [
        store.add_texts(iter(["a", "b"])),
        store.add_documents([Document("c", metadata={"x": 1}), Document("d")]),
        store.similarity_search("q"),
        store.similarity_search("q", 2, filter={"year": 1984}),
        store.similarity_search_with_score("q", k=1),
        store.similarity_search_with_relevance_scores("q", k=1),
        store.max_marginal_relevance_search("q", fetch_k=3),
        store.search("q", "similarity"),
        store.get_by_ids(["id-1"]),
        store.delete(["id-1"]),
        await store.aadd_texts(["e"]),
        await store.aadd_documents([Document("f")]),
        await store.asimilarity_search("q", k=5),
        await store.asimilarity_search_with_score("r"),
        await store.asimilarity_search_with_relevance_scores("r"),
        await store.asearch("r", "mmr"),
        await store.aget_by_ids(["id-2"]),
        await store.adelete(["id-2"]),
    ]


@pytest.mark.parametrize("way", ["automatic", "taped", "both"])
@pytest.mark.parametrize("cls", [RemoteStore, DocumentStore])
async def test_store_replays(cls: Any, way: str, world: World, tmp_path: Path) -> None:
    """Each call is one recording, whatever the interface makes of it, and a replay reaches no store."""
    real = cls(world)
    store, automatic = (real if way == "automatic" else tape(real)), way != "taped"
    path = tmp_path / "store.yaml"
    with use_cassette(path, mode="all", auto=automatic) as recording:
        recorded = await every_call(store)
    kinds = ["memory"] * 2 + ["retrieval"] * 7 + ["memory"] * 3 + ["retrieval"] * 5 + ["memory"]
    assert [row.kind for row in recording.interactions] == kinds
    world.gone = True
    for _ in range(2):
        with use_cassette(path, auto=automatic) as replay:
            assert await every_call(store) == recorded
        assert {replayed.match_rule for replayed in replay.report.replayed} == {"exact"}


async def test_taped_store_works_outside_sessions(world: World) -> None:
    """An alias does what the original does, also what the interface decides by which methods a class has."""

    class Nothing(RemoteStore):
        add_texts = VectorStore.add_texts
        add_documents = VectorStore.add_documents

    for cls in (RemoteStore, DocumentStore):
        results = await every_call(tape(cls(world)))
        assert len(results) == 18
    with pytest.raises(NotImplementedError, match="add_texts"):
        tape(Nothing(world)).add_texts(["a"])


def test_request_names_method_arguments_and_collection(world: World, tmp_path: Path) -> None:
    """Positional and named arguments are one request; a sync and an async call too."""
    with use_cassette(tmp_path / "store.yaml", mode="all") as recording:
        RemoteStore(world).similarity_search("q", 2, {"year": 1984})
        RemoteStore(world).similarity_search(k=2, query="q", filter={"year": 1984})
        asyncio.run(RemoteStore(world).asimilarity_search("q", k=2, filter={"year": 1984}))
        RemoteStore(world).add_documents([Document("c", metadata={"x": 1}, id="1")])
    requests = [row.request for row in recording.interactions]
    assert requests[0] == {
        "method": "similarity_search",
        "arguments": {"query": "q", "k": 2, "filter": {"year": 1984}},
        "settings": {"collection_name": "cats"},
    }
    assert requests[1] == requests[2] == requests[0]
    assert requests[3]["arguments"] == {"documents": [{"content": "c", "metadata": {"x": 1}, "id": "1"}]}


def test_other_collection_or_document_misses(world: World, tmp_path: Path) -> None:
    """Recordings of one collection are not replayed for another."""
    path = tmp_path / "store.yaml"
    with use_cassette(path, mode="all"):
        RemoteStore(world).similarity_search("q")
        RemoteStore(world).add_documents([Document("c", metadata={"x": 1})])
    world.gone = True
    for store, document in ((RemoteStore(world, "dogs"), None), (RemoteStore(world), Document("c"))):
        with pytest.raises(CassetteMissError), use_cassette(path, on_unused="ignore"):
            store.similarity_search("q") if document is None else store.add_documents([document])


class Counted(InMemoryVectorStore):
    """Does more than the store of the framework, and its work by it."""

    def add_documents(self, documents: list[Document], ids: list[str] | None = None, **kwargs: Any) -> list[str]:
        self.added = getattr(self, "added", 0) + len(documents)
        return super().add_documents(documents, ids, **kwargs)

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        return [document for document, _ in self.similarity_search_with_score(query, k)]


@pytest.mark.parametrize("way", ["automatic", "taped", "both"])
@pytest.mark.parametrize("cls", [InMemoryVectorStore, Counted])
async def test_a_store_in_memory_runs(cls: Any, way: str, world: World, tmp_path: Path) -> None:
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

    path, automatic = tmp_path / "store.yaml", way != "taped"

    async def run() -> list[Any]:
        store = cls(CountingEmbeddings(world))
        return await use_in_memory(store if way == "automatic" else tape(store))

    with use_cassette(path, mode="all", auto=automatic) as recording:
        recorded = await run()
    assert [row.kind for row in recording.interactions] == ["embeddings"] * 4
    assert [text for _, text in recorded[3]] != []
    assert len(recorded[-1]) == 2
    world.gone = True
    with use_cassette(path, auto=automatic) as replay:
        assert await run() == recorded
    assert len(replay.report.replayed) == 4


def test_a_taped_retriever_over_a_store_in_memory_runs(world: World, tmp_path: Path) -> None:
    """Its embeddings are replayed, also where nothing else takes part."""
    path = tmp_path / "store.yaml"
    found = []
    for mode in ("all", "none"):
        world.gone = mode == "none"
        with use_cassette(path, mode=mode, auto=False) as session:
            store = tape(InMemoryVectorStore(CountingEmbeddings(world)))
            store.add_texts(["a", "bb"], ids=["1", "2"])
            found.append(tape(store.as_retriever()).invoke("q"))
    assert found[0] == found[1] != []
    assert [replayed.kind for replayed in session.report.replayed] == ["embeddings"] * 2


def test_store_made_of_texts(world: World, tmp_path: Path) -> None:
    """Texts that a class method adds to the store it makes are in the store, too."""
    path = tmp_path / "store.yaml"

    def run() -> Any:
        store = InMemoryVectorStore.from_texts(["a", "bb"], CountingEmbeddings(world))
        return store.similarity_search("q"), store.store

    with use_cassette(path, mode="all"):
        recorded = run()
    world.gone = True
    with use_cassette(path):
        assert run() == recorded


def test_who_derives_from_a_store_in_memory_and_works_elsewhere_is_replayed(world: World, tmp_path: Path) -> None:
    """A leaf that uses no part of the class in memory belongs to something else."""

    class Client(InMemoryVectorStore):
        """Derives from a store in memory, and does its work elsewhere."""

        def __init__(self, world: World) -> None:
            super().__init__(CountingEmbeddings(world))
            self.world = world

        def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
            return [Document(f"{query} {self.world.reach('search')}")]

    path = tmp_path / "store.yaml"
    with use_cassette(path, mode="all"):
        recorded = Client(world).similarity_search("q")
    world.gone = True
    with use_cassette(path):
        assert Client(world).similarity_search("q") == recorded


def test_a_declared_class_runs(world: World, tmp_path: Path) -> None:
    """A class of the user's that keeps all it has in this process is no boundary once it is declared."""

    @in_memory
    class Mine(RemoteStore):
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
    cls = type("FAISS", (RemoteStore,), {"__module__": module})
    with use_cassette(tmp_path / "store.yaml", mode="all") as session:
        cls(world).similarity_search("q")
    assert len(session.interactions) == (module == "elsewhere")


@pytest.mark.parametrize("through", ["store", "retriever", "alias", "copy"])
def test_nothing_is_executed_after_a_replayed_write(through: str, world: World, tmp_path: Path) -> None:
    """A store to which a write was replayed does not hold it: no session executes anything on it, whoever calls."""
    path, store = tmp_path / "store.yaml", RemoteStore(world)
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
            pytest.raises(IncompleteObjectError, match=r"this RemoteStore is incomplete\n.*store\.yaml") as refused,
            use_cassette(tmp_path / name, mode=mode),
            pytest.raises(IncompleteObjectError),
        ):  # and the session remembers it
            use[through]()
        assert "in_memory(RemoteStore)" in str(refused.value)
    with pytest.raises(IncompleteObjectError), use_cassette(tmp_path / "bare.yaml", mode="all", auto=False):
        store.similarity_search("q")
    assert RemoteStore(world).similarity_search("q") != []
    with use_cassette(tmp_path / "fresh.yaml", mode="all"):
        assert RemoteStore(world).similarity_search("q") != []  # another object of the class


def test_reads_that_were_replayed_change_nothing(world: World, tmp_path: Path) -> None:
    """An object of which only reads were replayed may be executed."""
    path, store = tmp_path / "store.yaml", RemoteStore(world)
    with use_cassette(path, mode="all"):
        store.similarity_search("q")
    with use_cassette(path, mode="new_episodes") as session:
        store.similarity_search("q")
        store.similarity_search("r")
        store.add_texts(["a"])
        store.similarity_search("s")
    assert (len(session.report.replayed), len(session.report.recorded)) == (1, 3)


@pytest.mark.parametrize("auto", [True, False])
async def test_retriever_of_a_store(auto: bool, world: World, tmp_path: Path) -> None:
    """The retriever of a store is recorded with the store's call inside, or only that where only it is taped."""
    path = tmp_path / "store.yaml"

    async def run(*, auto: bool) -> list[Any]:
        store = RemoteStore(world) if auto else tape(RemoteStore(world))
        retriever = store.as_retriever(search_kwargs={"k": 3})
        return [retriever.invoke("q"), await retriever.ainvoke("q")]

    with use_cassette(path, mode="all", auto=auto) as recording:
        recorded = await run(auto=auto)
    names = ["VectorStoreRetriever", "RemoteStore"] * 2 if auto else ["RemoteStore"] * 2
    assert [row.name for row in recording.interactions] == names
    world.gone = True
    with use_cassette(path, auto=auto) as replay:
        assert await run(auto=auto) == recorded
    assert len(replay.report.replayed) == 2
    with use_cassette(path, auto=False, on_unused="ignore"):
        assert await run(auto=False) == recorded


async def test_parallel_equal_searches_find_their_own(world: World, tmp_path: Path) -> None:
    """Equal searches at once get each its own documents."""
    store, path = RemoteStore(world), tmp_path / "store.yaml"
    with use_cassette(path, mode="all"):
        recorded = await asyncio.gather(*(store.asimilarity_search("q") for _ in range(6)))
    world.gone = True
    with use_cassette(path) as replay:
        assert await asyncio.gather(*(store.asimilarity_search("q") for _ in range(6))) == recorded
    assert {replayed.match_rule for replayed in replay.report.replayed} == {"exact"}


def test_errors_are_recorded(world: World, tmp_path: Path) -> None:
    """A store that cannot do something cannot do it on replay either."""
    for mode in ("all", "none"):
        with use_cassette(tmp_path / "store.yaml", mode=mode), pytest.raises(NotImplementedError):
            RemoteStore(world).similarity_search_by_vector([1.0])


def test_long_vector_in_a_request_is_one_line(world: World, tmp_path: Path) -> None:
    """A search by a vector of the usual length does not fill a thousand lines."""

    class ByVector(RemoteStore):
        def similarity_search_by_vector(self, embedding: list[float], k: int = 4, **kwargs: Any) -> list[Document]:
            return [Document(str(self.world.reach("search")))]

    path = tmp_path / "store.yaml"
    with use_cassette(path, mode="all"):
        recorded = ByVector(world).similarity_search_by_vector([0.1] * 1536)
    assert len(path.read_text().splitlines()) < 60
    world.gone = True
    with use_cassette(path):
        assert ByVector(world).similarity_search_by_vector([0.1] * 1536) == recorded


def test_classes_are_left_as_they_were(tmp_path: Path) -> None:
    """After the last session no class of the framework or of a provider has changed."""
    classes: list[Any] = [VectorStore, InMemoryVectorStore, RemoteStore, DocumentStore]
    before = [dict(vars(cls)) for cls in classes]
    with use_cassette(tmp_path / "store.yaml", mode="all"):
        assert dict(vars(VectorStore)) != before[0]
    assert [dict(vars(cls)) for cls in classes] == before

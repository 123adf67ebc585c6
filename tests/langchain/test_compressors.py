"""Document compressors are recorded, and replayed without being reached."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.documents import BaseDocumentCompressor, Document

from agenttape_core import use_cassette
from agenttape_core.errors import CassetteMissError
from agenttape_langchain import tape

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .fakes import World

DOCUMENTS = [Document(f"text {n}", metadata={"n": n, "at": object}, id=str(n)) for n in range(4)]


class Reranker(BaseDocumentCompressor):
    """Keeps the last documents, and notes the order of its calls."""

    world: Any
    top_n: int = 2
    model: str = "rerank-1"
    cohere_api_key: str = "never-recorded"

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> Sequence[Document]:
        number = self.world.reach("reranker")
        kept = [doc for doc in documents if doc.metadata["n"] >= len(documents) - self.top_n]
        return [Document(doc.page_content, metadata={"score": number, "query": query}, id=doc.id) for doc in kept]


class Native(Reranker):
    """Has an asynchronous method of its own."""

    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> Sequence[Document]:
        await asyncio.sleep(0)
        return self.compress_documents(documents, query, callbacks)


class Pipeline(BaseDocumentCompressor):
    """Compresses by several others, one after the other."""

    parts: list[Any]

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> Sequence[Document]:
        for part in self.parts:
            documents = part.compress_documents(documents, query, callbacks)
        return documents


@pytest.mark.parametrize("way", ["automatic", "taped", "both"])
@pytest.mark.parametrize("cls", [Reranker, Native])
async def test_compressor_replays(cls: Any, way: str, world: World, tmp_path: Path) -> None:
    """Sync and async, the kept documents come back with their metadata and ids, and nothing is reached."""
    real = cls(world=world)
    reranker, automatic = (real if way == "automatic" else tape(real)), way != "taped"
    path = tmp_path / "kept.yaml"

    async def run() -> list[Any]:
        kept = [reranker.compress_documents(DOCUMENTS, "a"), await reranker.acompress_documents(DOCUMENTS, "b")]
        return [*kept, reranker.compress_documents(query="c", documents=DOCUMENTS, callbacks=[])]

    with use_cassette(path, mode="all", auto=automatic) as recording:
        recorded = await run()
    assert [(row.kind, row.name) for row in recording.interactions] == [("retrieval", cls.__name__)] * 3
    assert recording.interactions[0].request == {
        "method": "compress_documents",
        "arguments": {
            "documents": [
                {"content": f"text {n}", "metadata": {"n": n, "at": {"name": "object"}}, "id": str(n)} for n in range(4)
            ],
            "query": "a",
        },
        "settings": {"model": "rerank-1", "top_n": 2},
    }
    assert "never-recorded" not in path.read_text()
    world.gone = True
    with use_cassette(path, auto=automatic) as replay:
        assert await run() == recorded
    assert {replayed.match_rule for replayed in replay.report.replayed} == {"exact"}


async def test_sync_serves_async_and_back(world: World, tmp_path: Path) -> None:
    """A recording of one serves the other."""
    path, reranker = tmp_path / "kept.yaml", Native(world=world)
    with use_cassette(path, mode="all"):
        recorded = [reranker.compress_documents(DOCUMENTS, "a"), await reranker.acompress_documents(DOCUMENTS, "b")]
    world.gone = True
    with use_cassette(path):
        replayed = [await reranker.acompress_documents(DOCUMENTS, "a"), reranker.compress_documents(DOCUMENTS, "b")]
    assert replayed == recorded


@pytest.mark.parametrize("cls", [Reranker, Native])
async def test_parallel_equal_calls_find_their_own(cls: Any, world: World, tmp_path: Path) -> None:
    """Equal calls at once get each its own documents."""
    path, reranker = tmp_path / "kept.yaml", cls(world=world)
    with use_cassette(path, mode="all"):
        recorded = await asyncio.gather(*(reranker.acompress_documents(DOCUMENTS, "a") for _ in range(6)))
    world.gone = True
    with use_cassette(path) as replay:
        assert await asyncio.gather(*(reranker.acompress_documents(DOCUMENTS, "a") for _ in range(6))) == recorded
    assert {replayed.match_rule for replayed in replay.report.replayed} == {"exact"}


def test_parts_of_a_pipeline_are_its_children(world: World, tmp_path: Path) -> None:
    """Calls that a compressor makes are recorded below it, and not made on replay."""
    path, pipeline = tmp_path / "kept.yaml", Pipeline(parts=[Reranker(world=world, top_n=3)])
    with use_cassette(path, mode="all") as recording:
        recorded = pipeline.compress_documents(DOCUMENTS, "a")
    assert [(row.name, row.parent) for row in recording.interactions] == [("Pipeline", None), ("Reranker", 1)]
    world.gone = True
    with use_cassette(path) as replay:
        assert pipeline.compress_documents(DOCUMENTS, "a") == recorded
    assert len(replay.report.replayed) == 1


@pytest.mark.parametrize("changed", [{"top_n": 1}, {"model": "rerank-2"}])
def test_changed_compressor_or_document_misses(changed: dict[str, Any], world: World, tmp_path: Path) -> None:
    """Other settings, and other documents, are another request."""
    path = tmp_path / "kept.yaml"
    with use_cassette(path, mode="all"):
        Reranker(world=world).compress_documents(DOCUMENTS, "a")
    world.gone = True
    with pytest.raises(CassetteMissError), use_cassette(path):
        Reranker(world=world, **changed).compress_documents(DOCUMENTS, "a")
    with pytest.raises(CassetteMissError), use_cassette(path):
        Reranker(world=world).compress_documents(DOCUMENTS[1:], "a")


def test_errors_are_recorded(tmp_path: Path) -> None:
    """A compressor that fails fails again."""

    class Failing(Reranker):
        def compress_documents(self, documents: Any, query: str, callbacks: Any = None) -> Any:
            raise PermissionError("no credit left")

    for mode in ("all", "none"):
        with use_cassette(tmp_path / "kept.yaml", mode=mode), pytest.raises(PermissionError, match="no credit"):
            Failing(world=None).compress_documents(DOCUMENTS, "a")


def test_taped_compressor_is_what_it_was(world: World) -> None:
    """A taped compressor is of its class and shares the state of the original."""
    real = Reranker(world=world)
    taped = tape(real)
    assert isinstance(taped, Reranker)
    assert tape(taped) is taped
    real.top_n = 3
    assert len(taped.compress_documents(DOCUMENTS, "a")) == 3

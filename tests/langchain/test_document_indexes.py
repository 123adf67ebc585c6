"""Document indexes: retrievers that take documents in."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.indexing.base import DeleteResponse, DocumentIndex, UpsertResponse
from langchain_core.indexing.in_memory import InMemoryDocumentIndex

from agenttape_core import use_cassette

pytestmark = pytest.mark.filterwarnings("ignore::langchain_core._api.beta_decorator.LangChainBetaWarning")


def use(index: Any, how: str) -> list[Any]:
    """Take two documents in, and find, get and delete some."""
    documents = [Document("cats", id="1"), Document("dogs", id="2")]
    if how == "sync":
        made = [index.upsert(documents), index.get(["1"]), index.invoke("dogs"), index.delete(["1"]), index.get(["1"])]
    else:

        async def go() -> list[Any]:
            taken, got = await index.aupsert(documents), await index.aget(["1"])
            return [taken, got, await index.ainvoke("dogs"), await index.adelete(["1"]), await index.aget(["1"])]

        made = asyncio.run(go())
    return made


@pytest.mark.parametrize("how", ["sync", "async"])
def test_remote_index_is_replayed(tmp_path: Path, how: str) -> None:
    """A replay takes no documents in, and finds, gets and deletes none: what the index answered is replayed."""

    class Remote(DocumentIndex):
        """An index on a server: it counts the calls that reach it."""

        calls: Any
        held: Any

        def upsert(self, items: Sequence[Document], /, **kwargs: Any) -> UpsertResponse:
            self.calls.append("upsert")
            self.held.update({str(item.id): item for item in items})
            return UpsertResponse(succeeded=[str(item.id) for item in items], failed=[])

        def delete(self, ids: list[str] | None = None, **kwargs: Any) -> DeleteResponse:
            self.calls.append("delete")
            return DeleteResponse(num_deleted=len([self.held.pop(each) for each in ids or ()]))

        def get(self, ids: Sequence[str], /, **kwargs: Any) -> list[Document]:
            self.calls.append("get")
            return [self.held[each] for each in ids if each in self.held]

        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            self.calls.append("search")
            return [each for each in self.held.values() if query in each.page_content]

    calls: list[str] = []
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        recorded = use(Remote(calls=calls, held={}), how)
    assert len(calls) == 5
    with use_cassette(tmp_path / "c.yaml"):
        assert use(Remote(calls=calls, held={}), how) == recorded
    assert len(calls) == 5


@pytest.mark.parametrize("how", ["sync", "async"])
def test_index_in_memory_runs(tmp_path: Path, how: str) -> None:
    """An index in memory is part of the program: nothing of it is recorded."""
    with use_cassette(tmp_path / "c.yaml", mode="all") as recording:
        recorded = use(InMemoryDocumentIndex(), how)
    assert not recording.report.recorded
    with use_cassette(tmp_path / "c.yaml"):
        assert use(InMemoryDocumentIndex(), how) == recorded

"""Indexing in a session adds, skips and deletes what it does without one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.indexing import InMemoryRecordManager, index
from langchain_core.vectorstores import InMemoryVectorStore

from agenttape_core import use_cassette

if TYPE_CHECKING:
    from pathlib import Path


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

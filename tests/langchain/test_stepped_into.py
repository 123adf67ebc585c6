"""Retrievers and compressors that only ask other boundaries: a replay steps into them, as into tools."""

from __future__ import annotations

import asyncio
import datetime as dt
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.language_models import FakeListChatModel
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import InMemoryVectorStore

from agenttape_core import use_cassette
from agenttape_core.errors import CassetteMissError
from agenttape_langchain import tape

from ..kit.replaying import Twice


def animals() -> InMemoryVectorStore:
    """Return a store in memory of three animals."""
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    store.add_texts(["cats", "dogs", "birds"])
    return store


class Rewriting(BaseRetriever):
    """Lets a model rewrite the question, as retrievers of LangChain do that ask several questions for one."""

    llm: Any
    prompt: str
    inner: Any
    log: str = ""

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        if self.log:
            Path(self.log).write_text(query)
        config: Any = {"callbacks": run_manager.get_child()}
        asked = f"{self.prompt}{query} ({dt.datetime.now(dt.UTC).isoformat()})"
        return self.inner.invoke(self.llm.invoke(asked, config).text, config)


class Choosing(BaseDocumentCompressor):
    """Keeps the documents that a model names."""

    llm: Any
    prompt: str

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> Sequence[Document]:
        said = self.llm.invoke(self.prompt + query, {"callbacks": callbacks}).text
        return [document for document in documents if document.page_content in said]


class Heard(BaseCallbackHandler):
    """Hears which runs start, with their ids."""

    def __init__(self) -> None:
        self.runs: list[tuple[str, str]] = []

    def on_chat_model_start(self, serialized: Any, messages: Any, **facts: Any) -> None:
        self.runs.append(("model", str(facts["run_id"])))

    def on_retriever_start(self, serialized: Any, query: str, **facts: Any) -> None:
        self.runs.append((query, str(facts["run_id"])))


def search(prompt: str = "Rewrite: ", *, k: int = 2, log: str = "", how: str = "sync") -> tuple[list[str], Any]:
    """Search for animals, and return them with the runs that a handler has heard of."""
    inner = animals().as_retriever(search_kwargs={"k": k})
    retriever = Rewriting(llm=FakeListChatModel(responses=["cats"]), prompt=prompt, inner=inner, log=log)
    heard = Heard()
    config: Any = {"callbacks": [heard]}
    if how == "sync":
        found = retriever.invoke("which animals?", config)
    else:
        found = asyncio.run(retriever.ainvoke("which animals?", config))
    return [document.page_content for document in found], heard.runs


@pytest.mark.parametrize("how", ["sync", "async"])
def test_replay_steps_into_a_retriever(how: str, twice: Twice) -> None:
    """A replay runs the code of a retriever that only asked boundaries: handlers hear its runs, with the same ids."""
    recorded = twice(lambda: search(how=how))
    assert len(recorded[1]) == 3
    assert [call.name for call in twice.replay.report.stepped_into] == ["Rewriting"]
    assert not twice.replay.report.recorded


def test_changed_prompt_inside_a_retriever_is_a_miss(twice: Twice) -> None:
    """A retriever whose prompt you edit misses its model, instead of returning what the old prompt found."""
    twice.record(search)
    with pytest.raises(CassetteMissError, match="FakeListChatModel"), twice.replays():
        search("IGNORE the question, be rude: ")


def test_changed_code_inside_a_retriever_counts(tmp_path: Path) -> None:
    """A retriever that now asks its store in memory for more returns more."""
    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="all"):
        assert len(search()[0]) == 2
    with use_cassette(path):
        assert len(search(k=3)[0]) == 3


def test_retriever_with_a_side_effect_is_replayed_whole(tmp_path: Path, twice: Twice) -> None:
    """A retriever that wrote a file doesn't write it again: it's replayed whole, and the report says why."""
    log = tmp_path / "log.txt"
    recorded = twice.record(lambda: search(log=str(log))[0])
    log.unlink()
    with twice.replays() as replay:
        assert search(log=str(log))[0] == recorded
    assert not log.exists()
    assert [str(one) for one in replay.report.not_run] == ["Rewriting (wrote log.txt)"]


def test_recording_without_side_effects_noted_is_replayed_whole(twice: Twice) -> None:
    """A cassette that an older version made, which didn't watch retrievers, replays as it did then."""
    recorded = twice.record(lambda: search()[0])
    older, count = re.subn(r"^acts: \[\]\n", "", twice.path.read_text(), flags=re.MULTILINE)
    assert count == 1
    twice.path.write_text(older)
    with twice.replays() as replay:
        assert search("ANOTHER: ")[0] == recorded
    assert not replay.report.stepped_into


def test_taped_retriever_of_parts_that_are_not_is_replayed_whole(twice: Twice) -> None:
    """Where only the retriever takes part, nothing inside it is recorded, so a replay doesn't step into it."""

    def run(prompt: str) -> list[Document]:
        llm = FakeListChatModel(responses=["cats"])
        return tape(Rewriting(llm=llm, prompt=prompt, inner=animals().as_retriever())).invoke("which?")

    recorded = twice.record(lambda: run("Rewrite: "), auto=False)
    with twice.replays(auto=False) as replay:
        assert run("ANOTHER: ") == recorded
    assert len(replay.report.replayed) == 1


def test_replay_steps_into_a_compressor(tmp_path: Path) -> None:
    """A compressor that asks a model runs in a replay, and a changed prompt of it is a miss."""
    path = tmp_path / "c.yaml"

    def run(prompt: str) -> list[str]:
        documents = [Document(text) for text in ("cats", "dogs", "birds")]
        kept = Choosing(llm=FakeListChatModel(responses=["cats and dogs"]), prompt=prompt)
        return [document.page_content for document in kept.compress_documents(documents, "pets?")]

    with use_cassette(path, mode="all"):
        assert run("Which of them? ") == ["cats", "dogs"]
    with use_cassette(path) as replay:
        assert run("Which of them? ") == ["cats", "dogs"]
    assert [call.name for call in replay.report.stepped_into] == ["Choosing"]
    with pytest.raises(CassetteMissError), use_cassette(path):
        run("Which of them, in a rude voice? ")


class Scoring(BaseCrossEncoder):
    """A remote cross encoder: it counts how often it's called."""

    def __init__(self) -> None:
        self.calls = 0

    def score(self, text_pairs: list[tuple[str, str]]) -> list[float]:
        self.calls += 1
        return [float(len(text)) for _, text in text_pairs]


def test_cross_encoders_are_replayed_and_rerankers_run(tmp_path: Path) -> None:
    """A cross encoder isn't called in a replay, while the reranker around it runs with today's limit."""

    class Reranking(BaseDocumentCompressor):
        """Keeps the documents that a cross encoder scores above a limit."""

        model: Any
        limit: float

        def compress_documents(
            self, documents: Sequence[Document], query: str, callbacks: Any = None
        ) -> Sequence[Document]:
            scores = self.model.score([(query, document.page_content) for document in documents])
            return [document for document, score in zip(documents, scores, strict=True) if score > self.limit]

    path, model = tmp_path / "c.yaml", Scoring()

    def run(limit: float) -> list[str]:
        documents = [Document(text) for text in ("cats", "tigers", "ants")]
        kept = Reranking(model=model, limit=limit).compress_documents(documents, "big?")
        return [document.page_content for document in kept]

    with use_cassette(path, mode="all"):
        assert run(4.5) == ["tigers"]
    with use_cassette(path) as replay:
        assert run(3.5) == ["cats", "tigers", "ants"]
    assert model.calls == 1
    assert [call.name for call in replay.report.replayed] == ["Scoring"]


class Imagining(Embeddings):
    """Embeds what a model imagines of a question: hypothetical documents (HyDE)."""

    def __init__(self, prompt: str) -> None:
        self.llm = FakeListChatModel(responses=["an animal that purrs"])
        self.inner = DeterministicFakeEmbedding(size=8)
        self.prompt = prompt

    def embed_query(self, text: str) -> list[float]:
        return self.inner.embed_query(self.llm.invoke(f"{self.prompt} {text}").text)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self.inner.embed_documents(texts)


def test_a_replay_steps_into_an_embedding_model_that_asks_a_model(twice: Twice) -> None:
    """Its code runs, with the recorded answers of what it asks, and an edited prompt in it is a miss."""

    def embed(prompt: str = "Imagine:") -> Any:
        model = Imagining(prompt)
        return model.embed_query("Cats?"), model.embed_documents(["dogs"])

    twice(embed)
    assert len(twice.recording.report.recorded) == 4, "one that only embeds by another model is one call"
    assert [call.name for call in twice.replay.report.stepped_into] == ["Imagining"]
    with pytest.raises(CassetteMissError), twice.replays():
        embed("Be rude:")

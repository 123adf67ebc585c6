"""Retrievers and rerankers of yours that only ask other boundaries: a replay steps into them, as into tools."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import Document, PromptTemplate, VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.llms import ChatMessage
from llama_index.core.postprocessor import LLMRerank
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import NodeWithScore, QueryBundle
from tests.kit.world import gone

from agenttape_core import use_cassette
from agenttape_core.errors import CassetteMissError
from agenttape_llamaindex import TapeEventHandler

from .scripted import Reply, ScriptedEmbedding, ScriptedLLM, World


class Rewriting(BaseRetriever):
    """Lets a model rewrite the question before it searches."""

    def __init__(self, llm: ScriptedLLM, inner: BaseRetriever, prompt: str, log: Path | None) -> None:
        super().__init__()
        self._llm, self._inner, self._prompt, self._log = llm, inner, prompt, log

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        if self._log is not None:
            self._log.write_text("searched")
        self._llm.complete(f"{self._prompt} {query_bundle.query_str}")
        return self._inner.retrieve("animals")


class Choosing(BaseNodePostprocessor):
    """Lets a model say what it thinks of the nodes."""

    llm: Any
    prompt: str

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        self.llm.complete(self.prompt)
        return nodes


async def ask(
    world: World, *, how: str = "sync", top: int = 2, rewrite: str = "Rewrite:", rerank: str = "Rank", log: Any = None
) -> tuple[str, int]:
    """Ask an engine of these, and return its answer and the number of its sources."""
    llm, embedding = ScriptedLLM(world), ScriptedEmbedding(world)
    index = VectorStoreIndex.from_documents(
        [Document(text=text) for text in ("cats", "dogs", "birds")], embed_model=embedding
    )
    retriever = Rewriting(llm, index.as_retriever(similarity_top_k=top), rewrite, log)
    engine = RetrieverQueryEngine.from_args(retriever, llm=llm, node_postprocessors=[Choosing(llm=llm, prompt=rerank)])
    answer: Any = engine.query("Which?") if how == "sync" else await engine.aquery("Which?")
    return str(answer), len(answer.source_nodes)


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_a_replay_steps_into_retrievers_and_rerankers(how: str, tmp_path: Path) -> None:
    """Their code runs in a replay, with the recorded answers of what they ask."""
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        recorded = await ask(World(), how=how)
    with use_cassette(tmp_path / "c.yaml") as replay:
        assert await ask(gone(), how=how) == recorded
    assert {call.name for call in replay.report.stepped_into} == {"Rewriting", "Choosing"}


@pytest.mark.parametrize("changed", [{"rewrite": "Be rude:"}, {"rerank": "Reverse"}, {"top": 3}], ids=str)
async def test_what_changes_inside_is_a_miss(changed: dict[str, Any], tmp_path: Path) -> None:
    """A prompt inside of a retriever or a reranker counts, and so does how many nodes the inner search returns."""
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        await ask(World())
    with pytest.raises(CassetteMissError), use_cassette(tmp_path / "c.yaml"):
        await ask(World(), **changed)


async def test_a_retriever_with_side_effects_is_replayed_whole(tmp_path: Path) -> None:
    """One that writes a file does not write it again."""
    log = tmp_path / "log.txt"
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        recorded = await ask(World(), log=log)
    log.unlink()
    with use_cassette(tmp_path / "c.yaml") as replay:
        assert await ask(World(), log=log) == recorded
    assert not log.exists()
    assert "Rewriting" not in {call.name for call in replay.report.stepped_into}


EDITS: dict[str, dict[str, Any]] = {
    "the prompt of a reranker": {
        "rerank": PromptTemplate("Say Doc: N, Relevance: M for each, rudely.\n{context_str}\n{query_str}")
    },
    "the prompt of a synthesizer": {"answer": PromptTemplate("Be rude about {query_str}:\n{context_str}")},
    "how many nodes are found": {"top": 1},
}


@pytest.mark.sweep
@pytest.mark.parametrize("how", ["session", "handler"])
@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_part_of_an_engine_is_a_miss(edit: str, how: str, tmp_path: Path) -> None:
    """What you change in a reranker, a synthesizer or a search of the framework is never answered as before."""

    def ask_framework(
        world: World,
        *,
        top: int = 2,
        rerank: PromptTemplate | None = None,
        answer: PromptTemplate | None = None,
    ) -> tuple[str, int]:
        """Ask an engine of the framework's own parts: a retriever, a reranker that asks a model, and a synthesizer."""

        def script(messages: Sequence[ChatMessage], _: Sequence[str]) -> Reply:
            prompt = messages[-1].content or ""
            return "Doc: 1, Relevance: 9\nDoc: 2, Relevance: 5" if "Relevance" in prompt else "Cats."

        llm = ScriptedLLM(world, script)
        index = VectorStoreIndex.from_documents(
            [Document(text=text) for text in ("cats", "dogs", "birds")], embed_model=ScriptedEmbedding(world)
        )
        prompts = {} if rerank is None else {"choice_select_prompt": rerank}
        engine = index.as_query_engine(
            llm=llm,
            similarity_top_k=top,
            node_postprocessors=[LLMRerank(llm=llm, top_n=top, **prompts)],
            text_qa_template=answer,
        )
        found: Any = engine.query("Which cats sit?")  # no two of them are equally near: ids would decide
        return str(found), len(found.source_nodes)

    recording = TapeEventHandler(tmp_path / "c.jsonl") if how == "handler" else None
    with recording or use_cassette(tmp_path / "c.jsonl", mode="record"):
        recorded = ask_framework(World())
    world = gone()
    with use_cassette(tmp_path / "c.jsonl"):
        assert ask_framework(world) == recorded
    with pytest.raises(CassetteMissError), use_cassette(tmp_path / "c.jsonl"):
        ask_framework(world, **EDITS[edit])


class Imagining(BaseEmbedding):
    """Embeds what a model imagines of a question: hypothetical documents (HyDE)."""

    llm: Any
    inner: Any
    prompt: str = "Imagine:"
    embeds_first: bool = False

    def _get_query_embedding(self, query: str) -> list[float]:
        if self.embeds_first:
            self.inner.get_query_embedding(query)
        imagined = self.llm.complete(f"{self.prompt} {query}").text
        return list(self.inner.get_query_embedding(imagined))

    async def _aget_query_embedding(self, query: str) -> list[float]:
        imagined = (await self.llm.acomplete(f"{self.prompt} {query}")).text
        return list(await self.inner.aget_query_embedding(imagined))

    def _get_text_embedding(self, text: str) -> list[float]:
        return list(self.inner.get_text_embedding(text))


async def embed(world: World, how: str = "sync", **fields: Any) -> Any:
    """Embed a question and a text, each by another model."""
    model = Imagining(llm=ScriptedLLM(world), inner=ScriptedEmbedding(world), **fields)
    query = model.get_query_embedding("Cats?") if how == "sync" else await model.aget_query_embedding("Cats?")
    return query, model.get_text_embedding("dogs")


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_a_replay_steps_into_an_embedding_model_that_asks_an_llm(how: str, tmp_path: Path) -> None:
    """Its code runs, with the recorded answers of what it asks, and an edited prompt in it is a miss."""
    with use_cassette(tmp_path / "c.yaml", mode="all") as recording:
        recorded = await embed(World(), how)
    assert len(recording.report.recorded) == 4, "one that only embeds by another model is one call"
    world = gone()
    with use_cassette(tmp_path / "c.yaml") as replay:
        assert await embed(world, how) == recorded
    assert [call.name for call in replay.report.stepped_into] == ["Imagining"]
    with pytest.raises(CassetteMissError), use_cassette(tmp_path / "c.yaml"):
        await embed(world, how, prompt="Be rude:")


async def test_an_embedding_model_that_embeds_first_is_replayed_whole(tmp_path: Path) -> None:
    """What it embedded before it asked is not recorded by itself, so its code isn't run."""
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        recorded = await embed(World(), embeds_first=True)
    with use_cassette(tmp_path / "c.yaml") as replay:
        assert await embed(gone(), embeds_first=True) == recorded
    assert replay.report.stepped_into == ()
    assert "embedded by ScriptedEmbedding" in (tmp_path / "c.yaml").read_text()

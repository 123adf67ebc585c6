"""The kit on LlamaIndex's own mock models, and what it says of a suite that is not true."""

from __future__ import annotations

from typing import ClassVar

import pytest
from llama_index.core.base.llms.types import AudioBlock, DocumentBlock, ImageBlock
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.llms import LLM, MockLLM
from llama_index.core.llms.mock import MockFunctionCallingLLM

from agenttape_core.errors import ConfigurationError
from agenttape_core.testing import run_conformance

from .conformance import EmbeddingConformance, LLMConformance
from .reference import ReferenceLLM, ReferenceLLMConformance

NESTED = "its asynchronous chats call the plain ones, which fire events of their own"


class TestMockLLM(LLMConformance):
    """LlamaIndex's `MockLLM` repeats its question."""

    structures = False
    deviations: ClassVar = {
        "test_chunks_are_cumulative": "each chunk holds the whole text",
        "test_async_call_fires_one_start_and_one_end": NESTED,
        "test_async_stream_fires_an_event_for_each_chunk": NESTED,
    }

    def make(self) -> LLM:
        return MockLLM()


class TestCountingMockLLM(TestMockLLM):
    """With a number of tokens it always says the same, and its chunks lag behind their deltas."""

    deviations: ClassVar = {
        **TestMockLLM.deviations,
        "test_questions_are_told_apart": "it says 'text' as often as it is told to",
        "test_all_text_blocks_are_read": "it says 'text' as often as it is told to",
        "test_last_chunk_is_the_whole_answer": "the last chunk lacks the last word",
    }

    def make(self) -> LLM:
        return MockLLM(max_tokens=5)


class TestMockFunctionCallingLLM(LLMConformance):
    """`MockFunctionCallingLLM` calls every tool that it is given."""

    blocks = (ImageBlock(image=b"a"), AudioBlock(audio=b"a"), DocumentBlock(data=b"a"))
    deviations: ClassVar = {
        "test_missing_tool_call_is_an_error_if_asked": "it never raises",
        "test_async_call_fires_one_start_and_one_end": NESTED,
        "test_description_names_the_class": "it holds a function, which JSON does not",
    }

    def make(self) -> LLM:
        return MockFunctionCallingLLM()


class TestMockEmbedding(EmbeddingConformance):
    """`MockEmbedding` has one vector for everything."""

    deviations: ClassVar = {
        "test_texts_are_told_apart": "it has one vector for everything",
        "test_model_has_a_name": "it has none",
    }

    def make(self) -> MockEmbedding:
        return MockEmbedding(embed_dim=4)


def test_deviation_that_holds_is_told() -> None:
    """A check that is named as a deviation, and holds, fails: the list stays true."""

    class Modest(ReferenceLLMConformance):
        deviations: ClassVar = {"test_chunks_are_cumulative": "so I thought"}

    (result,) = run_conformance(Modest, {"test_chunks_are_cumulative"})
    assert result.outcome == "failed"
    assert "it holds: remove it there" in str(result.error)


def test_deviation_must_be_a_point() -> None:
    """A deviation that names no check is refused."""

    class Wrong(ReferenceLLMConformance):
        deviations: ClassVar = {"test_chunks_are_commutative": "a slip of the pen"}

    with pytest.raises(ConfigurationError, match="test_chunks_are_commutative"):
        Wrong().setup_method()


def test_deviation_says_what_was_found() -> None:
    """A known deviation is skipped with the author's reason and with what was found."""
    (result,) = run_conformance(TestMockLLM, {"test_chunks_are_cumulative"})
    assert result.outcome == "skipped"
    assert "each chunk holds the whole text: stream_chat, chunk 1 of" in str(result.error)


def test_random_answers_are_compared_by_type() -> None:
    """A model that never says the same twice passes, if it says so, and fails if it does not."""

    class Fickle(ReferenceLLM):
        told: ClassVar[list[str]] = []

        def text(self, messages: object) -> str:
            self.told.append("said")
            return f"answer {len(self.told)}"

    class Random(ReferenceLLMConformance):
        llm = Fickle
        deterministic = False

    class Sure(ReferenceLLMConformance):
        llm = Fickle

    asked = {"test_async_answers_are_the_same", "test_last_chunk_is_the_whole_answer"}
    assert {result.outcome for result in run_conformance(Random, asked)} == {"passed"}
    assert {result.outcome for result in run_conformance(Sure, asked)} == {"failed"}


@pytest.mark.parametrize("suite", [LLMConformance, EmbeddingConformance])
def test_helpers_of_points_do_not_meet(suite: type) -> None:
    """No two groups of checks have a helper of the same name: one would hide the other's."""
    groups = [vars(cls) for cls in suite.__bases__]
    names = [name for group in groups for name in group if not name.startswith("__")]
    assert sorted(names) == sorted(set(names))

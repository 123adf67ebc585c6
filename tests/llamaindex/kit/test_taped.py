"""A model that passes the kit passes it taped, both recording and replaying without the original."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from llama_index.core.base.llms.types import AudioBlock, DocumentBlock, ImageBlock
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.llms import LLM, MockLLM
from llama_index.core.llms.mock import MockFunctionCallingLLM

from agenttape_llamaindex import ReplayEmbedding, ReplayLLM

from .conformance import EmbeddingConformance, LLMConformance
from .reference import ReferenceEmbedding, ReferenceEmbeddingConformance, ReferenceLLM, ReferenceLLMConformance
from .taped import Outcomes, outcomes, replayed, taped

NESTED = "its asynchronous chats call the plain ones, which fire events of their own"


class MockLLMConformance(LLMConformance):
    """LlamaIndex's `MockLLM` repeats its question."""

    structures = False
    deviations: ClassVar = {
        "test_chunks_are_cumulative": "each chunk holds the whole text",
        "test_async_call_fires_one_start_and_one_end": NESTED,
        "test_async_stream_fires_an_event_for_each_chunk": NESTED,
    }

    def make(self) -> LLM:
        return MockLLM()


class CountingMockLLMConformance(MockLLMConformance):
    """With a number of tokens it always says the same, and its chunks lag behind their deltas."""

    deviations: ClassVar = {
        **MockLLMConformance.deviations,
        "test_questions_are_told_apart": "it says 'text' as often as it is told to",
        "test_all_text_blocks_are_read": "it says 'text' as often as it is told to",
        "test_last_chunk_is_the_whole_answer": "the last chunk lacks the last word",
    }

    def make(self) -> LLM:
        return MockLLM(max_tokens=5)


class MockFunctionCallingLLMConformance(LLMConformance):
    """`MockFunctionCallingLLM` calls every tool that it is given."""

    blocks = (ImageBlock(image=b"a"), AudioBlock(audio=b"a"), DocumentBlock(data=b"a"))
    deviations: ClassVar = {
        "test_missing_tool_call_is_an_error_if_asked": "it never raises",
        "test_async_call_fires_one_start_and_one_end": NESTED,
        "test_description_names_the_class": "it holds a function, which JSON does not",
    }

    def make(self) -> LLM:
        return MockFunctionCallingLLM()


class MockEmbeddingConformance(EmbeddingConformance):
    """`MockEmbedding` has one vector for everything."""

    deviations: ClassVar = {
        "test_texts_are_told_apart": "it has one vector for everything",
        "test_model_has_a_name": "it has none",
    }

    def make(self) -> MockEmbedding:
        return MockEmbedding(embed_dim=4)


WORLDS: dict[type[Any], tuple[type[Any], tuple[str, ...]]] = {
    ReferenceLLMConformance: (ReferenceLLM, ("answer",)),
    ReferenceEmbeddingConformance: (ReferenceEmbedding, ("vector",)),
    MockLLMConformance: (MockLLM, ("complete", "stream_complete")),
    CountingMockLLMConformance: (MockLLM, ("complete", "stream_complete")),
    MockFunctionCallingLLMConformance: (
        MockFunctionCallingLLM,
        ("_get_response_generator", "complete", "acomplete"),
    ),
    MockEmbeddingConformance: (MockEmbedding, ("_get_vector",)),
}
"""The class that each suite tests, and the methods that make its answers."""


Recorded = Callable[[type[Any]], tuple[Path, Outcomes]]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Return the cassettes that a taped suite has recorded, and the outcomes of its checks; each made once."""
    made: dict[type[Any], tuple[Path, Outcomes]] = {}

    def of(suite: type[Any]) -> tuple[Path, Outcomes]:
        if suite not in made:
            folder = tmp_path_factory.mktemp(suite.__name__)
            made[suite] = folder, outcomes(taped(suite, folder, "all"))
        return made[suite]

    return of


@pytest.mark.parametrize("suite", [ReferenceLLMConformance, ReferenceEmbeddingConformance])
def test_reference_keeps_every_check(suite: type[Any]) -> None:
    """The reference passes all checks of the kit, and skips none."""
    assert {end for end, _ in outcomes(suite).values()} == {"passed"}


@pytest.mark.parametrize(
    ("suite", "stand_in", "options"),
    [
        (ReferenceLLMConformance, ReplayLLM, {"is_chat_model": True, "is_function_calling_model": True}),
        (ReferenceEmbeddingConformance, ReplayEmbedding, {}),
    ],
)
def test_stand_in_keeps_every_check(
    suite: type[Any], stand_in: Any, options: dict[str, Any], recorded: Recorded
) -> None:
    """A stand-in made of the recordings keeps the checks, except those about its own description."""
    found = outcomes(replayed(suite, recorded(suite)[0], stand_in, **options))
    assert {check: end for check, end in found.items() if end[0] == "failed"} == {}


@pytest.mark.parametrize("suite", WORLDS, ids=[suite.__name__ for suite in WORLDS])
def test_taped_model_keeps_every_check(suite: type[Any], recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    """A taped model passes, deviates and skips like its original: recording, and replaying without it."""
    plain, (folder, recording) = outcomes(suite), recorded(suite)
    assert plain.items() <= recording.items()
    reached: list[str] = []

    def gone(*_: Any, **__: Any) -> Any:
        reached.append("the original")
        raise AssertionError("the original was called on replay")

    cls, methods = WORLDS[suite]
    for method in methods:
        monkeypatch.setattr(cls, method, gone)
    assert plain.items() <= outcomes(taped(suite, folder, "none")).items()
    assert reached == []

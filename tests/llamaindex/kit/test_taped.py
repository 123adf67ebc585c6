"""A model that passes the kit passes it taped, both recording and replaying without the original."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.llms.mock import MockFunctionCallingLLM

from agenttape_llamaindex import ReplayEmbedding, ReplayLLM

from . import test_mocks
from .reference import ReferenceEmbedding, ReferenceEmbeddingConformance, ReferenceLLM, ReferenceLLMConformance
from .taped import Outcomes, outcomes, replayed, taped

WORLDS: dict[type[Any], tuple[type[Any], tuple[str, ...]]] = {
    ReferenceLLMConformance: (ReferenceLLM, ("answer",)),
    ReferenceEmbeddingConformance: (ReferenceEmbedding, ("vector",)),
    test_mocks.TestMockLLM: (MockLLM, ("complete", "stream_complete")),
    test_mocks.TestCountingMockLLM: (MockLLM, ("complete", "stream_complete")),
    test_mocks.TestMockFunctionCallingLLM: (
        MockFunctionCallingLLM,
        ("_get_response_generator", "complete", "acomplete"),
    ),
    test_mocks.TestMockEmbedding: (MockEmbedding, ("_get_vector",)),
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

"""What passes the kit passes it taped, while it is recorded, and while it is replayed without the original."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.llms.mock import MockFunctionCallingLLM

from agenttape_llamaindex import ReplayEmbedding, ReplayLLM

from . import test_mocks
from .reference import ReferenceEmbedding, ReferenceEmbeddingConformance, ReferenceLLM, ReferenceLLMConformance
from .taped import outcomes, replayed, taped

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
"""What each suite tests, and the methods that make its answers."""


@pytest.mark.parametrize(
    ("suite", "stand_in", "options"),
    [
        (ReferenceLLMConformance, ReplayLLM, {"is_chat_model": True, "is_function_calling_model": True}),
        (ReferenceEmbeddingConformance, ReplayEmbedding, {}),
    ],
)
def test_stand_in_keeps_every_point(suite: type[Any], stand_in: Any, options: dict[str, Any], tmp_path: Path) -> None:
    """A stand-in made of what was recorded keeps the checks, but for what it says of itself."""
    outcomes(taped(suite, tmp_path, "all"))
    found = outcomes(replayed(suite, tmp_path, stand_in, **options))
    assert {check: end for check, end in found.items() if end[0] == "failed"} == {}


@pytest.mark.parametrize("suite", WORLDS, ids=[suite.__name__ for suite in WORLDS])
def test_taped_model_keeps_every_point(suite: type[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A taped model passes, deviates and skips where its original does: recording, and replaying without it."""
    plain = outcomes(suite)
    assert plain.items() <= outcomes(taped(suite, tmp_path, "all")).items()
    reached: list[str] = []

    def gone(*_: Any, **__: Any) -> Any:
        reached.append("the original")
        raise AssertionError("the original was called on replay")

    cls, methods = WORLDS[suite]
    for method in methods:
        monkeypatch.setattr(cls, method, gone)
    assert plain.items() <= outcomes(taped(suite, tmp_path, "none")).items()
    assert reached == []

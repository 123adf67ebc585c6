"""LlamaIndex's own evaluators judge runs: what their LLM says is recorded, and then replayed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.evaluation import FaithfulnessEvaluator
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata

from agenttape_core import boundary, use_cassette
from agenttape_core.checks import check_run, judged, run_of
from agenttape_core.checks.judges import recording_judges


@pytest.fixture
def _loop() -> Iterator[None]:
    """The event loop of this thread, which LlamaIndex uses and leaves open."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


@pytest.mark.usefixtures("_loop")
@pytest.mark.parametrize(("says", "passes"), [("YES", True), ("NO", False)])
def test_an_evaluator_of_llamaindex(tmp_path: Path, says: str, passes: bool) -> None:
    """An evaluator reads what was found, its LLM is asked once, and the gate is offline from then on."""

    class Judge(CustomLLM):
        """Says the same about all runs, and counts them."""

        says: str
        asked: list[str] = []  # noqa: RUF012 - a field of a model

        @property
        def metadata(self) -> LLMMetadata:
            return LLMMetadata(model_name="scripted-judge")

        def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
            self.asked.append(prompt)
            return CompletionResponse(text=self.says)

        def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
            raise NotImplementedError

    @boundary("retrieval")
    def find(question: str) -> list[str]:
        """Find what is known."""
        return ["Dune is on shelf 3"]

    with use_cassette(tmp_path / "run.yaml", mode="all"):
        find("Where is Dune?")
    llm = Judge(says=says)
    faithful = judged(FaithfulnessEvaluator(llm=llm))

    def score() -> Any:
        result = check_run(run_of(tmp_path / "run.yaml"), [faithful])
        assert result.has_failed is not passes
        return result.judged[0].scores

    with recording_judges():
        assert score() == (("FaithfulnessEvaluator", passes),)
    assert len(llm.asked) == 1
    assert "shelf 3" in llm.asked[0]
    assert score() == (("FaithfulnessEvaluator", passes),)
    assert len(llm.asked) == 1

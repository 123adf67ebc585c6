"""Checks about prompt templates."""

from __future__ import annotations

from typing import Any

from llama_index.core.prompts import PromptTemplate

from agenttape_core.testing import expect
from agenttape_llamaindex.testing.calls import finished
from agenttape_llamaindex.testing.llm_hooks import LLMHooks
from agenttape_llamaindex.testing.suite import check, needs, shown


class PromptChecks(LLMHooks):
    """The checks about `predict`, `stream` and their asynchronous forms."""

    @check
    def test_predict_returns_a_text(self) -> None:
        """`predict` and `apredict` return the same text."""
        self._needs_completions()
        first, second = self._predicted("predict"), self._predicted("apredict")
        expect(isinstance(first, str), f"predict returned a {type(first).__name__}")
        expect(first, "predict returned an empty text")
        self.expect_same("predict, then apredict", first, second)

    @check
    def test_stream_streams_the_prediction(self) -> None:
        """`stream` and `astream` yield the text of `predict` in pieces."""
        self._needs_completions()
        needs(self.streams, "does not stream")
        whole = self._predicted("predict")
        for call in ("stream", "astream"):
            pieces = self._predicted(call)
            expect(all(isinstance(piece, str) for piece in pieces), f"{call} streams {shown(pieces)}")
            self.expect_same(f"predict, then {call}", whole, "".join(pieces))

    def _predicted(self, call: str) -> Any:
        return finished(getattr(self.make(), call)(PromptTemplate("{question}"), question=self.questions[0]))

    def _needs_completions(self) -> None:
        needs(self.completes or self.make().metadata.is_chat_model, "has no complete, and is no chat model")

"""Checks about structured output: answers that are instances of a class."""

from __future__ import annotations

from typing import Any

from llama_index.core.prompts import PromptTemplate

from agenttape_core.testing import expect
from agenttape_llamaindex.testing.calls import finished
from agenttape_llamaindex.testing.llm_hooks import LLMHooks
from agenttape_llamaindex.testing.suite import check, needs, shown


class StructuredChecks(LLMHooks):
    """The checks about structured output."""

    @check
    def test_structured_predict_gives_an_instance(self) -> None:
        """`structured_predict` and `astructured_predict` return the same instance of the class."""
        first, second = (self._structured(call) for call in ("structured_predict", "astructured_predict"))
        for call, found in (("structured_predict", first), ("astructured_predict", second)):
            expect(isinstance(found, self.output_class), f"{call} returned {shown(found)}")
        self.expect_same("structured_predict, then astructured_predict", first, second)

    @check
    def test_stream_structured_predict_ends_with_it(self) -> None:
        """`stream_structured_predict` and its asynchronous form end with the instance of `structured_predict`."""
        needs(self.streams, "does not stream")
        whole = self._structured("structured_predict")
        for call in ("stream_structured_predict", "astream_structured_predict"):
            found = self._structured(call)
            expect(found, f"{call} streams nothing")
            last = found[-1]
            expect(isinstance(last, self.output_class), f"{call} ends with {shown(last)}")
            self.expect_same(f"structured_predict, then the end of {call}", whole, last)

    @check
    def test_structured_llm_gives_an_instance(self) -> None:
        """The `raw` of an answer of `as_structured_llm` is the instance, and its text is the instance as JSON."""
        for call in self.calls_of("chat", "achat", "complete", "acomplete"):
            needs(self.structures, "has no structured output")
            answer = self.ask(self.make().as_structured_llm(self.output_class), call, self.tool_question)
            expect(isinstance(answer.raw, self.output_class), f"{call}: the raw answer is {shown(answer.raw)}")
            text = answer.text if "complete" in call else answer.message.content
            read = self.output_class.model_validate_json(text)
            expect(read == answer.raw, f"{call}: the text says {shown(read)}, the instance is {shown(answer.raw)}")

    def _structured(self, call: str) -> Any:
        needs(self.structures, "has no structured output")
        prompt = PromptTemplate("{question}")
        return finished(getattr(self.make(), call)(self.output_class, prompt, question=self.tool_question))

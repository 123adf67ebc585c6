"""The two suites of the kit: every check that must hold for an LLM and for an embedding model."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from copy import deepcopy
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole, TextBlock
from llama_index.core.prompts import PromptTemplate

from agenttape_core.testing import expect

from .calls import CHATS, afinished, finished
from .comparison import text_of
from .embedding_checks.batches import BatchChecks
from .embedding_checks.embedding_events import EmbeddingEventChecks
from .embedding_checks.embedding_objects import EmbeddingObjectChecks
from .embedding_checks.vectors import VectorChecks
from .llm_checks.answers import AnswerChecks
from .llm_checks.events import EventChecks
from .llm_checks.failures import FailureChecks
from .llm_checks.objects import ObjectChecks
from .llm_checks.streams import StreamChecks
from .llm_checks.tools import ToolChecks
from .llm_hooks import LLMHooks
from .suite import check, needs, shown

# -- Checks about structured output: answers that are instances of a class.


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


# -- Checks about prompt templates.


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
        needs(self.completes or self.make().metadata.is_chat_model, "has no complete, and isn't a chat model")


# -- Checks about several callers of an LLM at once.


class ConcurrencyChecks(LLMHooks):
    """The checks about threads and tasks."""

    @check
    def test_threads_get_their_own_answers(self) -> None:
        """Several threads that share an LLM each get the answer to their own question."""
        for call in self.calls_of("chat", "complete"):
            llm = self.make()
            alone = [self.ask(llm, call, question) for question in self.questions]
            with ThreadPoolExecutor(len(self.questions)) as pool:
                works = [pool.submit(copy_context().run, self.ask, llm, call, text) for text in self.questions]
                together = [work.result() for work in works]
            self._compare(f"{call} in threads", alone, together)

    @check
    def test_tasks_get_their_own_answers(self) -> None:
        """Several tasks that share an LLM each get the answer to their own question."""
        for call in self.calls_of("achat", "acomplete"):
            llm = self.make()
            alone, together = asyncio.run(self._gathered(llm, call))
            self._compare(f"{call} in tasks", alone, together)

    async def _gathered(self, llm: Any, call: str) -> tuple[list[Any], list[Any]]:
        alone = [await afinished(self.begin(llm, call, question)) for question in self.questions]
        works = (afinished(self.begin(llm, call, question)) for question in self.questions)
        return alone, list(await asyncio.gather(*works))

    def _compare(self, what: str, alone: list[Any], together: list[Any]) -> None:
        for question, first, second in zip(self.questions, alone, together, strict=True):
            expect(text_of(second), f"{what}: {question!r} got no text: {shown(second)}")
            self.expect_same(f"{what}: {question!r}, alone and together", first, second)


# -- Checks about content that is not text.


class BlockChecks(LLMHooks):
    """The checks about images, sound, documents: skipped for an LLM that names no `blocks`."""

    @check
    def test_blocks_are_answered(self) -> None:
        """Each call answers a message with a text and each sort of block that the author names."""
        needs(self.blocks, "names no `blocks`")
        for block in self.blocks:
            for call in (name for name in self.calls if name in CHATS):
                answer = finished(getattr(self.make(), call)([self._message(block)]))
                last = answer[-1] if isinstance(answer, list) else answer
                sort = type(block).__name__
                expect(text_of(last), f"{call} with a {sort}: the answer has no text: {shown(last)}")

    @check
    def test_blocks_stay_as_they_are(self) -> None:
        """No call changes the blocks that it is given."""
        needs(self.blocks, "names no `blocks`")
        for block in self.blocks:
            message = self._message(block)
            before = deepcopy(message)
            self.make().chat([message])
            expect(message == before, f"a {type(block).__name__} became {shown(message.blocks[-1])}")

    def _message(self, block: object) -> ChatMessage:
        return ChatMessage(role=MessageRole.USER, content=[TextBlock(text=self.questions[0]), deepcopy(block)])


class LLMConformance(
    AnswerChecks,
    StreamChecks,
    PromptChecks,
    ToolChecks,
    StructuredChecks,
    BlockChecks,
    EventChecks,
    FailureChecks,
    ObjectChecks,
    ConcurrencyChecks,
):
    """The suite for an LLM of LlamaIndex. Derive from it, define `make`, and run pytest.

    `LLMHooks` has further options. Each `test_*` method is one check. Checks about features that an LLM does not have
    are skipped with the reason. Pytest is not needed: `run_conformance` runs the checks too.
    """


class EmbeddingConformance(VectorChecks, BatchChecks, EmbeddingEventChecks, EmbeddingObjectChecks):
    """The suite for an embedding model of LlamaIndex. Derive from it, define `make`, and run pytest.

    `EmbeddingHooks` has further options.
    """

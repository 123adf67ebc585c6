"""Checks about the vectors of single texts."""

from __future__ import annotations

import asyncio
import math
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any
from unittest import SkipTest

from llama_index.core.base.embeddings.base import BaseEmbedding, mean_agg

from agenttape_core.testing import expect

from ..calls import finished
from ..embedding_hooks import EmbeddingHooks
from ..suite import check

SINGLE = ("get_query_embedding", "get_text_embedding", "aget_query_embedding", "aget_text_embedding")


class VectorChecks(EmbeddingHooks):
    """The checks about single texts."""

    @check
    def test_vector_is_a_list_of_numbers(self) -> None:
        """Each call returns a list of finite numbers."""
        for call in SINGLE:
            self.expect_vector(call, finished(getattr(self.make(), call)(self.texts[0])))

    @check
    def test_all_vectors_have_one_length(self) -> None:
        """Queries and texts, short and long, have vectors of one length."""
        lengths = {}
        for call in SINGLE:
            for text in self.texts:
                lengths[call, text] = len(finished(getattr(self.make(), call)(text)))
        expect(len(set(lengths.values())) == 1, f"the lengths are {lengths}")

    @check
    def test_async_vectors_are_the_same(self) -> None:
        """Asynchronous calls give the vectors of the synchronous ones."""
        for call in ("get_query_embedding", "get_text_embedding"):
            first = getattr(self.make(), call)(self.texts[0])
            second = finished(getattr(self.make(), f"a{call}")(self.texts[0]))
            self.expect_same(f"{call}, then a{call}", first, second)

    @check
    def test_equal_texts_have_equal_vectors(self) -> None:
        """A text that is embedded again has the same vector."""
        model = self.make()
        for call in SINGLE:
            first, second = (finished(getattr(model, call)(self.texts[0])) for _ in range(2))
            self.expect_same(f"{call}, twice", first, second)

    @check
    def test_texts_are_told_apart(self) -> None:
        """Different texts have different vectors."""
        model = self.make()
        vectors = [tuple(model.get_text_embedding(text)) for text in self.texts]
        expect(len(set(vectors)) == len(vectors), f"{len(vectors)} texts have {len(set(vectors))} vectors")

    @check
    def test_text_is_similar_to_itself(self) -> None:
        """The similarity of a vector with itself is 1."""
        model = self.make()
        vector = model.get_text_embedding(self.texts[0])
        found = float(model.similarity(vector, vector))
        expect(math.isclose(found, 1, abs_tol=1e-4), f"the similarity of a text with itself is {found}")

    @check
    def test_queries_are_averaged(self) -> None:
        """The vector of several queries is the mean of theirs, also asynchronously."""
        model, queries = self.make(), list(self.texts[:3])
        wanted = mean_agg([model.get_query_embedding(query) for query in queries])
        self.expect_same("several queries", wanted, model.get_agg_embedding_from_queries(queries))
        second = finished(self.make().aget_agg_embedding_from_queries(queries))
        self.expect_same("several queries, asynchronously", wanted, second)

    @check
    def test_what_the_caller_changes_stays_with_it(self) -> None:
        """A caller that changes a vector changes no later one."""
        model = self.make()
        first = model.get_text_embedding(self.texts[0])
        kept = list(first)
        first.clear()
        self.expect_same("a vector that was changed, then the next", kept, model.get_text_embedding(self.texts[0]))

    @check
    def test_threads_get_their_own_vectors(self) -> None:
        """Several threads that share a model each get the vector of their own text."""
        model = self.make()
        alone = [model.get_text_embedding(text) for text in self.texts]
        with ThreadPoolExecutor(len(self.texts)) as pool:
            works = [pool.submit(copy_context().run, model.get_text_embedding, text) for text in self.texts]
            together = [work.result() for work in works]
        self._compare("in threads", alone, together)

    @check
    def test_tasks_get_their_own_vectors(self) -> None:
        """Several tasks that share a model each get the vector of their own text."""
        alone, together = asyncio.run(self._gathered(self.make()))
        self._compare("in tasks", alone, together)

    @check
    def test_error_reaches_the_caller(self) -> None:
        """An error of the service reaches the caller of each call."""
        for call in SINGLE:
            model = self.make_failing()
            expect(_raises(model, call, self.texts[0]), f"{call} answered although the service fails")

    async def _gathered(self, model: BaseEmbedding) -> tuple[list[Any], list[Any]]:
        alone = [await model.aget_text_embedding(text) for text in self.texts]
        return alone, list(await asyncio.gather(*(model.aget_text_embedding(text) for text in self.texts)))

    def _compare(self, how: str, alone: list[Any], together: list[Any]) -> None:
        for text, first, second in zip(self.texts, alone, together, strict=True):
            self.expect_same(f"{text!r}, alone and {how}", first, second)


def _raises(model: BaseEmbedding, call: str, text: str) -> bool:
    try:
        finished(getattr(model, call)(text))
    except SkipTest:
        raise
    except Exception:
        return True
    return False

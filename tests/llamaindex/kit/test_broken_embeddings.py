"""Each check about embedding models fails on one that is broken there, and only those named with it fail too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from llama_index.core.callbacks import CBEventType
from llama_index.core.instrumentation.events.embedding import EmbeddingEndEvent, EmbeddingStartEvent
from llama_index_instrumentation import get_dispatcher
from pydantic import PrivateAttr

from agenttape_core.testing import run_conformance
from agenttape_core.testing.running import checks_of

from .conformance import EmbeddingConformance
from .reference import ReferenceEmbedding, ReferenceEmbeddingConformance

BROKEN: list[tuple[str, frozenset[str], type[EmbeddingConformance]]] = []


def breaks(check: str, *also: str) -> Callable[[type], type]:
    """Note that a model is broken so that a check fails, and which others fail with it."""

    def note(broken: type) -> type:
        suite = type(broken.__name__, (ReferenceEmbeddingConformance,), {"model": broken})
        BROKEN.append((check, frozenset(also), suite))
        return broken

    return note


# -- vectors -------------------------------------------------------------------------------------------------------


@breaks("test_vector_is_a_list_of_numbers", "test_events_carry_texts_and_vectors")
class QueriesAreTuples(ReferenceEmbedding):
    """The vector of a query is no list."""

    async def aget_query_embedding(self, query: str) -> Any:
        return tuple(await super().aget_query_embedding(query))


@breaks("test_all_vectors_have_one_length")
class EmptyIsEmpty(ReferenceEmbedding):
    """The vector of an empty text is shorter."""

    def vector(self, text: str, call: str) -> list[float]:
        found = super().vector(text, call)
        return found if text else found[:-1]


@breaks("test_async_vectors_are_the_same", "test_queries_are_averaged")
class QueriesOtherwise(ReferenceEmbedding):
    """An asynchronous query has another vector."""

    def vector(self, text: str, call: str) -> list[float]:
        found = super().vector(text, call)
        return found[::-1] if call == "aquery" else found


@breaks("test_equal_texts_have_equal_vectors")
class ChangesItsMind(ReferenceEmbedding):
    """The second query has another vector than the first, if it is equal to it."""

    _asked: str = PrivateAttr(default="")

    def vector(self, text: str, call: str) -> list[float]:
        found = super().vector(text, call)
        if call == "query":
            found = found[::-1] if self._asked == text else found
            self._asked = text
        return found


@breaks("test_texts_are_told_apart")
class EmbedsNothing(ReferenceEmbedding):
    """All vectors are equal."""

    def vector(self, text: str, call: str) -> list[float]:
        return super().vector("", call)


@breaks("test_text_is_similar_to_itself")
class IsSimilarToNothing(ReferenceEmbedding):
    """The similarity is always small."""

    def similarity(self, *args: Any, **kwargs: Any) -> float:
        return 0.1


@breaks("test_queries_are_averaged")
class TakesTheFirstQuery(ReferenceEmbedding):
    """Of several queries only the first counts."""

    def get_agg_embedding_from_queries(self, queries: list[str], agg_fn: Any = None) -> list[float]:
        return self.get_query_embedding(queries[0])


@breaks("test_what_the_caller_changes_stays_with_it")
class KeepsItsVectors(ReferenceEmbedding):
    """Equal texts have the same list."""

    _kept: dict[Any, list[float]] = PrivateAttr(default_factory=dict)

    def vector(self, text: str, call: str) -> list[float]:
        return self._kept.setdefault((call, text), super().vector(text, call))


@breaks("test_threads_get_their_own_vectors")
class CountsItsTexts(ReferenceEmbedding):
    """After as many texts as there are, vectors are turned round."""

    _texts: int = PrivateAttr(default=0)

    def vector(self, text: str, call: str) -> list[float]:
        self._texts += call == "text"
        return super().vector(text, call)[:: -1 if self._texts > 5 else 1]


@breaks("test_tasks_get_their_own_vectors")
class CountsItsTasks(ReferenceEmbedding):
    """The same for asynchronous calls."""

    _texts: int = PrivateAttr(default=0)

    def vector(self, text: str, call: str) -> list[float]:
        self._texts += call == "atext"
        return super().vector(text, call)[:: -1 if self._texts > 5 else 1]


@breaks("test_error_reaches_the_caller")
class EmbedsErrors(ReferenceEmbedding):
    """A failing service has a vector too."""

    def vector(self, text: str, call: str) -> list[float]:
        self.fails = False
        return super().vector(text, call)


# -- batches -------------------------------------------------------------------------------------------------------


@breaks("test_batch_keeps_the_order", "test_nodes_get_their_vectors", "test_batch_size_changes_nothing")
class TurnsBatches(ReferenceEmbedding):
    """The vectors of a batch come in the opposite order, unless it is small."""

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        found = super()._get_text_embeddings(texts)
        return found[::-1] if len(texts) > 2 else found


@breaks("test_batch_size_changes_nothing")
class LosesTheRest(ReferenceEmbedding):
    """A last batch of one text is lost."""

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return await super()._aget_text_embeddings(texts) if len(texts) > 1 else []


@breaks("test_empty_batch_is_empty")
class NeedsATextAtLeast(ReferenceEmbedding):
    """No texts are an error."""

    def get_text_embedding_batch(self, texts: list[str], *args: Any, **kwargs: Any) -> list[list[float]]:
        if not texts:
            raise ValueError("there is nothing to embed")
        found: list[list[float]] = super().get_text_embedding_batch(texts, *args, **kwargs)
        return found


@breaks("test_equal_texts_in_a_batch_are_kept")
class EmbedsEachTextOnce(ReferenceEmbedding):
    """Equal texts of a batch have one vector."""

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return super()._get_text_embeddings(list(dict.fromkeys(texts)))


@breaks("test_nodes_get_their_vectors")
class LeavesNodes(ReferenceEmbedding):
    """Nodes get no vector."""

    def __call__(self, nodes: Any, **kwargs: Any) -> Any:
        return nodes


@breaks("test_texts_stay_as_they_are")
class EatsTexts(ReferenceEmbedding):
    """The list of texts is emptied."""

    async def aget_text_embedding_batch(self, texts: list[str], *args: Any, **kwargs: Any) -> list[list[float]]:
        found: list[list[float]] = await super().aget_text_embedding_batch(list(texts), *args, **kwargs)
        if self.embed_batch_size == 2:
            texts.clear()
        return found


# -- events --------------------------------------------------------------------------------------------------------


@breaks("test_call_fires_one_start_and_one_end")
class StartsTwice(ReferenceEmbedding):
    """A query fires a second start."""

    def _get_query_embedding(self, query: str) -> list[float]:
        get_dispatcher().event(EmbeddingStartEvent(model_dict={}))
        return super()._get_query_embedding(query)


@breaks("test_batches_fire_their_own_events")
class StartsBatchesTwice(ReferenceEmbedding):
    """A batch fires a second start."""

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        get_dispatcher().event(EmbeddingStartEvent(model_dict={}))
        return super()._get_text_embeddings(texts)


@breaks("test_events_carry_texts_and_vectors", "test_batches_fire_their_own_events")
class EndsWithAnother(ReferenceEmbedding):
    """A batch fires an event for a text that was not given."""

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        get_dispatcher().event(EmbeddingEndEvent(chunks=["another"], embeddings=[[0.5]]))
        return super()._get_text_embeddings(texts)


@breaks("test_spans_are_closed")
class LeavesASpanOpen(ReferenceEmbedding):
    """A span is begun and never ended."""

    def vector(self, text: str, call: str) -> list[float]:
        get_dispatcher().span_enter(id_="Other.part-1", bound_args=None)
        return super().vector(text, call)


@breaks("test_older_callbacks_begin_and_end")
class LeavesACallbackOpen(ReferenceEmbedding):
    """A callback receives an event that never ends."""

    def vector(self, text: str, call: str) -> list[float]:
        self.callback_manager.on_event_start(CBEventType.EMBEDDING)
        return super().vector(text, call)


@breaks("test_events_tell_no_secrets", "test_payload_is_safe")
class TellsItsKey(ReferenceEmbedding):
    """The payload holds the key."""

    def to_payload(self) -> dict[str, Any]:
        return {**super().to_payload(), "api_key": self.api_key}


# -- objects -------------------------------------------------------------------------------------------------------


@breaks("test_model_has_a_name")
class HasNoName(ReferenceEmbedding):
    """It does not say which model it is."""

    model_name: str = "unknown"


@breaks("test_payload_is_safe")
class HasAnotherPayload(ReferenceEmbedding):
    """The payload names another class."""

    def to_payload(self) -> dict[str, Any]:
        return {**super().to_payload(), "class_name": "Another"}


@breaks("test_description_names_the_class")
class DescribesAnother(ReferenceEmbedding):
    """`to_dict` names another class."""

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        return {**super().to_dict(**kwargs), "class_name": "Another"}


@breaks("test_copies_embed_the_same")
class CannotBeCopied(ReferenceEmbedding):
    """A copy has other vectors."""

    turned: bool = False

    def __copy__(self) -> CannotBeCopied:
        return type(self)(turned=True)

    def vector(self, text: str, call: str) -> list[float]:
        return super().vector(text, call)[:: -1 if self.turned else 1]


@breaks("test_pickled_embeds_the_same")
class CannotBePickled(ReferenceEmbedding):
    """It refuses to be pickled."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("cannot be pickled")

    def __copy__(self) -> CannotBePickled:
        return type(self)()

    def __deepcopy__(self, memo: Any = None) -> CannotBePickled:
        return type(self)()


@breaks("test_cache_is_asked_first")
class IgnoresItsCache(ReferenceEmbedding):
    """The cache is never read."""

    def get_text_embedding_batch(self, texts: list[str], *args: Any, **kwargs: Any) -> list[list[float]]:
        model = self.model_copy(update={"embeddings_cache": None})
        found: list[list[float]] = super(IgnoresItsCache, model).get_text_embedding_batch(texts, *args, **kwargs)
        return found


# -- the tests -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("check", "also", "suite"), BROKEN, ids=[suite.__name__ for _, _, suite in BROKEN])
def test_only_the_broken_points_fail(check: str, also: frozenset[str], suite: type[EmbeddingConformance]) -> None:
    """The kit fails at what a model breaks, and nowhere else."""
    failed = {result.check: str(result.error) for result in run_conformance(suite) if result.outcome == "failed"}
    assert set(failed) == {check} | also, failed


def test_each_point_is_broken_once() -> None:
    """There is a broken model for each check."""
    assert {check for check, _, _ in BROKEN} == set(checks_of(EmbeddingConformance))


def test_reference_keeps_every_point() -> None:
    """The reference passes all of them, and skips none."""
    results = run_conformance(ReferenceEmbeddingConformance)
    assert [str(result) for result in results if result.outcome != "passed"] == []

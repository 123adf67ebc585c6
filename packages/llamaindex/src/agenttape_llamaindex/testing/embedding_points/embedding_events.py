"""What an embedding model tells LlamaIndex's instrumentation and its older callbacks."""

from __future__ import annotations

from collections import Counter
from typing import Any

from llama_index.core.callbacks import CallbackManager
from llama_index.core.callbacks.schema import CBEventType

from agenttape_core.testing import expect
from agenttape_llamaindex.testing.asking import finished
from agenttape_llamaindex.testing.embedding_hooks import EmbeddingHooks
from agenttape_llamaindex.testing.embedding_points.batches import BATCHED
from agenttape_llamaindex.testing.embedding_points.vectors import SINGLE
from agenttape_llamaindex.testing.listeners import CallbackEar, Heard, listening
from agenttape_llamaindex.testing.suite import needs, point, shown


class EmbeddingEventPoints(EmbeddingHooks):
    """The points about events, spans and callbacks."""

    @point
    def test_call_fires_one_start_and_one_end(self) -> None:
        """A single text fires one start and one end, in this order."""
        for call in SINGLE:
            found = self._heard(call, self.texts[0])[0].shape("Embedding")
            expect(found == ["EmbeddingStartEvent", "EmbeddingEndEvent"], f"{call}: fired {found}")

    @point
    def test_batches_fire_their_own_events(self) -> None:
        """Each batch fires one start and one end."""
        batches = -(-len(self.texts) // 2)
        for call in BATCHED:
            found = Counter(self._heard(call, list(self.texts))[0].shape("Embedding"))
            wanted = {"EmbeddingStartEvent": batches, "EmbeddingEndEvent": batches}
            expect(found == wanted, f"{call}: {len(self.texts)} texts by two fired {dict(found)}, expected {wanted}")

    @point
    def test_events_carry_texts_and_vectors(self) -> None:
        """The ends carry the texts and their vectors, in order."""
        for call in (*SINGLE, *BATCHED):
            given = list(self.texts) if call in BATCHED else self.texts[0]
            heard, result = self._heard(call, given)
            ends: list[Any] = [event for event in heard.events if type(event).__name__ == "EmbeddingEndEvent"]
            texts = [text for event in ends for text in event.chunks]
            vectors = [vector for event in ends for vector in event.embeddings]
            wanted = (list(self.texts), result) if call in BATCHED else ([self.texts[0]], [result])
            expect(texts == wanted[0], f"{call}: the ends carry {shown(texts)}")
            expect(vectors == wanted[1], f"{call}: the ends carry other vectors than the call returns")

    @point
    def test_spans_are_closed(self) -> None:
        """Every span that a call begins ends, and the call's own is among them."""
        for call in (*SINGLE, *BATCHED):
            heard, _ = self._heard(call, list(self.texts) if call in BATCHED else self.texts[0])
            named = [span for span in heard.spans if span.partition("-")[0].endswith(f".{call}")]
            expect(named, f"{call} begins no span of its own, but {list(heard.spans)}")
            unended = {span: how for span, how in heard.spans.items() if how != "exited"}
            expect(not unended, f"{call}: not ended were {unended}")

    @point
    def test_older_callbacks_begin_and_end(self) -> None:
        """Each event that the callback manager is told to begin ends once, and all are of embeddings."""
        for call in (*SINGLE, *BATCHED):
            model, ear = self.batched(), CallbackEar()
            model.callback_manager = CallbackManager([ear])
            finished(getattr(model, call)(list(self.texts) if call in BATCHED else self.texts[0]))
            kinds = {kind for _, kind in ear.begun}
            expect(kinds == {CBEventType.EMBEDDING}, f"{call}: the callbacks are of {kinds}")
            begun = Counter(event for event, _ in ear.begun)
            expect(begun == Counter(ear.ended), f"{call}: {len(ear.begun)} events began, {len(ear.ended)} ended")

    @point
    def test_events_tell_no_secrets(self) -> None:
        """No event holds what the model was made with and must not tell."""
        needs(self.secrets, "names no `secrets`")
        for call in SINGLE:
            told = "".join(repr(event) for event in self._heard(call, self.texts[0])[0].events)
            expect(not any(secret in told for secret in self.secrets), f"{call}: an event tells a secret")

    def _heard(self, call: str, given: Any) -> tuple[Heard, Any]:
        model = self.batched()
        with listening() as heard:
            result = finished(getattr(model, call)(given))
        return heard, result

"""Checks about the events, spans and callbacks of an embedding model."""

from __future__ import annotations

from collections import Counter
from typing import Any

from llama_index.core.callbacks import CallbackManager
from llama_index.core.callbacks.schema import CBEventType

from agenttape_core.testing import expect

from ..calls import finished
from ..embedding_hooks import EmbeddingHooks
from ..listeners import CallbackListener, Reports, listening
from ..suite import check, needs, shown
from .batches import BATCHED
from .vectors import SINGLE


class EmbeddingEventChecks(EmbeddingHooks):
    """The checks about events, spans and callbacks."""

    @check
    def test_call_fires_one_start_and_one_end(self) -> None:
        """A single text fires one start and one end, in this order."""
        for call in SINGLE:
            found = self._reports(call, self.texts[0])[0].shape("Embedding")
            expect(found == ["EmbeddingStartEvent", "EmbeddingEndEvent"], f"{call}: fired {found}")

    @check
    def test_batches_fire_their_own_events(self) -> None:
        """Each batch fires one start and one end."""
        batches = -(-len(self.texts) // 2)
        for call in BATCHED:
            found = Counter(self._reports(call, list(self.texts))[0].shape("Embedding"))
            wanted = {"EmbeddingStartEvent": batches, "EmbeddingEndEvent": batches}
            expect(found == wanted, f"{call}: {len(self.texts)} texts by two fired {dict(found)}, expected {wanted}")

    @check
    def test_events_carry_texts_and_vectors(self) -> None:
        """The ends carry the texts and their vectors, in order."""
        for call in (*SINGLE, *BATCHED):
            given = list(self.texts) if call in BATCHED else self.texts[0]
            reports, result = self._reports(call, given)
            ends: list[Any] = [event for event in reports.events if type(event).__name__ == "EmbeddingEndEvent"]
            texts = [text for event in ends for text in event.chunks]
            vectors = [vector for event in ends for vector in event.embeddings]
            wanted = (list(self.texts), result) if call in BATCHED else ([self.texts[0]], [result])
            expect(texts == wanted[0], f"{call}: the ends carry {shown(texts)}")
            expect(vectors == wanted[1], f"{call}: the ends carry other vectors than the call returns")

    @check
    def test_spans_are_closed(self) -> None:
        """Every span that a call begins ends, and the call's own is among them."""
        for call in (*SINGLE, *BATCHED):
            reports, _ = self._reports(call, list(self.texts) if call in BATCHED else self.texts[0])
            named = [span for span in reports.spans if span.partition("-")[0].endswith(f".{call}")]
            expect(named, f"{call} begins no span of its own, but {list(reports.spans)}")
            unended = {span: how for span, how in reports.spans.items() if how != "exited"}
            expect(not unended, f"{call}: these did not end: {unended}")

    @check
    def test_older_callbacks_begin_and_end(self) -> None:
        """Each event that begins in the callback manager ends once, and all are of embeddings."""
        for call in (*SINGLE, *BATCHED):
            model, listener = self.batched(), CallbackListener()
            model.callback_manager = CallbackManager([listener])
            finished(getattr(model, call)(list(self.texts) if call in BATCHED else self.texts[0]))
            kinds = {kind for _, kind in listener.begun}
            expect(kinds == {CBEventType.EMBEDDING}, f"{call}: the callbacks are of {kinds}")
            begun = Counter(event for event, _ in listener.begun)
            expect(
                begun == Counter(listener.ended),
                f"{call}: {len(listener.begun)} events began, {len(listener.ended)} ended",
            )

    @check
    def test_events_tell_no_secrets(self) -> None:
        """No event holds a secret of the model."""
        needs(self.secrets, "names no `secrets`")
        for call in SINGLE:
            text = "".join(repr(event) for event in self._reports(call, self.texts[0])[0].events)
            expect(not any(secret in text for secret in self.secrets), f"{call}: an event holds a secret")

    def _reports(self, call: str, given: Any) -> tuple[Reports, Any]:
        model = self.batched()
        with listening() as reports:
            result = finished(getattr(model, call)(given))
        return reports, result

"""Checks about the vectors of many texts, and of nodes."""

from __future__ import annotations

from llama_index.core.schema import TextNode

from agenttape_core.testing import expect

from ..calls import finished
from ..embedding_hooks import EmbeddingHooks
from ..suite import check

BATCHED = ("get_text_embedding_batch", "aget_text_embedding_batch")


class BatchChecks(EmbeddingHooks):
    """The checks about batches."""

    @check
    def test_batch_keeps_the_order(self) -> None:
        """A batch gives one vector for each text, in order, each that of the text alone."""
        alone = [self.make().get_text_embedding(text) for text in self.texts]
        for call in BATCHED:
            found = finished(getattr(self.make(), call)(list(self.texts)))
            expect(len(found) == len(alone), f"{call}: {len(alone)} texts have {len(found)} vectors")
            for text, first, second in zip(self.texts, alone, found, strict=True):
                self.expect_same(f"{text!r}, alone and by {call}", first, second)

    @check
    def test_batch_size_changes_nothing(self) -> None:
        """More texts than fit into a batch have the vectors that they have in one."""
        for call in BATCHED:
            whole = finished(getattr(self.batched(len(self.texts)), call)(list(self.texts)))
            parts = finished(getattr(self.batched(), call)(list(self.texts)))
            expect(len(whole) == len(parts), f"{call}: {len(whole)} vectors in one batch, {len(parts)} in several")
            for text, first, second in zip(self.texts, whole, parts, strict=True):
                self.expect_same(f"{text!r} by {call}, in one batch and in several", first, second)

    @check
    def test_empty_batch_is_empty(self) -> None:
        """No texts have no vectors."""
        for call in BATCHED:
            found = finished(getattr(self.make(), call)([]))
            expect(found == [], f"{call}: no texts have {found}")

    @check
    def test_equal_texts_in_a_batch_are_kept(self) -> None:
        """A text that is twice in a batch has two vectors, equal ones."""
        for call in BATCHED:
            found = finished(getattr(self.make(), call)([self.texts[0], self.texts[1], self.texts[0]]))
            expect(len(found) == 3, f"{call}: three texts, two of them equal, have {len(found)} vectors")
            self.expect_same(f"{call}: two equal texts", found[0], found[2])

    @check
    def test_nodes_get_their_vectors(self) -> None:
        """A model that is called with nodes gives each the vector of its text, also asynchronously."""
        wanted = [self.make().get_text_embedding(text) for text in self.texts[:3]]
        for call in ("__call__", "acall"):
            nodes = [TextNode(text=text) for text in self.texts[:3]]
            found = finished(getattr(self.make(), call)(nodes))
            for node, vector in zip(found, wanted, strict=True):
                expect(node.embedding, f"{call}: a node got no vector")
                self.expect_same(f"{call}: {node.get_content()!r}", vector, node.embedding)

    @check
    def test_texts_stay_as_they_are(self) -> None:
        """No call changes the list of texts that it is given."""
        for call in BATCHED:
            given = list(self.texts)
            finished(getattr(self.batched(), call)(given))
            expect(given == list(self.texts), f"{call} changed the texts to {given}")

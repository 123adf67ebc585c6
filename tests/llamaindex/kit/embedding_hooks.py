"""The properties of an embedding model that its author declares, and the calls that the checks make of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar
from unittest import SkipTest

from llama_index.core.base.embeddings.base import BaseEmbedding

from agenttape_core.testing import expect

from .suite import KitSuite, shown


class EmbeddingHooks(KitSuite):
    """The properties in which embedding models differ. `make` has to be defined; the others have defaults."""

    deterministic: ClassVar[bool] = True
    """True if equal texts get equal vectors. If not, only their lengths are compared."""
    tolerance: ClassVar[float] = 1e-6
    """The greatest difference between two numbers of equal vectors."""
    pickles: ClassVar[bool] = True
    """True if it can be sent to another process."""
    secrets: ClassVar[Sequence[str]] = ()
    """The secrets that it is made with and must never reveal: keys, tokens."""
    texts: ClassVar[Sequence[str]] = ("The sky is blue.", "The sea is deep.", "Ada wrote programs.", "", "Tea is hot.")
    """Different texts that it can embed. Leave out the empty one if the service refuses it."""

    # -- making it -------------------------------------------------------------------------------------------------

    def make(self) -> BaseEmbedding:
        """Return the embedding model. Has to be defined; called more than once for a check."""
        raise NotImplementedError("define make(self), which returns the embedding model")

    def make_failing(self) -> BaseEmbedding:
        """Return an embedding model whose every call raises."""
        raise SkipTest("has no `make_failing` hook")

    # -- for the checks --------------------------------------------------------------------------------------------

    def batched(self, size: int = 2) -> BaseEmbedding:
        """Return the embedding model with a batch size that the texts exceed."""
        model = self.make()
        model.embed_batch_size = size
        return model

    def expect_vector(self, what: str, found: Any) -> None:
        """Expect a list of numbers that are finite."""
        expect(isinstance(found, list), f"{what}: the vector is a {type(found).__name__}")
        expect(found, f"{what}: the vector is empty")
        numbers = all(isinstance(number, float | int) and math.isfinite(number) for number in found)
        expect(numbers, f"{what}: not all of {shown(found)} are numbers")

    def expect_same(self, what: str, first: Sequence[float], second: Sequence[float]) -> None:
        """Expect two vectors to be equal; or to be of the same length if the model is not deterministic."""
        expect(len(first) == len(second), f"{what}: the vectors have {len(first)} and {len(second)} numbers")
        if self.deterministic:
            close = all(math.isclose(a, b, abs_tol=self.tolerance) for a, b in zip(first, second, strict=True))
            expect(close, f"{what}: got {shown(list(first), 80)} and {shown(list(second), 80)}")

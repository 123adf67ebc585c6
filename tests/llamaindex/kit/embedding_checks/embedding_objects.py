"""Checks about an embedding model as an object: its description, copies, other processes, its cache."""

from __future__ import annotations

import json
import pickle

from llama_index.core.storage.kvstore import SimpleKVStore

from agenttape_core.testing import expect

from ..embedding_hooks import EmbeddingHooks
from ..llm_checks.objects import COPIES
from ..suite import check, needs


class EmbeddingObjectChecks(EmbeddingHooks):
    """The checks about the object itself."""

    @check
    def test_model_has_a_name(self) -> None:
        """`model_name` is a text that names the model."""
        name = self.make().model_name
        expect(isinstance(name, str) and name != "unknown", f"the name of the model is {name!r}")

    @check
    def test_payload_is_safe(self) -> None:
        """`to_payload` is JSON data that names the class and holds no secret."""
        model = self.make()
        payload = model.to_payload()
        text = json.dumps(payload)
        expect(payload.get("class_name") == model.class_name(), f"the payload names {payload.get('class_name')!r}")
        expect(not any(secret in text for secret in self.secrets), "the payload holds a secret")

    @check
    def test_description_names_the_class(self) -> None:
        """`to_dict` and `to_json` are JSON data that name the class by `class_name`."""
        model = self.make()
        for way, found in (("to_dict", model.to_dict()), ("to_json", json.loads(model.to_json()))):
            named = found.get("class_name")
            expect(named == model.class_name(), f"{way} names {named!r}, class_name() says {model.class_name()!r}")

    @check
    def test_copies_embed_the_same(self) -> None:
        """A copy, deep or not, gives the vectors of the original."""
        for way, copied in COPIES.items():
            first = self.make().get_text_embedding(self.texts[0])
            second = copied(self.make()).get_text_embedding(self.texts[0])
            self.expect_same(f"the original, then {way}", first, second)

    @check
    def test_pickled_embeds_the_same(self) -> None:
        """After pickling it gives the vectors of the original."""
        needs(self.pickles, "cannot be pickled")
        sent = pickle.loads(pickle.dumps(self.make()))
        first, second = (model.get_text_embedding(self.texts[0]) for model in (self.make(), sent))
        self.expect_same("the original, then the pickled one", first, second)

    @check
    def test_cache_is_asked_first(self) -> None:
        """With an `embeddings_cache`, a text in the cache has the vector that is kept there."""
        model = self.make()
        model.embeddings_cache = SimpleKVStore()
        kept = [1.0] * len(model.get_text_embedding(self.texts[0]))
        model.embeddings_cache.put(key=self.texts[0], val={"any": kept}, collection="embeddings")
        found = model.get_text_embedding(self.texts[0]), model.get_text_embedding_batch([self.texts[0]])[0]
        expect(found == (kept, kept), "a text that is in the cache was embedded again")

"""Checks about an LLM as an object: its description, copies, other processes."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

from llama_index.core.base.llms.types import LLMMetadata
from llama_index.core.llms.function_calling import FunctionCallingLLM

from agenttape_core.testing import expect

from ..llm_hooks import LLMHooks
from ..suite import check, needs, shown

COPIES: dict[str, Callable[[Any], Any]] = {
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "model_copy()": lambda llm: llm.model_copy(),
    "model_copy(deep=True)": lambda llm: llm.model_copy(deep=True),
}


class ObjectChecks(LLMHooks):
    """The checks about the object itself."""

    @check
    def test_metadata_says_what_it_is(self) -> None:
        """`metadata` is an `LLMMetadata` with a name and a positive context window, equal each time it is read."""
        llm = self.make()
        found = llm.metadata
        expect(isinstance(found, LLMMetadata), f"metadata is a {type(found).__name__}")
        expect(found.context_window > 0, f"the context window is {found.context_window}")
        expect(found.model_name, "the model has no name")
        expect(found == llm.metadata, "metadata differs when it is read again")

    @check
    def test_metadata_agrees_with_the_class(self) -> None:
        """An LLM whose metadata shows that it calls functions is a `FunctionCallingLLM`."""
        llm = self.make()
        if llm.metadata.is_function_calling_model:
            expect(isinstance(llm, FunctionCallingLLM), f"a {type(llm).__name__} is no FunctionCallingLLM")

    @check
    def test_payload_is_safe(self) -> None:
        """`to_payload` is JSON data that names the class and holds no secret."""
        llm = self.make()
        payload = llm.to_payload()
        text = json.dumps(payload)
        expect(payload.get("class_name") == llm.class_name(), f"the payload names {payload.get('class_name')!r}")
        expect(not any(secret in text for secret in self.secrets), "the payload holds a secret")

    @check
    def test_description_names_the_class(self) -> None:
        """`to_dict` and `to_json` are JSON data that name the class by `class_name`."""
        llm = self.make()
        expect(isinstance(llm.class_name(), str) and llm.class_name(), f"class_name() is {llm.class_name()!r}")
        for way, found in (("to_dict", llm.to_dict()), ("to_json", json.loads(llm.to_json()))):
            named = found.get("class_name")
            expect(named == llm.class_name(), f"{way} names {named!r}, class_name() says {llm.class_name()!r}")

    @check
    def test_copies_answer_the_same(self) -> None:
        """A copy, deep or not, gives the answers of the original."""
        for way, copied in COPIES.items():
            first, second = self.ask(self.make(), "chat"), self.ask(copied(self.make()), "chat")
            self.expect_same(f"the original, then {way}", first, second)

    @check
    def test_copy_is_on_its_own(self) -> None:
        """An attribute that is set on a copy is not set on the original."""
        llm = self.make()
        before = llm.system_prompt
        changed = llm.model_copy(update={"system_prompt": "Be brief."})
        expect(changed.system_prompt == "Be brief.", f"the copy has the system prompt {changed.system_prompt!r}")
        expect(llm.system_prompt == before, "the original got the system prompt of its copy")

    @check
    def test_pickled_answers_the_same(self) -> None:
        """After pickling it gives the answers of the original."""
        needs(self.pickles, "cannot be pickled")
        sent = pickle.loads(pickle.dumps(self.make()))
        first, second = self.ask(self.make(), "chat"), self.ask(sent, "chat")
        self.expect_same("the original, then the pickled one", first, second)

    @check
    def test_plain_answers_stay_as_they_are(self) -> None:
        """A caller that changes an answer changes no later one."""
        llm = self.make()
        first = self.ask(llm, "chat")
        kept = copy.deepcopy(first)
        first.message.additional_kwargs["changed"] = True
        first.message.blocks.clear()
        second = self.ask(llm, "chat")
        self.expect_same("an answer that was changed, then the next", kept, second)
        clean = "changed" not in second.message.additional_kwargs and second.message.blocks
        expect(clean, f"the next answer is the changed one: {shown(second)}")

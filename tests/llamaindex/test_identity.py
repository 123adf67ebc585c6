"""Two different models are never the same request, also if they do not describe themselves."""

from __future__ import annotations

from typing import Any

import pytest
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.tools import FunctionTool
from pydantic import BaseModel

from agenttape_core import use_cassette
from agenttape_core.errors import CassetteMissError
from agenttape_llamaindex.requests import params_body


def test_another_llm_is_missed(tmp_path: Any) -> None:
    """An LLM without a model name gets its own answers, and not those of another one."""

    class InHouse(CustomLLM):
        """An LLM as companies write it, which does not say its model in its metadata."""

        deployment_alias: str = "a"
        calls: int = 0

        @property
        def metadata(self) -> LLMMetadata:
            return LLMMetadata()

        def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
            self.calls += 1
            return CompletionResponse(text=f"I am {self.deployment_alias}")

        def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
            raise NotImplementedError

    with use_cassette(tmp_path / "a.yaml", mode="all"):
        answers = [InHouse().complete("Who?").text, InHouse(calls=3).complete("You?").text]
    with use_cassette(tmp_path / "a.yaml"):
        assert [InHouse().complete("Who?").text, InHouse().complete("You?").text] == answers
    with (
        pytest.raises(CassetteMissError, match="deployment_alias differs"),
        use_cassette(tmp_path / "a.yaml", on_unused="ignore"),
    ):
        InHouse(deployment_alias="b").complete("Who?")


def test_another_embedding_is_missed(tmp_path: Any) -> None:
    """An embedding model without a name is told from others by its fields."""

    class InHouseEmbedding(BaseEmbedding):
        """An embedding model without a model name."""

        flavour: str = "a"

        def _get_text_embedding(self, text: str) -> list[float]:
            return [float(ord(self.flavour)), float(len(text))]

        def _get_query_embedding(self, query: str) -> list[float]:
            return self._get_text_embedding(query)

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_text_embedding(query)

    with use_cassette(tmp_path / "a.yaml", mode="all"):
        InHouseEmbedding().get_query_embedding("one")
    with (
        pytest.raises(CassetteMissError, match="flavour differs"),
        use_cassette(tmp_path / "a.yaml", on_unused="ignore"),
    ):
        InHouseEmbedding(flavour="b").get_query_embedding("one")


def test_a_tool_that_says_something_else_is_another_request() -> None:
    """The tools of a request are what the provider would receive now, also if their class has changed in place."""

    class Place(BaseModel):
        city: str

    def go(city: str) -> str:
        return city

    def asked() -> Any:
        return params_body({"tools": [FunctionTool.from_defaults(go, description=says, fn_schema=Place)]})["tools"]

    says = "one"
    first, again = asked(), asked()
    assert first == again
    says = "two"
    assert [tool["function"]["description"] for tool in (*first, *asked())] == ["one", "two"]
    Place.model_fields["city"].description = "Where"
    Place.model_rebuild(force=True)
    assert asked()[0]["function"]["parameters"]["properties"]["city"]["description"] == "Where"

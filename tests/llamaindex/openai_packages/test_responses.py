"""OpenAI's Responses API in LlamaIndex's class for it, which asks for objects by a method of the service's own."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

WHY = "LlamaIndex's OpenAI packages ask for an openai that this environment cannot have: run `make openai`"
openai_llms = pytest.importorskip("llama_index.llms.openai", reason=WHY)
base_client = pytest.importorskip("openai._base_client", reason=WHY)
httpx = getattr(base_client, "httpx2", None) or base_client.httpx

from llama_index.core.prompts import PromptTemplate  # noqa: E402

from agenttape_core import use_cassette  # noqa: E402

from .service import KEY, Weather  # noqa: E402


def answer(request: Any) -> Any:
    """Answer with an object, as the service does."""
    asked = json.loads(request.content)
    schema = asked["text"]["format"]["schema"]["properties"]
    text = json.dumps({name: 21 if field.get("type") == "integer" else "Oslo" for name, field in schema.items()})
    said = {"type": "output_text", "text": text, "annotations": []}
    message = {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [said]}
    whole = {"id": "resp_1", "object": "response", "created_at": 1, "model": asked["model"], "output": [message]}
    return httpx.Response(200, json={**whole, "parallel_tool_calls": True, "tool_choice": "none", "tools": []})


def test_objects_of_the_responses_api_are_replayed(tmp_path: Any) -> None:
    """Whole, by a structured LLM, and several at once: equal without the service, in their order."""

    async def program(llm: Any) -> list[Any]:
        prompt = PromptTemplate("The weather in {city}?")
        whole = [
            llm.structured_predict(Weather, prompt, city="Oslo"),
            llm.as_structured_llm(Weather).complete("Oslo?").raw,
        ]
        return [*whole, *await asyncio.gather(*(llm.astructured_predict(Weather, prompt, city=c) for c in "abc"))]

    def model(transport: Any) -> Any:
        clients = {"http_client": httpx.Client(transport=transport)}
        clients["async_http_client"] = httpx.AsyncClient(transport=transport)
        return openai_llms.OpenAIResponses(model="gpt-4o-mini", api_key=KEY, **clients)

    def refuse(request: Any) -> Any:
        raise AssertionError(request)

    with use_cassette(tmp_path / "c.yaml", mode="all") as recording:
        recorded = asyncio.run(program(model(httpx.MockTransport(answer))))
    assert len(recording.report.recorded) == 5
    with use_cassette(tmp_path / "c.yaml") as replay:
        assert asyncio.run(program(model(httpx.MockTransport(refuse)))) == recorded
    assert replay.report.nondeterminism == ()

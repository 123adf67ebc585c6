"""Real answers of OpenAI's API through the real `ChatOpenAI`, recorded in `../shared/data`; skipped without them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI
from openai import RateLimitError

from agenttape_langchain.codec import join_chunks, split_result

if TYPE_CHECKING:
    from agenttape_core.schema import ValueCodec

DATA = Path(__file__).parents[4] / "shared/data/openai"
Survives = Callable[[Any], Any]


def exchanges() -> list[Any]:
    """Each recorded exchange with a chat model, or one skipped test."""
    return [
        pytest.param(json.loads(line), id=f"{file.stem}-{number}")
        for file in sorted(DATA.glob("*.jsonl"))
        if "embeddings" not in file.name
        for number, line in enumerate(file.read_text().splitlines())
    ] or [pytest.param(None, marks=pytest.mark.skip(reason="../shared/data/openai is not there"))]


def answering(exchange: Any) -> ChatOpenAI:
    """The real model over a transport that gives the recorded answer."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        headers = {"content-type": exchange["content_type"]}
        return httpx2.Response(exchange["status"], headers=headers, content=exchange["body"].encode())

    return ChatOpenAI(
        model="gpt-5",
        api_key="x",
        max_retries=0,
        stream_usage=True,
        use_responses_api="responses" in exchange["path"],
        http_client=httpx2.Client(transport=httpx2.MockTransport(answer)),
    )


@pytest.mark.parametrize("exchange", exchanges())
def test_real_answers_survive(exchange: Any, survives: Survives) -> None:
    """Whatever ChatOpenAI makes of a real answer must come back the same, streamed or not."""
    model = answering(exchange)
    if "event-stream" not in exchange["content_type"]:
        result = model._generate([HumanMessage("x")])
        survives(result)
        joined = join_chunks(split_result(result)).generations[0].message
        assert joined == result.generations[0].message
        return
    chunks = list(model._stream([HumanMessage("x")]))
    before = copy.deepcopy(chunks)
    for chunk in chunks:
        survives(chunk)
    survives(join_chunks(chunks))
    assert chunks == before


def test_the_response_of_a_real_error_survives(values: ValueCodec) -> None:
    """The attributes of an SDK's error that retry middleware reads must survive the trip."""
    body = '{"error": {"message": "slow down", "code": "rate_limit"}}'
    exchange = {"path": "/v1/responses", "status": 429, "content_type": "application/json", "body": body}
    with pytest.raises(RateLimitError) as raised:
        answering(exchange).invoke("x")
    error = raised.value
    response, request = values.decode(values.encode([error.response, error.request]))
    replayed = RateLimitError("slow down", response=response, body=error.body)
    assert (replayed.status_code, replayed.request_id) == (429, error.request_id)
    assert replayed.response.json() == json.loads(body)
    assert request.url == error.request.url

"""Errors of OpenAI's client as plain data, and back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from langchain_openai import ChatOpenAI
from openai import RateLimitError

if TYPE_CHECKING:
    from agenttape_core.schema import ValueCodec


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

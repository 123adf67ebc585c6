"""Responses and requests of httpx and httpx2, and the errors of SDKs that are made of them, as plain data and back."""

from __future__ import annotations

import gzip
import sys
from typing import TYPE_CHECKING, Any

import httpx
import httpx2
import pytest
from langchain_openai import ChatOpenAI
from openai import RateLimitError

from agenttape_core.errors import UnreadableValueError

if TYPE_CHECKING:
    from agenttape_core.schema import ValueCodec

LIBRARIES = pytest.mark.parametrize("library", [httpx, httpx2], ids=lambda library: library.__name__)


def rate_limited(library: Any) -> Any:
    """A response as a provider sends it, of either library."""
    return library.Response(
        429,
        headers=[("X-Request-Id", "req_1"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("Retry-After", "2")],
        request=library.Request("POST", "https://api.example.com/v1/chat?x=1", headers={"Authorization": "Bearer k-1"}),
        json={"error": {"code": "slow_down"}},
    )


@LIBRARIES
def test_responses_answer_as_recorded(library: Any, values: ValueCodec) -> None:
    """Status, headers, body and URL are what the provider's error had; the request's headers, with the key, are not."""
    response = rate_limited(library)
    plain = values.encode(response)
    found = values.decode(plain)
    assert type(found) is type(response)
    assert (found.status_code, found.json(), found.text) == (429, response.json(), response.text)
    assert found.headers.raw == response.headers.raw
    assert found.headers.get_list("set-cookie") == ["a=1", "b=2"]
    assert (found.request.method, found.request.url) == ("POST", response.request.url)
    assert found.content == response.content
    with pytest.raises(library.HTTPStatusError):
        found.raise_for_status()
    assert "k-1" not in repr(plain)


@LIBRARIES
def test_bodies_of_every_sort(library: Any, values: ValueCodec) -> None:
    """A compressed body is kept decoded, a binary one byte for byte, and one that was never read stays unread."""
    plain = values.encode(
        library.Response(500, headers={"Content-Encoding": "gzip"}, content=gzip.compress(b'{"a": 1}'))
    )
    assert plain["$http_response"]["text"] == '{"a": 1}'
    found = values.decode(plain)
    assert (found.json(), found.headers["content-encoding"]) == ({"a": 1}, "gzip")
    assert values.decode(values.encode(library.Response(200, content=b"\xff\x00"))).content == b"\xff\x00"
    unread = values.decode(values.encode(library.Response(500, stream=library.ByteStream(b"never read"))))
    assert unread.status_code == 500
    with pytest.raises(library.ResponseNotRead):
        _ = unread.content


@LIBRARIES
def test_requests_survive(library: Any, values: ValueCodec) -> None:
    """A request that an error carries must come back with its method and URL."""
    request = library.Request("GET", "https://example.com/a?b=c")
    found = values.decode(values.encode(request))
    assert (type(found), found.method, found.url) == (type(request), "GET", request.url)


def test_the_other_library_takes_its_place(values: ValueCodec, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recording made with one library must be readable where only the other is loaded."""
    plain = values.encode(rate_limited(httpx))
    monkeypatch.delitem(sys.modules, "httpx")
    found = values.decode(plain)
    assert isinstance(found, httpx2.Response)
    assert found.json() == {"error": {"code": "slow_down"}}
    monkeypatch.delitem(sys.modules, "httpx2")
    with pytest.raises(UnreadableValueError, match="neither"):
        values.decode(plain)


def test_the_response_of_a_real_error_survives(values: ValueCodec) -> None:
    """The attributes of an SDK's error that retry middleware reads must survive the trip."""
    body = {"error": {"message": "slow down", "code": "rate_limit"}}
    transport = httpx2.MockTransport(lambda _: httpx2.Response(429, json=body))
    model = ChatOpenAI(model="gpt-5", api_key="x", max_retries=0, http_client=httpx2.Client(transport=transport))
    with pytest.raises(RateLimitError) as raised:
        model.invoke("x")
    error = raised.value
    response, request = values.decode(values.encode([error.response, error.request]))
    replayed = RateLimitError("slow down", response=response, body=error.body)
    assert (replayed.status_code, replayed.request_id) == (429, error.request_id)
    assert replayed.response.json() == body
    assert request.url == error.request.url

from __future__ import annotations

import gzip
import sys
from typing import TYPE_CHECKING, Any

import httpx
import httpx2
import pytest

from agenttape_core.errors import UnreadableValueError

if TYPE_CHECKING:
    from agenttape_core.schema import ValueCodec

LIBRARIES = pytest.mark.parametrize("library", [httpx, httpx2], ids=lambda library: library.__name__)


def rate_limited(library: Any, **more: Any) -> Any:
    """A response as a provider sends it, of either library."""
    request = library.Request("POST", "https://api.example.com/v1/chat?x=1", headers={"Authorization": "Bearer sk-1"})
    more = {"json": {"error": {"code": "slow_down"}}, **more}
    return library.Response(
        429,
        headers=[("X-Request-Id", "req_1"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("Retry-After", "2")],
        request=request,
        **more,
    )


@LIBRARIES
def test_responses_answer_as_recorded(library: Any, values: ValueCodec) -> None:
    """Status, headers, body and the request's URL must be what the provider's error carried."""
    response = rate_limited(library)
    found = values.decode(values.encode(response))
    assert type(found) is type(response)
    assert (found.status_code, found.json(), found.text) == (429, response.json(), response.text)
    assert found.headers.raw == response.headers.raw
    assert found.headers.get_list("set-cookie") == ["a=1", "b=2"]
    assert (found.request.method, found.request.url) == ("POST", response.request.url)
    assert found.content == response.content


@LIBRARIES
def test_openai_errors_can_be_made_of_them(library: Any, values: ValueCodec) -> None:
    """The parts of a response from which SDKs build their error must be there."""
    found = values.decode(values.encode(rate_limited(library)))
    assert found.headers.get("x-request-id") == "req_1"
    with pytest.raises(library.HTTPStatusError):
        found.raise_for_status()


@LIBRARIES
def test_no_credentials_are_written(library: Any, values: ValueCodec) -> None:
    """The request's headers hold the key: they must not be written."""
    assert "sk-1" not in repr(values.encode(rate_limited(library)))


@LIBRARIES
def test_compressed_bodies_are_kept_decoded(library: Any, values: ValueCodec) -> None:
    """A body that came compressed must be readable in the file, and not be decompressed twice."""
    response = library.Response(500, headers={"Content-Encoding": "gzip"}, content=gzip.compress(b'{"a": 1}'))
    plain = values.encode(response)
    assert plain["$http_response"]["text"] == '{"a": 1}'
    found = values.decode(plain)
    assert found.json() == {"a": 1}
    assert found.headers["content-encoding"] == "gzip"


@LIBRARIES
def test_binary_bodies_survive(library: Any, values: ValueCodec) -> None:
    """A body that is no text must come back byte for byte."""
    response = library.Response(200, content=b"\xff\x00")
    assert values.decode(values.encode(response)).content == b"\xff\x00"


@LIBRARIES
def test_an_unread_body_stays_unread(library: Any, values: ValueCodec) -> None:
    """Reading the body of a response that was never read must fail as it did."""
    response = library.Response(500, stream=library.ByteStream(b"never read"))
    found = values.decode(values.encode(response))
    assert found.status_code == 500
    with pytest.raises(library.ResponseNotRead):
        _ = found.content


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


@pytest.mark.parametrize(
    "plain",
    [
        {"$http_response": {}},
        {"$http_response": {"library": "os"}},
        {"$http_response": {"library": "httpx", "status_code": 200, "headers": [1]}},
        {"$http_response": {"library": "httpx", "headers": []}},
        {"$http_request": {"library": "httpx"}},
        {"$http_request": {"library": "httpx", "method": 1, "url": 2}},
        {"$http_request": {"library": "httpx", "method": "GET", "url": "http://[::"}},
    ],
    ids=repr,
)
def test_malformed_ones_are_refused(plain: Any, values: ValueCodec) -> None:
    """Responses that were edited into something impossible must be refused by our own error."""
    with pytest.raises(UnreadableValueError):
        values.decode(plain)

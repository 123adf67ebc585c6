"""The HTTP request and response that provider SDKs attach to their exceptions, of httpx and of httpx2.

Retry policies, middleware and frameworks read `error.response.status_code`, `.headers` and `.json()`. Only the
provider's answer is kept, and the method and URL of the request: its headers hold the key, and its body is the
interaction's own request. Neither library is imported. If the recorded one is not loaded the other takes its place,
since an SDK that moved from one to the other is still read in the same way.
"""

from __future__ import annotations

import sys
from typing import Any

from agenttape_core.errors import UnreadableValueError
from agenttape_core.schema import Plain, TypeCodec
from agenttape_core.schema.codecs.fields import Nested
from agenttape_core.schema.plain import expect_dict

_LIBRARIES = ("httpx", "httpx2")


def _library_of(value: Any, name: str) -> str | None:
    for library in _LIBRARIES:
        cls = getattr(sys.modules.get(library), name, None)
        if cls is not None and isinstance(value, cls):
            return library
    return None


def _library(body: dict[str, Plain], tag: str) -> Any:
    recorded = body.get("library")
    if recorded not in _LIBRARIES:
        raise UnreadableValueError(tag, f"expected a library of {', '.join(_LIBRARIES)}, found {recorded!r}")
    for name in (recorded, *_LIBRARIES):
        if name in sys.modules:
            return sys.modules[name]
    raise UnreadableValueError(tag, f"neither {' nor '.join(_LIBRARIES)} is loaded; import the one that the SDK uses")


def _write_request(request: Any, nested: Nested) -> Plain:
    library = _library_of(request, "Request")
    return {"library": library, "method": nested(request.method), "url": nested(str(request.url))}


def _read_request(plain: Plain, nested: Nested) -> Any:
    body = expect_dict(plain, "$http_request")
    library = _library(body, "$http_request")
    try:
        return library.Request(nested(body["method"]), nested(body["url"]))
    except (KeyError, TypeError, ValueError, AttributeError, library.InvalidURL) as error:
        raise UnreadableValueError("$http_request", f"expected a method and a URL ({error!r})") from None


def _write_response(response: Any, nested: Nested) -> Plain:
    library = _library_of(response, "Response")
    body = {
        "library": library,
        "status_code": response.status_code,
        "headers": [[name.decode("latin-1"), value.decode("latin-1")] for name, value in response.headers.raw],
        **_write_content(response, library, nested),
    }
    try:
        return {**body, "request": nested(response.request)}
    except RuntimeError:  # it has none
        return body


def _write_content(response: Any, library: str | None, nested: Nested) -> dict[str, Plain]:
    try:
        content = response.content
    except sys.modules[library or ""].ResponseNotRead:
        return {}
    try:
        # As text where it can be: a secret inside of base64 would be seen by no redaction rule.
        return {"text": nested(content.decode())}
    except UnicodeDecodeError:
        return {"content": nested(content)}


def _read_response(plain: Plain, nested: Nested) -> Any:
    body = expect_dict(plain, "$http_response")
    library = _library(body, "$http_response")
    try:
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in body["headers"]]
        request = nested(body["request"]) if "request" in body else None
        if not {"text", "content"} & body.keys():
            unread = library.ByteStream(b"")
            return library.Response(body["status_code"], headers=headers, stream=unread, request=request)
        content = nested(body["text"]).encode() if "text" in body else nested(body["content"])
        response = library.Response(body["status_code"], content=content, request=request)
        # Only now: the content is already decoded, and a content-encoding header would have it decoded again.
        response.headers = library.Headers(headers)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UnreadableValueError("$http_response", f"it is malformed ({error!r})") from None
    return response


HTTP: tuple[TypeCodec, ...] = (
    TypeCodec("$http_request", lambda value: _library_of(value, "Request") is not None, _write_request, _read_request),
    TypeCodec(
        "$http_response", lambda value: _library_of(value, "Response") is not None, _write_response, _read_response
    ),
)
"""The requests and responses that provider SDKs attach to their exceptions, of both libraries."""

"""HTTP requests as plain data; the recipe is on the page about HTTP.

Headers about the client (credentials, cookies, user agent) and headers that differ from call to call (lengths, dates,
traces, idempotency keys) take no part: only two headers do, and those that the user names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any
from urllib.parse import parse_qsl, unquote

from agenttape_core.errors import ConfigurationError
from agenttape_core.schema import Plain
from agenttape_core.transports.bodies import charset_of, whole
from agenttape_core.transports.multipart import parts_of, without_boundary

ASKED_HEADERS = ("accept", "content-type")
"""The headers that always take part."""
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_JSON = re.compile(r"application/json\b|[^;]*\+json\b", re.IGNORECASE)
_FORM = "application/x-www-form-urlencoded"
_MULTIPART = "multipart/"
_MESSAGES = "messages"
_ERRORS = "surrogateescape"


def header_names(named: Collection[str]) -> tuple[str, ...]:
    """Return the names of all headers that take part, in lower case.

    Args:
        named: Those that the user adds.

    Raises:
        ConfigurationError: If they are no collection of names (RFC 9110 §5.1).
    """
    names = [] if isinstance(named, str) else list(named)
    if isinstance(named, str) or not all(isinstance(name, str) and _TOKEN.fullmatch(name) for name in names):
        raise ConfigurationError(f'headers={named!r}: expected names of headers, such as headers=("x-tenant",)')
    return tuple(dict.fromkeys([*ASKED_HEADERS, *(name.lower() for name in names)]))


def question_of(request: Any, names: tuple[str, ...], content: bytes) -> dict[str, Plain]:
    """Return a request as plain data.

    Args:
        request: A request of `httpx` or `httpx2`.
        names: The headers that take part.
        content: Its body, read whole and not compressed.
    """
    content_type = request.headers.get("content-type", "")
    headers = {name: request.headers[name] for name in names if name in request.headers}
    if content_type.lower().startswith(_MULTIPART):
        headers["content-type"] = without_boundary(content_type)
    asked = {"method": request.method, "url": _url(request.url), "headers": headers}
    return asked | _body(content_type, content) if content else asked


def _url(url: Any) -> dict[str, Plain]:
    raw_path, _, query = url.raw_path.decode("ascii").partition("?")
    parts: dict[str, Plain] = {"scheme": url.scheme, "host": url.host}
    if url.port is not None:
        parts["port"] = url.port
    parts["path"] = "/".join(map(_segment, raw_path.split("/")))
    if query:
        parts["query"] = _pairs(query)
    return parts


def _segment(raw: str) -> str:
    """Return a segment of a path in readable form, with an escaped slash still apart from a real one."""
    return unquote(raw, errors=_ERRORS).replace("%", "%25").replace("/", "%2F")


def _pairs(encoded: str, charset: str = "utf-8") -> list[Plain]:
    """Return pairs in their order, each as a dict: the redactor goes by its name, and `ignore=` can name it."""
    return [
        {name: value} for name, value in parse_qsl(encoded, keep_blank_values=True, encoding=charset, errors=_ERRORS)
    ]


def _body(content_type: str, content: bytes) -> dict[str, Plain]:
    if _JSON.match(content_type):
        return _json(content_type, content)
    if content_type.lower().startswith(_FORM):
        charset = charset_of(content_type)
        return {"body": _pairs(content.decode(charset, _ERRORS), charset)}
    if content_type.lower().startswith(_MULTIPART):
        parts = parts_of(content_type, content)
        return {"body": whole(content_type, content) if parts is None else parts}
    return {"body": whole(content_type, content)}


def _json(content_type: str, content: bytes) -> dict[str, Plain]:
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        body = None
    if isinstance(body, dict) and isinstance(body.get(_MESSAGES), list):
        # Apart, as those of a chat model are: so a history that grows is stored as what is new.
        return {_MESSAGES: body.pop(_MESSAGES), "body": body}
    # A mere string or number stays in its quotes, so that it is never taken for text that is not JSON.
    return {"body": body if isinstance(body, dict | list) else whole(content_type, content)}

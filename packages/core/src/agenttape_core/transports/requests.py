"""HTTP requests as plain data; the recipe is on the page about HTTP.

Headers about the client (credentials, cookies, user agent) and headers that differ from call to call (lengths, dates,
traces, idempotency keys) take no part: only two headers do, and those that the user names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Self
from urllib.parse import parse_qsl, unquote, urlsplit

from agenttape_core.errors import ConfigurationError
from agenttape_core.schema import Plain
from agenttape_core.transports.bodies import charset_of, whole

ASKED_HEADERS = ("accept", "content-type")  # the headers that always take part
_PORTS = {"http": 80, "https": 443}
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_JSON = re.compile(r"application/json\b|[^;]*\+json\b", re.IGNORECASE)
_FORM = "application/x-www-form-urlencoded"
_MULTIPART = "multipart/"
_MESSAGES = "messages"
_ERRORS = "surrogateescape"


def header_names(named: Collection[str]) -> tuple[str, ...]:
    """Return the names of all headers that take part, in lower case.

    `named` are those that the user adds. Raises `ConfigurationError` if they aren't a collection of names (RFC 9110
    §5.1).
    """
    names = [] if isinstance(named, str) else list(named)
    if isinstance(named, str) or not all(isinstance(name, str) and _TOKEN.fullmatch(name) for name in names):
        raise ConfigurationError(f'headers={named!r}: expected names of headers, such as headers=("x-tenant",)')
    return tuple(dict.fromkeys([*ASKED_HEADERS, *(name.lower() for name in names)]))


@dataclass(frozen=True, slots=True)
class Destination:
    """The destination that a request is sent to."""

    scheme: str  # `http` or `https`
    host: str  # the host, without brackets, and with the letters that people read
    port: int | None  # the port; `None` for the scheme's own
    target: str  # the path and the query, as sent

    @classmethod
    def of(cls, scheme: str, host: str, port: int | None, target: str) -> Self:
        """Return the destination that a client names; a target for a proxy is a whole URL, which then counts."""
        if target.lower().startswith(("http://", "https://")):
            url = urlsplit(target)
            scheme, host, port = url.scheme, url.hostname or host, url.port
            target = url.path + (f"?{url.query}" if url.query else "")
        return cls(scheme, _readable(host), None if port == _PORTS.get(scheme) else port, target or "/")

    @property
    def real_port(self) -> int | None:
        """The port that is connected to; `None` for a scheme that we do not know."""
        return self.port or _PORTS.get(self.scheme)


def _readable(host: str) -> str:
    host = host.strip("[]").lower()
    if "xn--" not in host:
        return host
    try:
        return host.encode("ascii").decode("idna")
    except UnicodeError:
        return host


@dataclass(frozen=True, slots=True)
class Request:
    """A request, whichever client sends it."""

    method: str
    destination: Destination  # where it is sent
    headers: Mapping[str, str]  # the headers by their names in lower case, as `joined` returns them
    content: bytes  # the body, read whole and not compressed

    def question(self, names: tuple[str, ...] = ASKED_HEADERS) -> dict[str, Plain]:
        """Return the request as plain data."""
        content_type = self.headers.get("content-type", "")
        headers = {name: self.headers[name] for name in names if name in self.headers}
        if content_type.lower().startswith(_MULTIPART):
            headers["content-type"] = _without_boundary(content_type)
        asked = {"method": self.method, "url": _url(self.destination), "headers": headers}
        return asked | _body(content_type, self.content) if self.content else asked


def joined(headers: Iterable[tuple[str | bytes, str | bytes]]) -> dict[str, str]:
    """Return headers by their names in lower case; one that is sent several times has its values side by side."""
    found: dict[str, str] = {}
    for name, value in headers:
        key = _native(name).lower()
        found[key] = f"{found[key]}, {_native(value)}" if key in found else _native(value)
    return found


def _native(text: str | bytes) -> str:
    return text.decode("latin-1") if isinstance(text, bytes) else str(text)


def _url(destination: Destination) -> dict[str, Plain]:
    raw_path, _, query = destination.target.partition("?")
    parts: dict[str, Plain] = {"scheme": destination.scheme, "host": destination.host}
    if destination.port is not None:
        parts["port"] = destination.port
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


# Multipart bodies (RFC 2046 §5.1, RFC 7578) as data, without the boundary, which is new in each request.

_BOUNDARY = re.compile(r';\s*boundary\s*=\s*(?:"([^"]+)"|([^\s;]+))', re.IGNORECASE)
_END = re.compile(rb"--[ \t]*(?:\r\n|\Z)")
_DISPOSITION = "content-disposition"
_FIELD = re.compile(r'form-data; name="([^"]*)"(?:; filename="([^"]*)")?')
"""The disposition of a field in its usual form, whose other parts aren't worth keeping."""
_NAME = re.compile(r';\s*name\s*=\s*(?:"([^"]*)"|([^\s;]+))', re.IGNORECASE)


def _without_boundary(content_type: str) -> str:
    """Return a content type without its boundary."""
    return _BOUNDARY.sub("", content_type)


def parts_of(content_type: str, data: bytes) -> list[Plain] | None:
    """Return the parts of a multipart body, or `None` if it is none."""
    boundary = _BOUNDARY.search(content_type)
    if boundary is None:
        return None
    delimiter = rb"\r\n--%b(?=(?:--)?[ \t]*(?:\r\n|\Z))" % re.escape((boundary[1] or boundary[2]).encode())
    _, *sections = re.split(delimiter, b"\r\n" + data)
    if not sections or not _END.match(sections.pop()) or not all(b"\r\n\r\n" in section for section in sections):
        return None
    return [_part(section) for section in sections]


def _part(section: bytes) -> Plain:
    """Return a part with its name beside its value, so that the redactor can go by the name."""
    head, _, data = section.partition(b"\r\n\r\n")
    lines = [line.partition(":") for line in _text(head).split("\r\n")[1:]]
    headers = {name.strip().lower(): value.strip() for name, _, value in lines}
    disposition = headers.get(_DISPOSITION, "")
    if field := _FIELD.fullmatch(disposition):
        del headers[_DISPOSITION]
        name, filename = field.groups()
    else:
        found = _NAME.search(disposition)
        name, filename = (found[1] or found[2]) if found else None, None
    part = {"name": name, "filename": filename, "headers": headers}
    return {key: value for key, value in part.items() if value} | {
        "value": whole(headers.get("content-type", ""), data)
    }


def _text(head: bytes) -> str:
    """Return the headers of a part: UTF-8 as browsers and clients write them, or one character per byte."""
    try:
        return head.decode()
    except UnicodeDecodeError:
        return head.decode("latin-1")

"""Exchanges over HTTP as other tools have recorded them: one request and one response each, decoded."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from agenttape_core.locks import cached_property

MAX_BODY_BYTES = 64 * 1024 * 1024  # size of a body in bytes, after decompression

_WIRE_HEADERS = frozenset({"content-encoding", "content-length", "transfer-encoding", "connection"})
"""Headers that are no longer true of a decoded body."""

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Exchange:
    """A request and its response.

    Args:
        place: Its place in the source.
        method: The method.
        url: The whole URL.
        request_headers: The headers of the request; the names in lower case.
        request_body: The body of the request, decoded.
        status: The status code of the response.
        headers: The headers of the response; the names in lower case.
        body: The body of the response, decoded.
        duration_ms: Its duration in milliseconds, if the source has it.
        doubt: Changes that the source made to it, if they show.

    Raises:
        ValueError: If the URL is malformed.
    """

    place: str
    method: str
    url: str
    request_headers: Headers
    request_body: bytes
    status: int
    headers: Headers
    body: bytes
    duration_ms: float = 0.0
    doubt: str = ""

    def __post_init__(self) -> None:
        try:
            urlsplit(self.url).port  # noqa: B018 - which raises, too
        except ValueError as error:
            raise ValueError(f"its URL is malformed: {error}") from None

    @property
    def what(self) -> str:
        """The request in one line, without the query of its URL."""
        parts = urlsplit(self.url)
        return f"{self.method} {parts.scheme}://{parts.hostname or ''}{parts.path}"

    @property
    def path(self) -> str:
        """The path of the URL, without a slash at its end."""
        return urlsplit(self.url).path.rstrip("/")

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        parts = urlsplit(self.url)
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{parts.hostname or ''}{port}"

    @cached_property
    def query(self) -> dict[str, str]:
        """The query of the URL; the last value of each name."""
        return {name: values[-1] for name, values in parse_qs(urlsplit(self.url).query).items()}

    @cached_property
    def json(self) -> dict[str, Any] | None:
        """The body of the request as a JSON object, if it is one."""
        return _json_object(self.request_body)

    @cached_property
    def answer(self) -> dict[str, Any] | None:
        """The body of the response as a JSON object, if it is one."""
        return _json_object(self.body)

    @property
    def retries(self) -> int:
        """The number of tries before it, as the SDKs made by Stainless (OpenAI, Anthropic) send it."""
        count = dict(self.request_headers).get("x-stainless-retry-count", "0")
        return int(count) if count.isdecimal() else 0


def _json_object(body: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def decoded(body: bytes, headers: Mapping[str, str]) -> bytes:
    """Return a body without its content encoding (RFC 9110 §8.4), if it still has one.

    Recorders often keep the header of a body that they have decoded, so the bytes decide. Raises `ValueError` if its
    encoding is unknown here, it is broken, or it is larger than `MAX_BODY_BYTES`.
    """
    encoding = headers.get("content-encoding", "").lower().strip()
    try:
        if body.startswith(b"\x1f\x8b"):
            body = _bounded(zlib.decompressobj(zlib.MAX_WBITS | 16), body)
        elif encoding == "deflate" and not _is_text(body):
            body = _bounded(zlib.decompressobj(), body)
    except zlib.error as error:
        raise ValueError(f"its body is compressed ({encoding or 'gzip'}) and broken: {error}") from None
    if encoding in {"br", "zstd"} and not _is_text(body):
        raise ValueError(f"its body is compressed as {encoding}, which cannot be decoded here")
    if len(body) > MAX_BODY_BYTES:
        raise ValueError(f"its body is larger than the limit of {MAX_BODY_BYTES} bytes")
    return body


def _bounded(decompressor: Any, body: bytes) -> bytes:
    data: bytes = decompressor.decompress(body, MAX_BODY_BYTES + 1)
    return data


def _is_text(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def response_headers(headers: Headers, body: bytes) -> Headers:
    """Return the headers that are true of a decoded body; its type is guessed if it was filtered away."""
    kept = tuple((name, value) for name, value in headers if name not in _WIRE_HEADERS)
    if any(name == "content-type" and "/" in value for name, value in kept):
        return kept
    kind = "application/json" if body.lstrip()[:1] in {b"{", b"["} else "text/event-stream"
    return (*((name, value) for name, value in kept if name != "content-type"), ("content-type", kind))

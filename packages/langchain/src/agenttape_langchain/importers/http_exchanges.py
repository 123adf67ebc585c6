"""An exchange over HTTP as other tools have recorded it: one request, one response, decoded."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import parse_qs, urlsplit

MAX_BODY_BYTES = 64 * 1024 * 1024
"""Size of a body in bytes, after decompression."""

_WIRE_HEADERS = frozenset({"content-encoding", "content-length", "transfer-encoding", "connection"})
"""What is no longer true of a body that was decoded."""

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Exchange:
    """A request and its response.

    Args:
        place: Where it stands in the source.
        method: The method.
        url: The URL, whole.
        request_headers: Of the request; the names in lower case.
        request_body: Its body, decoded.
        status: The status code of the response.
        headers: Of the response; the names in lower case.
        body: Its body, decoded.
        duration_ms: How long it took, if the source says.
        doubt: What the source has changed of it, if that is seen.

    Raises:
        ValueError: If the URL is none.
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
            raise ValueError(f"its URL is none: {error}") from None

    @property
    def what(self) -> str:
        """The request in one line, without what the query of its URL says."""
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
        """The query of the URL; of equal names the last."""
        return {name: values[-1] for name, values in parse_qs(urlsplit(self.url).query).items()}

    @cached_property
    def json(self) -> dict[str, Any] | None:
        """The request's body as a JSON object, if it is one."""
        return _json_object(self.request_body)

    @cached_property
    def answer(self) -> dict[str, Any] | None:
        """The response's body as a JSON object, if it is one."""
        return _json_object(self.body)

    @property
    def retries(self) -> int:
        """How often the client itself had tried before, as the SDKs made by Stainless (OpenAI, Anthropic) say."""
        count = dict(self.request_headers).get("x-stainless-retry-count", "0")
        return int(count) if count.isdecimal() else 0


def _json_object(body: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def decoded(body: bytes, headers: Mapping[str, str]) -> bytes:
    """Return a body without its content encoding (RFC 9110 §8.4), where it still has one.

    Recorders often keep the header of a body that they have decoded; so the bytes decide.

    Raises:
        ValueError: It has an encoding that is not known here, is broken, or is larger than `MAX_BODY_BYTES`.
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
        raise ValueError(f"its body is compressed as {encoding}, which cannot be undone here")
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
    """Return the headers that are true of a decoded body, with its type where that was filtered away."""
    kept = tuple((name, value) for name, value in headers if name not in _WIRE_HEADERS)
    if any(name == "content-type" and "/" in value for name, value in kept):
        return kept
    kind = "application/json" if body.lstrip()[:1] in {b"{", b"["} else "text/event-stream"
    return (*((name, value) for name, value in kept if name != "content-type"), ("content-type", kind))

"""The classes of an HTTP client that a transport for it needs, so that the shared code depends on no client."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_PROBE = bytes(8)  # a body without a content encoding


@dataclass(frozen=True, slots=True)
class Client:
    """A client's own classes."""

    response: Callable[..., Any]
    stream: Callable[..., Any]  # its stream of a response, made of a body
    decoding_error: type[Exception]  # its error for a body that is not encoded as its headers say
    transport: Callable[[], Any]  # its transport that really sends

    def decompressed(self, encoding: str, data: bytes) -> bytes:
        """Return a whole body without its content encoding (RFC 9110 §8.4), as the client decompresses responses.

        `encoding` is the header; a body without it is returned unchanged.
        """
        try:
            return self._content(encoding, data) if encoding else data
        except self.decoding_error:
            return data

    def decompresses(self, encoding: str) -> bool:
        """Return whether the client undoes a content encoding, which depends on the installed packages."""
        try:
            return self._content(encoding, _PROBE) != _PROBE
        except self.decoding_error:
            return True

    def _content(self, encoding: str, data: bytes) -> bytes:
        content: bytes = self.response(200, headers={"content-encoding": encoding}, content=data).content
        return content


def client_missing(name: str, error: ImportError) -> ImportError:
    """Return the error for a transport whose client is not installed, with the name of the missing module."""
    return ImportError(
        f"agenttape_core.transports.{name} needs {name}, which cannot be imported: {error}\n"
        f'  pip install "agenttape-core[{name}]"',
        name=error.name,
    )

"""Methods of HTTP clients, replaced while a session records requests; mocks of other libraries keep their place."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from agenttape_core.guard.patching import Wrappers


def is_genuine(cls: type, name: str) -> bool:
    """Return whether a method is the library's own, or wraps that, as tracers do; a mock is neither."""
    place = next((each for each in cls.__mro__ if name in vars(each)), None)
    if place is None:
        return False
    method = inspect.unwrap(vars(place)[name])
    return _library(getattr(method, "__module__", None)) == _library(place.__module__)


def _library(module: Any) -> str:
    return str(module).partition(".")[0]


@contextmanager
def replacing(cls: type, name: str, around: Callable[[Any], Any]) -> Iterator[None]:
    """Replace a method while inside, unless it is another one's mock already.

    `cls` is the class in which it is written; `around` returns the method that takes the place of a real one.
    """
    if not is_genuine(cls, name):
        yield
        return
    wrappers = Wrappers()
    wrappers.patch(cls, name, lambda real: functools.wraps(real)(around(real)))
    with wrappers:
        yield


# -- The classes of an HTTP client that a transport for it needs, so that the shared code depends on no client.

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

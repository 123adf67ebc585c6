"""The four faces of the transports, each client sync and async, spoken to in one way."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

CLIENTS = ("httpx", "httpx2")
WAYS = ("read", "raw", "bytes", "text", "lines")
"""How a body is read: whole, or by one of the `iter_...` methods."""


async def settled(value: Any) -> Any:
    """Await a value if that is what it is for."""
    return await value if inspect.isawaitable(value) else value


class Face(NamedTuple):
    """A client's transport and what goes with it.

    Args:
        name: The module of the client.
        is_async: Whether it is the async one.
    """

    name: str
    is_async: bool

    @property
    def module(self) -> ModuleType:
        """The client."""
        return import_module(self.name)

    @property
    def tape(self) -> type[Any]:
        """The transport that is tested."""
        taping = import_module(f"agenttape_core.transports.{self.name}")
        return taping.AsyncTapeTransport if self.is_async else taping.TapeTransport

    def real(self) -> Any:
        """Return the client's own transport; without certificates, which take long to load."""
        return (self.module.AsyncHTTPTransport if self.is_async else self.module.HTTPTransport)(verify=False)

    def no_network(self) -> Any:
        """Return a transport that must not be asked."""

        def refuse(request: Any) -> Any:
            raise AssertionError(f"the inner transport was asked for {request.url}")

        return self.module.MockTransport(refuse)

    @asynccontextmanager
    async def untaped(self, transport: Any, **options: Any) -> AsyncIterator[Any]:
        """Open a client with a transport."""
        if self.is_async:
            async with self.module.AsyncClient(transport=transport, **options) as client:
                yield client
        else:
            with self.module.Client(transport=transport, **options) as client:
                yield client

    @asynccontextmanager
    async def client(self, inner: Any = None, *, headers: Collection[str] = (), **options: Any) -> AsyncIterator[Any]:
        """Open a taped client."""
        async with self.untaped(self.tape(inner or self.real(), headers=headers), **options) as client:
            yield client

    @asynccontextmanager
    async def stream(self, client: Any, method: str, url: str, **options: Any) -> AsyncIterator[Any]:
        """Open a response that is not read yet."""
        if self.is_async:
            async with client.stream(method, url, **options) as response:
                yield response
        else:
            with client.stream(method, url, **options) as response:
                yield response

    def pieces(self, response: Any, way: str) -> AsyncIterator[Any]:
        """Iterate over a body by one of the ways but `read`."""
        return self._async_pieces(response, way) if self.is_async else _as_async(getattr(response, f"iter_{way}")())

    async def _async_pieces(self, response: Any, way: str) -> AsyncIterator[Any]:
        async for piece in getattr(response, f"aiter_{way}")():
            yield piece

    async def read(self, response: Any, way: str) -> Any:
        """Read a body to its end."""
        if way == "read":
            return await settled(response.aread() if self.is_async else response.read())
        return [piece async for piece in self.pieces(response, way)]

    async def close(self, response: Any) -> None:
        """Close a response."""
        await settled(response.aclose() if self.is_async else response.close())

    def upload(self, pieces: Iterable[bytes]) -> Any:
        """Return content that can be read once only."""
        return _as_async(pieces) if self.is_async else iter(list(pieces))


FACES = [Face(name, is_async) for name in CLIENTS for is_async in (False, True)]


def face_id(face: Face) -> str:
    """Return how a face is called in the list of tests."""
    return f"{face.name}-{'async' if face.is_async else 'sync'}"


async def _as_async(pieces: Iterable[Any]) -> AsyncIterator[Any]:
    for piece in pieces:
        yield piece

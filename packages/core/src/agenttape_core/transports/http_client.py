"""Requests of `http.client`, where a program uses that itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection, HTTPSConnection  # the package may not have its attribute `client` yet
from typing import Any
from weakref import WeakKeyDictionary

from agenttape_core.transports.exchanges import automatic_session, resized
from agenttape_core.transports.patching import replacing
from agenttape_core.transports.requests import Destination, joined
from agenttape_core.transports.wire import content_of, exchanged, request_of

Answers = WeakKeyDictionary[Any, Any]
"""The responses to requests that were made, by the connections that will ask for them."""


@contextmanager
def automatic() -> Iterator[None]:
    """Tape the connections of `http.client` while inside, where a program sends whole requests by them.

    Core enters it with the first session that records HTTP. An error of the response is raised by the request.
    """
    answers: Answers = WeakKeyDictionary()
    with ExitStack() as stack:
        for name, around in (("request", _requesting), ("getresponse", _responding)):
            stack.enter_context(replacing(HTTPConnection, name, around(answers)))
        yield


def _requesting(answers: Answers) -> Callable[[Any], Any]:
    def around(real: Any) -> Any:
        def request(
            connection: Any, method: str, url: str, body: Any = None, headers: Any = None, **options: Any
        ) -> None:
            answers.pop(connection, None)
            headers = headers or {}
            destination, fields = _destination(connection, url), joined(headers.items())
            session = automatic_session(destination, fields)
            if session is None:
                real(connection, method, url, body, headers, **options)
                return
            content = content_of(body)

            def send(instead: bytes | None) -> Any:
                if instead is None:
                    real(connection, method, url, content, headers, **options)
                else:
                    real(connection, method, url, instead, dict(resized(headers.items())), **options)
                return connection.getresponse()

            answers[connection] = exchanged(session, request_of(method, destination, fields, content), send)

        return request

    return around


def _responding(answers: Answers) -> Callable[[Any], Any]:
    def around(real: Any) -> Any:
        def getresponse(connection: Any, *args: Any, **options: Any) -> Any:
            answer = answers.pop(connection, None)
            return real(connection, *args, **options) if answer is None else answer

        return getresponse

    return around


def _destination(connection: Any, url: str) -> Destination:
    host, port = connection.host, connection.port
    if getattr(connection, "_tunnel_host", None):
        host, port = connection._tunnel_host, connection._tunnel_port  # noqa: SLF001 - kept nowhere else
    return Destination.of("https" if isinstance(connection, HTTPSConnection) else "http", host, port, url)

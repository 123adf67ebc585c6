"""An HTTP request and its answer, as they pass an ASGI application, and as a cassette has them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from agenttape_core.errors import ConfigurationError, UnreadableValueError, shown_path
from agenttape_core.lifecycle.restarting import REQUEST
from agenttape_core.schema import Plain
from agenttape_core.session import plain_value, value_codec
from agenttape_core.storage import Cassette

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

KIND = "request"  # the kind of the step that a request is
_LARGE = 1024 * 1024  # bytes of an answer that are kept to be compared; a longer one is not kept


@dataclass(slots=True)
class Exchange:
    """A request and its answer, while they pass."""

    method: str  # `POST`, for example
    path: str
    query: str  # the query, exactly as sent
    headers: dict[str, str]  # the headers that are kept, in lower case
    body: bytearray | bytes = field(default_factory=bytearray)  # the body that the application has read so far
    status: int | None = None  # the status of the answer; `None` before it begins
    answer: str | None = None  # the body of the answer; `None` if it was too long to be kept
    # The number of calls that had ended when the application saw that its client was gone before the end of the
    # answer; `None` if it stayed.
    left: int | None = None
    has_ended: bool = False  # whether the answer has ended

    def to_plain(self) -> Plain:
        """Return the request as plain data, for the header of a cassette."""
        kept: dict[str, Plain] = {"method": self.method, "path": self.path, "query": self.query}
        kept |= {"headers": dict(self.headers), **({"left": self.left} if self.left is not None else {})}
        return {REQUEST: {**kept, "body": plain_value(_readable(bytes(self.body)))}}

    @classmethod
    def of_plain(cls, given: Any, cassette: Cassette) -> Exchange:
        """Return a recorded request with its recorded answer. Raises `ConfigurationError` for other records."""
        try:
            request = dict(given[REQUEST])
            body = value_codec().decode(request.pop("body"))
            exchange = cls(**request, body=body.encode() if isinstance(body, str) else bytes(body))
        except (KeyError, TypeError, ValueError, UnreadableValueError) as error:
            raise ConfigurationError(
                f"{shown_path(cassette.path)}: its input is not that of a request: {error}"
            ) from None
        output = next((step.output for step in cassette.steps() if step.kind == KIND), None)
        if isinstance(output, dict):
            exchange.status, exchange.answer = output.get("status"), output.get("body")
        return exchange


def reading(receive: Receive, exchange: Exchange, calls: Callable[[], int]) -> Receive:
    """Return a `receive` that keeps the body it reads; `calls` returns how many calls have ended."""

    async def receiving() -> Message:
        message = await receive()
        if message["type"] == "http.request":
            exchange.body += message.get("body", b"")
        elif message["type"] == "http.disconnect" and not exchange.has_ended and exchange.left is None:
            exchange.left = calls()
        return message

    return receiving


def writing(send: Send, exchange: Exchange) -> Send:
    """Return what sends for an application, and keeps the answer."""
    answer = bytearray()

    async def sending(message: Message) -> None:
        if exchange.left is not None:
            pass  # nobody has this
        elif message["type"] == "http.response.start":
            exchange.status = message["status"]
        elif message["type"] == "http.response.body" and len(answer) <= _LARGE:
            answer.extend(message.get("body", b""))
            exchange.answer = answer.decode(errors="replace") if len(answer) <= _LARGE else None
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            exchange.has_ended = True
        await send(message)

    return sending


def _readable(body: bytes) -> str | bytes:
    """Return a body as text where it can be: a secret inside of base64 would be seen by no redaction rule."""
    try:
        return body.decode()
    except UnicodeDecodeError:
        return body

"""Requests of `urllib3`, and so of `requests`, of `botocore` and of all others that send through its pools."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

from agenttape_core.schema import Plain
from agenttape_core.transports.exchanges import (
    Exchange,
    automatic_session,
    chunks_of,
    exchange,
    resized,
    session_call_of,
)
from agenttape_core.transports.patching import client_missing, replacing
from agenttape_core.transports.requests import Destination, joined
from agenttape_core.transports.wire import content_of, head_of, request_of, response_of

try:
    import urllib3
except ImportError as error:
    raise client_missing("urllib3", error) from error

_PIECE = 65536


def automatic() -> AbstractContextManager[None]:
    """Tape all pools of `urllib3` while inside; core enters it with the first session that records HTTP.

    Pools retry below this; redirects, cookies, authentication and the errors of `requests` are made above.
    """
    return replacing(urllib3.HTTPConnectionPool, "urlopen", _taping)


def _taping(real: Any) -> Any:
    signature = inspect.signature(real)

    def urlopen(pool: Any, method: str, url: str, *args: Any, **kwargs: Any) -> Any:
        call = signature.bind(pool, method, url, *args, **kwargs)
        destination = Destination.of(pool.scheme, pool.host, pool.port, url)
        headers = call.arguments.get("headers")
        fields = joined((pool.headers if headers is None else headers).items())
        session = automatic_session(destination, fields)
        if session is None:
            return real(pool, method, url, *args, **kwargs)
        options = dict(call.arguments)
        del options["self"]
        options.update(options.pop("response_kw", {}))
        options["body"] = content_of(options.get("body"))
        asked = request_of(method, destination, fields, options["body"])
        session_call = session_call_of(session, asked)
        return _response(
            pool, options, exchange(session, asked, session_call, lambda body: _chunks(real, pool, options, body))
        )

    return urlopen


def _chunks(real: Any, pool: Any, options: dict[str, Any], body: bytes | None) -> Iterator[Plain]:
    """Send a request, and yield the chunks of its response; the body is recorded as the client decompresses it.

    A body that is read right away is read by the pool itself: it sends the request again if that fails.
    """
    if body is not None:
        own = options.get("headers")
        headers = dict(resized((pool.headers if own is None else own).items()))
        options = {**options, "body": body, "headers": headers}
    is_preloaded = options.get("preload_content", True)
    decodes = not is_preloaded or options.get("decode_content", True)
    response = real(pool, **{**options, "preload_content": is_preloaded})
    try:
        head = head_of(response, response.headers.iteritems())
        if decodes and _is_decompressed(options["method"], response.headers.get("content-encoding", "")):
            head = head.without_encoding()
        yield from chunks_of(head, filter(None, [response.data]) if is_preloaded else _pieces(response))
    finally:
        response.close()
        response.release_conn()


def _is_decompressed(method: str, encoding: str) -> bool:
    """Return whether `urllib3` undoes a content encoding, which depends on the installed packages."""
    known = urllib3.HTTPResponse.CONTENT_DECODERS
    return method != "HEAD" and any(each.strip().lower() in known for each in encoding.split(","))


def _pieces(response: Any) -> Iterator[bytes]:
    if response.chunked and response.supports_chunked_reads():
        yield from response.read_chunked(decode_content=True)
    elif hasattr(response, "read1"):
        yield from iter(lambda: response.read1(_PIECE, decode_content=True), b"")
    else:  # before 2.1
        yield from response.stream(_PIECE, decode_content=True)


def _response(pool: Any, options: dict[str, Any], got: Exchange) -> Any:
    """Return a response as the pool itself makes one, above one of the standard library."""
    method = options["method"]
    original = response_of(method, got)
    return urllib3.HTTPResponse(
        body=original,  # as the connections of urllib3 do
        headers=original.msg.items(),  # type: ignore[arg-type] # pairs, since a name may occur several times
        status=original.status,
        version=original.version,
        reason=original.reason,
        preload_content=options.get("preload_content", True),
        decode_content=options.get("decode_content", True),
        original_response=original,  # as the connections of urllib3 do
        pool=pool,
        retries=urllib3.Retry.from_int(options.get("retries"), options.get("redirect", True), default=pool.retries),
        enforce_content_length=False,  # a text with a pseudonym in it has another length
        request_method=method,
        request_url=options["url"],
    )

"""Requests of `urllib.request`."""

from __future__ import annotations

from contextlib import AbstractContextManager
from copy import copy
from typing import Any
from urllib.request import AbstractHTTPHandler

from agenttape_core.transports.exchanges import automatic_session, resized
from agenttape_core.transports.patching import replacing
from agenttape_core.transports.requests import Destination, joined
from agenttape_core.transports.wire import content_of, exchanged, request_of


def automatic() -> AbstractContextManager[None]:
    """Record requests of `urllib.request`'s openers during the block; redirects, cookies and errors are made above.

    Core enters it with the first session that records HTTP.
    """
    return replacing(AbstractHTTPHandler, "do_open", _opening)


def _opening(real: Any) -> Any:
    def do_open(handler: Any, http_class: Any, req: Any, **options: Any) -> Any:
        destination = Destination.of(req.type, req.host, None, req.full_url)
        fields = joined({**req.headers, **req.unredirected_hdrs}.items())
        session = automatic_session(destination, fields)
        if session is None:
            return real(handler, http_class, req, **options)
        content = content_of(req.data)
        if content is not req.data:
            req.data = content
        asked = request_of(req.get_method(), destination, fields, content)
        response: Any = exchanged(session, asked, lambda body: real(handler, http_class, _sent(req, body), **options))
        response.url, response.msg = req.full_url, response.reason  # as the real method leaves them
        return response

    return do_open


def _sent(req: Any, body: bytes | None) -> Any:
    """Return the request to send, with another body if there is one."""
    if body is None:
        return req
    sent = copy(req)
    sent.headers, sent.unredirected_hdrs = (
        dict(resized(req.headers.items())),
        dict(resized(req.unredirected_hdrs.items())),
    )
    sent.data = body
    sent.add_unredirected_header("Content-length", str(len(body)))
    return sent

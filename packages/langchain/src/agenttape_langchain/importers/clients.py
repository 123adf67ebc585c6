"""The provider packages at work: their own parsing of an answer that was recorded, without any network."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agenttape_langchain._compat import answered_by
from agenttape_langchain.importers.http_exchanges import Exchange, response_headers

_CLIENTS = ("httpx2", "httpx")


@dataclass(slots=True)
class Wire:
    """A client that is answered with a recorded response, and what it sent.

    Args:
        http_client: The client, to be given to an SDK.
        sent: The bodies of its requests.
    """

    http_client: Any = None
    sent: list[bytes] = field(default_factory=list)


def class_named(package: str, name: str) -> Any:
    """Return a class of a provider package, or nothing if that is not installed."""
    try:
        return getattr(importlib.import_module(package), name, None)
    except ImportError:
        return None


def model_on_wire(
    cls: Any, sdk: str, exchange: Exchange, settings: Mapping[str, Any], options: Mapping[str, Any]
) -> tuple[Any, Wire]:
    """Return a model whose client is answered as was recorded, once and without trying again.

    Args:
        cls: The class of the model.
        sdk: The package that it sends with, `openai` or `anthropic`.
        exchange: The recording.
        settings: What the model is constructed with.
        options: What else the user says it is constructed with.
    """
    wire = _wire(sdk, exchange)
    return answered_by(cls, {**settings, **options, "max_retries": 0}, wire.http_client), wire


def as_constructed(model: Any, options: Mapping[str, Any]) -> Any:
    """Return the model as a program has it: with the retries that it says, or those of the class."""
    retries = options.get("max_retries", type(model).model_fields["max_retries"].default)
    return model.model_copy(update={"max_retries": retries})


def _wire(sdk: str, exchange: Exchange) -> Wire:
    library = _library_of(importlib.import_module(sdk))
    wire = Wire()

    def respond(request: Any) -> Any:
        wire.sent.append(request.read())
        told = response_headers(exchange.headers, exchange.body)
        headers = [(name.encode("utf-8", "replace"), value.encode("utf-8", "replace")) for name, value in told]
        return library.Response(exchange.status, headers=headers, content=exchange.body)

    wire.http_client = library.Client(transport=library.MockTransport(respond))
    return wire


def _library_of(sdk: Any) -> Any:
    """Return the HTTP library that the default client of an SDK is made of: OpenAI's has moved from httpx to httpx2."""
    roots = (cls.__module__.partition(".")[0] for cls in sdk.DefaultHttpxClient.__mro__)
    return sys.modules[next(root for root in roots if root in _CLIENTS)]

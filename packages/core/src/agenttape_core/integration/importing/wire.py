"""The wire of an import: a client of HTTP that leads nowhere, and answers by a recorded response.

The provider's package parses the response itself, and the request that it sent is compared with the recorded one.
"""

from __future__ import annotations

import functools
import importlib
import json
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from agenttape_core.integration.cassettes import differences
from agenttape_core.integration.importing.http_exchanges import Exchange, response_headers
from agenttape_core.integration.importing.request_parts import NotImportableError
from agenttape_core.integration.stand_ins import StandIn

_CLIENTS = ("httpx2", "httpx")
_RENAMED = {"max_tokens": "max_completion_tokens"}
_TEXTS = frozenset({"arguments"})  # fields that hold JSON as text; its spacing is of no account
_WHOLE = "the whole body"


@dataclass(slots=True)
class Wire:
    """A client that gets a recorded response, and the requests that it sent.

    Args:
        http_client: The client, to be given to an SDK.
        sent: The bodies of its requests.
    """

    http_client: Any = None
    sent: list[bytes] = field(default_factory=list)

    def difference(
        self, recorded: Mapping[str, Any], *, renamed: bool = False, apart_from: Collection[str] = ()
    ) -> str:
        """Return the first place where the request that was sent differs from the recorded one; empty if none does.

        `null`, an empty text and an empty list mean the same to a service as an absent field.

        Args:
            recorded: The body of the recorded request.
            renamed: Whether `max_tokens` is the older name of `max_completion_tokens`.
            apart_from: Fields of the body that are not compared.
        """
        try:
            mine = json.loads(self.sent[0])
        except (ValueError, IndexError):
            return _WHOLE
        if not isinstance(mine, dict):
            return _WHOLE
        theirs = dict(recorded)
        if renamed:
            mine, theirs = _with_new_names(mine), _with_new_names(theirs)
        if not mine.get("stream") and not theirs.get("stream"):  # `false` in one, absent in the other
            apart_from = {*apart_from, "stream"}
        both = [{key: value for key, value in body.items() if key not in apart_from} for body in (theirs, mine)]
        found = next(differences(*map(_comparable, both)), None)
        return found.path if found is not None else ""


def provider_class(package: str, name: str) -> Any:
    """Return a class of a provider's package.

    Raises:
        NotImportableError: If the package is not installed, or does not have the class.
    """
    try:
        return getattr(importlib.import_module(package), name)
    except (ImportError, AttributeError):
        distribution = package.replace("_", "-").replace(".", "-")
        raise NotImportableError(
            f"{name} of {distribution}, which reads its answer, is not installed here\n"
            f"        pip install {distribution}, and import it again"
        ) from None


@functools.cache
def apart_class(cls: Any) -> Any:
    """Return a subclass whose objects take no part in a session: an import may run while one is open."""
    return type(cls.__name__, (StandIn, cls), {"__module__": cls.__module__, "__qualname__": cls.__qualname__})


def wire_of(sdk: str, exchange: Exchange) -> Wire:
    """Return a client that answers each request by a recorded response.

    Args:
        sdk: The package that will send with it, `openai` or `anthropic`.
        exchange: The recording.
    """
    library = _http_library(importlib.import_module(sdk))
    wire = Wire()

    def respond(request: Any) -> Any:
        wire.sent.append(request.read())
        pairs = response_headers(exchange.headers, exchange.body)
        headers = [(name.encode("utf-8", "replace"), value.encode("utf-8", "replace")) for name, value in pairs]
        return library.Response(exchange.status, headers=headers, content=exchange.body)

    wire.http_client = library.Client(transport=library.MockTransport(respond))
    return wire


def _http_library(sdk: Any) -> Any:
    """Return the HTTP library below the default client of an SDK: OpenAI's has moved from httpx to httpx2."""
    roots = (cls.__module__.partition(".")[0] for cls in sdk.DefaultHttpxClient.__mro__)
    return sys.modules[next(root for root in roots if root in _CLIENTS)]


def _with_new_names(body: Mapping[str, Any]) -> dict[str, Any]:
    return {_RENAMED.get(key, key): value for key, value in body.items()}


def _comparable(value: Any) -> Any:
    if isinstance(value, dict):
        pairs = ((key, _parsed(item) if key in _TEXTS else _comparable(item)) for key, item in value.items())
        return {key: item for key, item in pairs if item not in (None, "", [])}
    if isinstance(value, list):
        return [_comparable(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _parsed(text: Any) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError):
        return text

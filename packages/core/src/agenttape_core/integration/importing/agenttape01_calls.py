"""Tools and retrievers that `agenttape` 0.1 recorded, as interactions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agenttape_core.integration.importing.agenttape01_traffic import PLACEHOLDER, REDACTED, latency_of
from agenttape_core.integration.importing.foreign_values import error_named, literal_arguments
from agenttape_core.integration.importing.framework import Framework
from agenttape_core.integration.importing.request_parts import NotImportableError
from agenttape_core.lifecycle.imported import CallFacts, Importing
from agenttape_core.session import ExecutedCall

_ERROR = "of its error, agenttape 0.1 kept the type, the message and few attributes"


def import_call(importing: Importing, plain: Mapping[str, Any], framework: Framework) -> str:
    """Record a call of a tool or a retriever.

    Args:
        importing: The cassette.
        plain: The interaction.
        framework: Makes the call.

    Returns:
        What is lost, and why; empty if it is exact.

    Raises:
        NotImportableError: If no interaction can be made of it.
    """
    redacted = REDACTED if PLACEHOLDER in repr((plain["request"], plain["response"])) else ""
    error, loss = plain["error"], ""
    value: Any = None
    if isinstance(error, dict):
        loss = "" if _is_whole(error) else _ERROR
    elif plain["kind"] == "tool":
        value, loss = framework.tool_value(plain["response"])
    else:
        value, loss = framework.documents(plain["response"]), ""
    loss = "; ".join(filter(None, (redacted, loss)))
    crossing = _crossing(importing, plain, framework, value, loss)
    if isinstance(error, dict):
        attributes = error.get("attrs") if isinstance(error.get("attrs"), dict) else {}
        module, name = str(error.get("module")), str(error.get("type"))
        crossing.raised(error_named(module, name, str(error.get("message")), attributes))
    else:
        crossing.returned(value)
    return loss


def _crossing(
    importing: Importing, plain: Mapping[str, Any], framework: Framework, value: Any, loss: str
) -> ExecutedCall:
    request = plain["request"]
    listed = plain.get("tags")
    tags = [str(tag) for tag in listed] if isinstance(listed, list) else []
    facts = CallFacts(ids=framework.ids_of(value), tags=tags, duration_ms=latency_of(plain), loss=loss)
    name = str(plain.get("boundary") or request.get("name") or plain["kind"])
    if plain["kind"] == "tool":
        boundary, body = framework.tool_request(name, _arguments(request))
    else:
        boundary, body = framework.retrieval_request(_query(request))
    return importing.crossing(boundary, name, body, facts)


def _arguments(request: Mapping[str, Any]) -> Any:
    """Return the arguments of a tool: by name from a decorated function, as Python's text of them from a callback."""
    if "args" in request:
        return request["args"]
    given = request.get("input")
    if given is None:
        raise NotImportableError("the arguments of the tool are not recorded")
    return literal_arguments(given) if isinstance(given, str) else given


def _query(request: Mapping[str, Any]) -> str:
    given = request.get("args", request)
    if isinstance(given, dict):
        texts = [value for value in given.values() if isinstance(value, str)]
        given = given.get("query", texts[0] if len(texts) == 1 else None)
    if not isinstance(given, str):
        raise NotImportableError("it is not recorded which of its arguments was the query")
    return given


def _is_whole(error: Mapping[str, Any]) -> bool:
    """Return whether an error is a built-in one that has only its message."""
    made = f"{error.get('type')}({error.get('message')!r})"
    return error.get("module") == "builtins" and error.get("repr") == made and not error.get("attrs")

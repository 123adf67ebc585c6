"""Tools and retrievers that `agenttape` 0.1 recorded, as interactions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import ToolMessage

from agenttape_core.integration import ExecutedCrossing
from agenttape_core.integration.importing import CallFacts, Importing
from agenttape_langchain.importers.agenttape01_traffic import PLACEHOLDER, REDACTED, latency_of
from agenttape_langchain.importers.foreign_objects import (
    error_named,
    is_message,
    is_scalar,
    literal_arguments,
    read_document,
    read_message,
)
from agenttape_langchain.importers.requests import NotImportableError
from agenttape_langchain.requests import retrieval_body, tool_body
from agenttape_langchain.tools import TOOL
from agenttape_langchain.vector_stores import RETRIEVAL

_AS_JSON = "agenttape 0.1 made JSON of the result, so its types may be lost"
_ERROR = "of its error, agenttape 0.1 kept the type, the message and few attributes"


def import_call(importing: Importing, plain: Mapping[str, Any]) -> str:
    """Record a call of a tool or a retriever.

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
        value, loss = _tool_value(plain["response"])
    else:
        value, loss = _documents(plain["response"]), ""
    loss = "; ".join(filter(None, (redacted, loss)))
    crossing = _crossing(importing, plain, value, loss)
    if isinstance(error, dict):
        attributes = error.get("attrs") if isinstance(error.get("attrs"), dict) else {}
        module, name = str(error.get("module")), str(error.get("type"))
        crossing.raised(error_named(module, name, str(error.get("message")), attributes))
    else:
        crossing.returned(value)
    return loss


def _crossing(importing: Importing, plain: Mapping[str, Any], value: Any, loss: str) -> ExecutedCrossing:
    request = plain["request"]
    listed = plain.get("tags")
    tags = [str(tag) for tag in listed] if isinstance(listed, list) else []
    ids = (value.tool_call_id,) if isinstance(value, ToolMessage) else ()
    facts = CallFacts(ids=ids, tags=tags, duration_ms=latency_of(plain), loss=loss)
    name = str(plain.get("boundary") or request.get("name") or plain["kind"])
    if plain["kind"] == "tool":
        return importing.crossing(TOOL, name, tool_body(name, _arguments(request)), facts)
    return importing.crossing(RETRIEVAL, name, retrieval_body(_query(request), {}), facts)


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


def _tool_value(plain: Any) -> tuple[Any, str]:
    if is_message(plain) and plain.get("type") == "tool":
        message = read_message(plain)
        return message, "" if is_scalar(getattr(message, "artifact", None)) else _AS_JSON
    return plain, "" if is_scalar(plain) else _AS_JSON


def _documents(plain: Any) -> Any:
    if not isinstance(plain, list):
        raise NotImportableError("its result is no list of documents")
    return [read_document(item) for item in plain]


def _is_whole(error: Mapping[str, Any]) -> bool:
    """Return whether an error is a built-in one that has only its message."""
    made = f"{error.get('type')}({error.get('message')!r})"
    return error.get("module") == "builtins" and error.get("repr") == made and not error.get("attrs")

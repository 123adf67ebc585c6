"""LangChain's messages and documents as other tools write them, read into classes of a fixed list only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core import messages as lc
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage, convert_to_messages

from agenttape_core.integration.importing import NotImportableError

_CLASSES: tuple[type[BaseMessage], ...] = (
    lc.AIMessage,
    lc.AIMessageChunk,
    lc.HumanMessage,
    lc.HumanMessageChunk,
    lc.SystemMessage,
    lc.SystemMessageChunk,
    lc.ToolMessage,
    lc.ToolMessageChunk,
    lc.ChatMessage,
    lc.ChatMessageChunk,
    lc.FunctionMessage,
    lc.FunctionMessageChunk,
)
_BY_NAME = {cls.__name__: cls for cls in _CLASSES}
_BY_TYPE = {str(cls.model_fields["type"].default): cls for cls in _CLASSES}


def read_message(plain: Any) -> BaseMessage:
    """Return a message written by LangChain's `dumpd`, `model_dump` or `messages_to_dict`, or in OpenAI's form.

    Raises `NotImportableError` if it has none of these forms.
    """
    try:
        return _read_message(plain)
    except (KeyError, NotImplementedError, TypeError, ValueError, RecursionError) as error:
        raise NotImportableError(f"a message is malformed: {type(error).__name__}") from error


def _read_message(plain: Any) -> BaseMessage:
    if is_serialized(plain):
        cls = _BY_NAME.get(str(plain["id"][-1]))
        if cls is None or not isinstance(plain.get("kwargs"), dict):
            raise NotImportableError(f"a message is of the unknown class {str(plain['id'][-1])[:60]!r}")
        return _built(cls, plain["kwargs"])
    if isinstance(plain, dict) and isinstance(plain.get("type"), str) and "role" not in plain:
        cls = _BY_TYPE.get(plain["type"])
        fields = plain["data"] if isinstance(plain.get("data"), dict) else plain
        if cls is None or "content" not in fields:
            raise NotImportableError(f"a message is of the unknown type {plain['type'][:60]!r}")
        return _built(cls, fields)
    if isinstance(plain, list | dict):
        return convert_to_messages([tuple(plain) if isinstance(plain, list) else plain])[0]
    raise NotImportableError("a message is neither a mapping nor a pair")


def is_message(plain: Any) -> bool:
    """Return whether a value looks like a written message of LangChain."""
    if is_serialized(plain):
        return str(plain["id"][-1]) in _BY_NAME
    return isinstance(plain, dict) and str(plain.get("type")) in _BY_TYPE and "content" in plain


def _built(cls: type[BaseMessage], fields: Mapping[str, Any]) -> BaseMessage:
    known = {name: value for name, value in fields.items() if name in cls.model_fields and name != "type"}
    return cls(**known)


def read_document(plain: Any) -> Document:
    """Return a document written by LangChain's `dumpd` or `model_dump`, or by LangChain for JavaScript.

    Raises `NotImportableError` if it has no content.
    """
    fields = plain.get("kwargs") if is_serialized(plain) else plain
    content = fields.get("page_content", fields.get("pageContent")) if isinstance(fields, dict) else None
    if not isinstance(content, str) or not isinstance(fields, dict):
        raise NotImportableError("a document has no content")
    metadata, doc_id = fields.get("metadata"), fields.get("id")
    named = {"id": doc_id} if isinstance(doc_id, str) else {}
    return Document(content, metadata=metadata if isinstance(metadata, dict) else {}, **named)


def is_serialized(plain: Any) -> bool:
    """Return whether a value is an object in the form of LangChain's `dumpd`."""
    return isinstance(plain, dict) and plain.get("type") == "constructor" and _has_id(plain)


def _has_id(plain: dict[str, Any]) -> bool:
    return "lc" in plain and isinstance(plain.get("id"), list) and bool(plain["id"])


def holds_unwritten(plain: Any) -> bool:
    """Return whether a part of a value is lost: LangChain's `dumpd` leaves only the `repr` of unknown objects."""
    waiting = [plain]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if "lc" in value and value.get("type") == "not_implemented":
                return True
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return False

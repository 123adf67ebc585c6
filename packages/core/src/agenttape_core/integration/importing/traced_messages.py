"""The content of messages of traces, for whatever framework they are read.

The form follows OpenTelemetry's GenAI conventions: https://github.com/open-telemetry/semantic-conventions-genai
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agenttape_core.integration.importing.request_parts import NotImportableError
from agenttape_core.integration.importing.spans import parsed

_ROLES = {
    "system": "system", "developer": "system",
    "user": "user", "human": "user",
    "assistant": "assistant", "ai": "assistant", "chatbot": "assistant", "model": "assistant",
}  # fmt: skip


def role_in(message: Mapping[str, Any]) -> str:
    """Return the role of a message that holds no results of tools: `system`, `user` or `assistant`.

    Raises:
        NotImportableError: If it has another one.
    """
    told = str(message.get("role"))
    if told not in _ROLES:
        raise NotImportableError(f"a message has the unknown role {told[:60]!r}")
    return _ROLES[told]


def parts_in(message: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Return the parts of a message."""
    return [part for part in (message or {}).get("parts") or () if isinstance(part, dict)]


def results_in(message: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the results of tools that a message holds, each with the id of its call."""
    return [
        (str(part.get("id") or ""), part.get("response", part.get("result", part.get("content"))))
        for part in parts_in(message)
        if part.get("type") == "tool_call_response"
    ]


def tool_calls_in(parts: list[dict[str, Any]]) -> list[tuple[str | None, str, Any, Any]]:
    """Return the tool calls among parts: the id, the name, the arguments in raw and in parsed form."""
    found = []
    for part in parts:
        if part.get("type") == "tool_call":
            given = part.get("arguments")
            read = parsed(given) if isinstance(given, str) else given
            found.append((part.get("id"), str(part.get("name") or ""), given, read))
    return found

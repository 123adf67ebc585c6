"""Calls as traces have them: in the words of a convention, and of no framework.

Messages have the form of OpenTelemetry's GenAI conventions: `{"role": ..., "parts": [...]}`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from agenttape_core.integration.importing.request_parts import NotImportableError
from agenttape_core.integration.importing.spans import parsed
from agenttape_core.session import Boundary

NO_CONTENT = "its content is not in the trace; export it with the messages (of AgentTape: --content)"
STREAMED = "it was streamed, and a trace does not keep the chunks"
NO_METADATA = "of its answer, the trace has the messages, but not all metadata"
SOME_PARAMETERS = "of its parameters, the trace has those that a convention names, and perhaps not all"
RESULT_AS_TEXT = "the trace has the result of the tool as text, so its type may be lost"
ERROR = "of its error, the trace has the type and the text, but no attributes"
NO_VECTORS = "traces have no vectors"

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class TracedModelCall:
    """A call of a chat model.

    Args:
        model_class: The class of the model, or the nearest to it in the trace.
        params: The model and its parameters, in their wire form.
        messages: The conversation.
        tools: The tools that it may call, as OpenAI's interface has them.
        answer: The message that came back; None if it failed.
        finish_reason: The reason for the end of the answer; empty if unknown.
        model: The model that answered; empty if unknown.
        answer_id: The provider's id of the answer; empty if unknown.
        input_tokens: The tokens that were sent; None if unknown.
        output_tokens: The tokens that came back; None if unknown.
    """

    model_class: str
    params: Mapping[str, Any]
    messages: Sequence[Message]
    tools: Sequence[Mapping[str, Any]] = ()
    answer: Message | None = None
    finish_reason: str = ""
    model: str = ""
    answer_id: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class TracedToolCall:
    """A call of a tool.

    Args:
        name: The tool.
        arguments: Its arguments.
        result: Its return value, as far as the trace has it.
        call_id: The id that a model gave to the call; empty if unknown.
    """

    name: str
    arguments: Any
    result: Any = None
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class TracedRetrieval:
    """A retrieval.

    Args:
        name: The retriever.
        query: The query.
        documents: The documents: `{"id": ..., "content": ..., "metadata": ..., "score": ...}`.
    """

    name: str
    query: str
    documents: Sequence[Mapping[str, Any]] = ()


Traced = TracedModelCall | TracedToolCall | TracedRetrieval


@dataclass(frozen=True, slots=True)
class Convention:
    """The call that a span describes, and the lost parts of it."""

    call: Traced
    losses: tuple[str, ...] = field(default=())


class TraceFramework(Protocol):
    """A framework whose calls an import of traces makes."""

    def traced_request(self, call: Traced) -> tuple[Boundary, str, dict[str, Any]]:
        """Return the boundary, the name and the request of a call.

        Raises:
            NotImportableError: If a message cannot be read.
        """

    def traced_value(self, call: Traced) -> Any:
        """Return the value of a call.

        Raises:
            NotImportableError: If there is none.
        """

    def ids_of(self, value: Any) -> tuple[str, ...]:
        """Return the run-specific ids in the value of a tool."""


# The content of messages of traces, for whatever framework they are read.
#
# The form follows OpenTelemetry's GenAI conventions: https://github.com/open-telemetry/semantic-conventions-genai

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

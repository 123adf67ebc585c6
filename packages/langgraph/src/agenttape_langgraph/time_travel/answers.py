"""Edited answers: results that the user gives to recorded calls, as outcomes of a cassette."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult, Generation, LLMResult

from agenttape_core import ConfigurationError, UnrecordableValueError
from agenttape_core.integration import Outcome, record_error, value_codec
from agenttape_core.integration.cassettes import Cassette

Answers = Mapping[int | str, Any]
"""Results of calls, by the number or the address of the interaction.

A text or a message for a chat model, a text for a text model, the returned value for everything else. An exception is
raised.
"""


def edited_outcomes(cassette: Cassette, answers: Answers) -> dict[int, Outcome]:
    """Return the outcomes for edited answers, by the number of the interaction.

    Raises:
        ConfigurationError: If there is no such interaction, several have the address, or it cannot have this answer.
    """
    return {number: _outcome(cassette, number, answer) for number, answer in _numbered(cassette, answers).items()}


def _numbered(cassette: Cassette, answers: Answers) -> dict[int, Any]:
    numbered: dict[int, Any] = {}
    for key, answer in answers.items():
        found = [entry.number for entry in cassette.entries if key in (entry.number, entry.address)]
        if len(found) != 1:
            problem = (
                f"the interactions {', '.join(map(str, found))} have it" if found else "it holds no such interaction"
            )
            raise ConfigurationError(
                f"answers={{{key!r}: ...}}: expected the number or the address of one interaction of {cassette.path}; "
                f"{problem}"
            )
        numbered[found[0]] = answer
    return numbered


def _outcome(cassette: Cassette, number: int, answer: Any) -> Outcome:
    codec = value_codec()
    if isinstance(answer, Exception):
        return Outcome(status="raised", error=record_error(answer, codec))
    entry = next(entry for entry in cassette.entries if entry.number == number)
    value = _value(entry.kind, answer, cassette.outcome(number))
    try:
        return Outcome(status="returned", value=codec.encode(value))
    except UnrecordableValueError as error:
        raise ConfigurationError(f"answers={{{number}: ...}}: {error}") from error


def _chat_result(answer: Any, recorded: Outcome) -> ChatResult:
    if isinstance(answer, ChatResult):
        return answer
    message = _with_text(answer, recorded) if isinstance(answer, str) else answer
    if not isinstance(message, BaseMessage):
        raise ConfigurationError(f"answers: expected a text or a message for a chat model, found {answer!r}")
    return ChatResult(generations=[ChatGeneration(message=message)])


def _with_text(text: str, recorded: Outcome) -> AIMessage:
    """Return the recorded message with another text, or a new one if the recorded message called tools."""
    result = value_codec().decode(recorded.value) if recorded.status == "returned" else None
    message = result.generations[0].message if isinstance(result, ChatResult) and result.generations else None
    if not isinstance(message, AIMessage) or message.tool_calls or message.invalid_tool_calls:
        return AIMessage(text)
    return message.model_copy(update={"content": text, "usage_metadata": None})


def _value(kind: str, answer: Any, recorded: Outcome) -> Any:
    """Return an answer in the form that calls of a kind return."""
    if kind == "chat":
        return _chat_result(answer, recorded)
    if kind == "completion" and isinstance(answer, str):
        return LLMResult(generations=[[Generation(text=answer)]])
    has_artifact = isinstance(recorded.value, dict) and len(recorded.value.get("$tuple", ())) == 2  # noqa: PLR2004
    return (answer, None) if kind == "tool" and has_artifact and not isinstance(answer, tuple) else answer

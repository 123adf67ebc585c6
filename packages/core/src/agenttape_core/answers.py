"""The words of a recorded answer: what a person reads of it, whichever framework made it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agenttape_core.schema import Interaction, Outcome

_WHOLES = ("message", "generations", "response")
_TEXTS = ("content", "blocks", "text", "delta")


def answer_text(outcome: Outcome) -> str:
    """Return the text that a model answered with: of a stream, that of all chunks. Empty where there is none.

    Args:
        outcome: The outcome of an interaction of the kind `chat` or `completion`.
    """
    if outcome.status == "streamed":
        return "".join(map(_text, outcome.chunks or ()))
    return _text(outcome.value)


def tool_calls_of(outcome: Outcome) -> list[tuple[str, Any]]:
    """Return the tool calls that a model answered with, as names and arguments.

    Args:
        outcome: As for `answer_text`. Of a stream, nothing is returned: its calls come in pieces.
    """
    message = _message(outcome.value)
    calls = [*_listed(message.get("tool_calls")), *_listed(message.get("blocks"))]
    named = [(call.get("name") or call.get("tool_name"), call) for call in calls]
    return [(name, call.get("args", call.get("tool_kwargs"))) for name, call in named if isinstance(name, str)]


def last_answer(interactions: Iterable[Interaction]) -> str:
    """Return the text of the last answer of a model; empty if there is none.

    Args:
        interactions: Those of a run, in its order. What an interaction executed inside itself is not an answer to the
            run.
    """
    answers = [item for item in interactions if item.kind in {"chat", "completion"} and item.parent is None]
    return answer_text(answers[-1].outcome) if answers else ""


def _message(value: Any) -> Mapping[str, Any]:
    while isinstance(value, Mapping):
        inner = value.get("message") or (next(iter(value.values())) if len(value) == 1 else None)
        if not isinstance(inner, Mapping):
            return value
        value = inner
    return {}


def _listed(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(map(_text, value))
    if not isinstance(value, Mapping):
        return ""
    if len(value) == 1 and next(iter(value)).startswith("$"):  # a value of a framework, under the name of its codec
        return _text(next(iter(value.values())))
    for key in (*_WHOLES, *_TEXTS):
        if key in value and value.get("type") not in {"tool_call", "tool_use", "reasoning", "thinking"}:
            return _text(value[key])
    return ""

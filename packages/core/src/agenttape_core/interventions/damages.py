"""Damaged answers: what networks, providers and strangers do to them. Integrations add their frameworks' ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

from agenttape_core.errors import ConfigurationError

How = Literal["cut_tool_call", "malformed_tool_call", "empty", "add"]
"""The ways to damage an answer: the arguments of its last tool call are cut in the middle, as at a limit of tokens;
that tool call has no arguments that fit; it is empty; or a text is added to it."""

Damage = Callable[[How, Any, str], Any]
"""Damages an answer of a framework: gets the way, the answer and the text to add. It returns `NotImplemented` for an
answer of another framework, or one that cannot be damaged in this way."""

D = TypeVar("D", bound=Damage)

_damages: list[Damage] = []


def register_damage(damage: D) -> D:
    """Register how answers of a framework are damaged.

    Args:
        damage: Damages an answer; it returns another one, or the changed answer.
    """
    _damages.append(damage)
    return damage


def damaged(how: How, answer: Any, text: str = "") -> Any:
    """Return a damaged answer.

    `answer` is as programs of the framework know it; `text` is the text to add. Raises `ConfigurationError` if it
    cannot be damaged in this way.
    """
    for damage in (*_damages, _plain):
        found = damage(how, answer, text)
        if found is not NotImplemented:
            return found
    raise ConfigurationError(f"{how}: an answer of the type {type(answer).__name__} cannot be damaged in this way")


def _plain(how: How, answer: Any, text: str) -> Any:
    """Damage a value of Python's own types: a text, a list, a pair of a text and something else, facts by name."""
    if how == "empty" and isinstance(answer, str | list | dict):
        return type(answer)()
    if how == "add" and isinstance(answer, str):
        return f"{answer}\n{text}"
    if how in {"empty", "add"} and isinstance(answer, tuple) and answer:
        return (damaged(how, answer[0], text), *answer[1:])
    if how == "add" and isinstance(answer, list):
        return [*answer[:-1], damaged(how, answer[-1], text)] if answer else [text]
    if how == "add" and isinstance(answer, dict):
        return {**answer, "note": text}
    return NotImplemented

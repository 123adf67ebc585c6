"""The next answer of the pretended model: a decision over the conversation, without any HTTP.

A policy is a callable from a `Turn` to a `Reply`. `UseEveryTool` is the default; `Script` plays given replies,
for tests that want to decide every word themselves.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeAlias

from .schema import fill

JSON: TypeAlias = dict[str, Any]

OPENERS = ("Here is what I found.", "Good question!", "I looked it up for you.", "Let me sum up.", "All done.")


@dataclass(frozen=True)
class Turn:
    """One request for a completion.

    Args:
        body: The request as sent: `messages`, `tools`, `tool_choice`, `response_format` and so on.
        number: How many completions the server was asked for so far, this one included; a second choice of
            the same request (`n`) has a number of its own. Whatever a reply says should depend on it.
    """

    body: JSON
    number: int

    @property
    def user_text(self) -> str:
        """The text of the last user message."""
        return next((_text(m) for m in reversed(self.body["messages"]) if m["role"] == "user"), "")

    @property
    def tool_results(self) -> list[str]:
        """The tool results at the end of the conversation, oldest first."""
        roles = [message["role"] for message in self.body["messages"]]
        last_user = max((i for i, role in enumerate(roles) if role == "user"), default=0)
        return [_text(m) for m in self.body["messages"][last_user:] if m["role"] == "tool"]

    @property
    def used_tools(self) -> set[str]:
        """The names of the tools that the conversation has called already."""
        calls = chain.from_iterable(m.get("tool_calls") or () for m in self.body["messages"])
        return {call["function"]["name"] for call in calls if call["type"] == "function"}


@dataclass(frozen=True)
class Reply:
    """The answer of the model: text, tool calls, or both.

    Args:
        text: The content.
        tool_calls: Pairs of a tool's name and its arguments; a string is sent as it is, so that a test can
            send arguments that are not JSON.
        finish_reason: Why the answer ends; by default what follows from the tool calls.
        refusal: A refusal in place of content.
    """

    text: str = ""
    tool_calls: tuple[tuple[str, JSON | str], ...] = field(default=())
    finish_reason: str = ""
    refusal: str | None = None


Policy: TypeAlias = Callable[[Turn], Reply]


class Script:
    """Plays the given replies, then hands over to another policy.

    Args:
        replies: The replies in order; a text stands for a reply of that text.
        then: The policy for all further turns.
    """

    def __init__(self, replies: Iterable[Reply | str], then: Policy | None = None) -> None:
        self._replies = iter(replies)
        self._then = then or UseEveryTool()

    def __call__(self, turn: Turn) -> Reply:
        """The next reply of the script."""
        reply = next(self._replies, None)
        if reply is None:
            return self._then(turn)
        return Reply(reply) if isinstance(reply, str) else reply


@dataclass(frozen=True)
class UseEveryTool:
    """Calls each offered tool that the conversation has not called yet, then answers.

    Args:
        at_once: How many tools one turn calls at most; a request with `parallel_tool_calls: false` gets one.
    """

    at_once: int = 2

    def __call__(self, turn: Turn) -> Reply:
        """The next tool calls, or the answer in the form that the request asks for."""
        offered = self._choose(turn)
        if offered:
            text = turn.user_text
            return Reply(tool_calls=tuple((f["name"], _arguments(f, text, turn.number)) for f in offered))
        return Reply(_answer(turn))

    def _choose(self, turn: Turn) -> list[JSON]:
        body = turn.body
        offered = [tool["function"] for tool in body.get("tools") or () if tool["type"] == "function"]
        choice = body.get("tool_choice") or "auto"
        if choice == "none" or not offered:
            return []
        if isinstance(choice, dict):
            return [f for f in offered if f["name"] == choice["function"]["name"]]
        unused = [f for f in offered if f["name"] not in turn.used_tools]
        if not unused and choice == "required":
            return offered[-1:]
        return unused[: 1 if body.get("parallel_tool_calls") is False else self.at_once]


def _arguments(function: JSON, text: str, number: int) -> JSON:
    filled = fill(function.get("parameters") or {}, text, number)
    return filled if isinstance(filled, dict) else {}


def _answer(turn: Turn) -> str:
    wanted = turn.body.get("response_format") or {"type": "text"}
    if wanted["type"] == "json_schema":
        return json.dumps(fill(wanted["json_schema"]["schema"], turn.user_text, turn.number))
    prose = _prose(turn)
    return json.dumps(_object(turn.user_text, prose)) if wanted["type"] == "json_object" else prose


def _object(asked: str, prose: str) -> JSON:
    """The answer as a JSON object; the keys are those that the user quotes before the word "keys"."""
    before, found, _ = asked.partition(" keys")
    keys = re.findall(r"[\"'](\w+)[\"']", before) if found else []
    return dict.fromkeys(keys or ["answer"], prose)


def _prose(turn: Turn) -> str:
    opener = OPENERS[turn.number % len(OPENERS)]
    about = " ".join(turn.tool_results) or f"You asked: {_shortened(turn.user_text)}"
    certainty = 50 + turn.number * 7 % 50
    return f"{opener} {about} I am {certainty} percent sure of answer number {turn.number}."


def _shortened(text: str, limit: int = 200) -> str:
    return text if len(text) <= limit else text[:limit] + " ..."


def _text(message: JSON) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return re.sub(r"\s+", " ", content).strip()
    return " ".join(part["text"] for part in content if part.get("type") == "text")

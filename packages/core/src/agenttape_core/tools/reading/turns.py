"""The turns of a conversation: the prompt, the calls that followed, and the answer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agenttape_core.schema import MODEL_KINDS, Interaction
from agenttape_core.tools.reading.answer import Answer
from agenttape_core.tools.reading.messages import input_messages


@dataclass(slots=True)
class Turn:
    """One turn: a prompt and the run's reaction to it.

    Args:
        prompt: What was asked: the last message of a user before the first answer; empty if there is none.
        calls: The calls of the turn, in the order of the run.
    """

    prompt: str
    calls: list[Interaction] = field(default_factory=list)

    @property
    def last(self) -> Interaction | None:
        """The call of a model that gave the answer: the last one that no other call made."""
        return next((item for item in reversed(self.calls) if is_answer_of_run(item)), None)

    @property
    def answer(self) -> str:
        """The text of the answer; empty if there is none."""
        return Answer(self.last.outcome).text if self.last is not None else ""


def is_answer_of_run(item: Interaction) -> bool:
    """Return True for a call of a model that no other call made: its answer is one to the run."""
    return item.kind in MODEL_KINDS and item.parent is None


def turns_of(interactions: Iterable[Interaction]) -> list[Turn]:
    """Return the turns of a run.

    A turn begins with each outermost run (`agent`, `agent#2`, …). Calls of models outside of any run, as in a
    hand-written loop, belong to one turn as long as they continue from the same message of a user.

    Args:
        interactions: The calls, in the order of the run.
    """
    turns: list[Turn] = []
    known: dict[str, Turn] = {}  # by the outermost run: parallel ones take turns in the order of the calls
    waiting: list[Interaction] = []
    for item in interactions:
        outermost = item.address.partition("/")[0]
        turn = known.get(outermost)
        if not is_answer_of_run(item):
            (turn.calls if turn is not None else waiting).append(item)
            continue
        messages = input_messages(item.request)
        asked = _last_of_user(messages)
        if turn is None and turns and _continues(messages, asked, turns[-1].prompt):
            turn = turns[-1]
        if turn is None:
            turn = Turn(text_of(messages[asked]) if asked is not None else "")
            turns.append(turn)
        known[outermost] = turn
        turn.calls += [*waiting, item]
        waiting.clear()
    if waiting:
        (turns[-1] if turns else _added(turns)).calls.extend(waiting)
    return turns


def text_of(message: dict[str, Any]) -> str:
    """Return the text of a message, as `message_of` returns it."""
    texts = [part.get("content") for part in message["parts"] if part["type"] == "text"]
    return "".join(text for text in texts if isinstance(text, str))


def _added(turns: list[Turn]) -> Turn:
    turns.append(Turn(""))
    return turns[-1]


def _last_of_user(messages: list[dict[str, Any]]) -> int | None:
    return next((at for at in reversed(range(len(messages))) if messages[at]["role"] == "user"), None)


def _continues(messages: list[dict[str, Any]], asked: int | None, prompt: str) -> bool:
    """Return True if a request continues from a message of a user that was answered before."""
    return asked is not None and asked < len(messages) - 1 and text_of(messages[asked]) == prompt


# -- The conversation of a run in OpenAI's form, which evaluators of other libraries read.


def conversation_of(last: Interaction | None) -> list[dict[str, Any]]:
    """Return the messages of a conversation with its last answer.

    Args:
        last: The call of the model that gave the last answer; `None` if there was none.
    """
    if last is None:
        return []
    messages = [*input_messages(last.request), *Answer(last.outcome).messages]
    return [converted for message in messages for converted in _converted(message)]


def _converted(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a message as OpenAI writes it; of results of tools, one for each."""
    results = [part for part in message["parts"] if part["type"] == "tool_call_response"]
    if results:
        return [
            {"role": "tool", "tool_call_id": str(part.get("id") or ""), "content": _text(part.get("response"))}
            for part in results
        ]
    calls = [_call(part) for part in message["parts"] if part["type"] == "tool_call"]
    whole = {"role": message["role"], "content": text_of(dict(message))}
    return [{**whole, "tool_calls": calls} if calls else whole]


def _call(part: Mapping[str, Any]) -> dict[str, Any]:
    arguments = part["arguments"] if part["arguments"] is not None else {}
    written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {
        "id": str(part.get("id") or ""),
        "type": "function",
        "function": {"name": part["name"], "arguments": written},
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)

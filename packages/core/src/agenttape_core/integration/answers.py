"""Facts about an answer that a recording keeps beside it: its text, if other processes write another, and its tokens.

A framework writes a tool's return value as a text, which its model reads. The order of a set follows the hash seed of
the process, so the text of an equal set is another one in a replay. So it is recorded beside the value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from pydantic import BaseModel

from agenttape_core.lazy_patterns import Lazy
from agenttape_core.schema import Usage
from agenttape_core.session import SessionCall

SHOWN_AS = "shown_as"  # the key of the metadata of an interaction that holds the text of its value

_ADDRESS = Lazy(r"\b0x[0-9a-f]{6,}")
_PLAIN = (str, int, float, bool, bytes, type(None))


def note_text(session_call: SessionCall, value: Any) -> None:
    """Record the text of a call's return value, if another process would write it differently.

    Args:
        session_call: The call; only one that is executed is recorded.
        value: What it has returned.
    """
    if not session_call.is_replayed and not isinstance(value, _PLAIN) and _is_of_process(value, text := str(value)):
        session_call.metadata = {**session_call.metadata, SHOWN_AS: text}


def recorded_text(session_call: SessionCall, text: str) -> str:
    """Return the recorded text of a call's return value, if it is equivalent to this process's text.

    Args:
        session_call: The call.
        text: The text in this process.
    """
    if session_call.found is None:
        return text
    recorded = session_call.session.source.interaction(session_call.found.number).metadata.get(SHOWN_AS)
    return recorded if isinstance(recorded, str) and _parts(recorded) == _parts(text) else text


def _parts(text: str) -> list[str]:
    return sorted(_ADDRESS.sub("", text))


def _is_of_process(value: Any, text: str) -> bool:
    return _ADDRESS.search(text) is not None or any(
        isinstance(each, set | frozenset) and len(each) > 1 for each in _within(value)
    )


def _within(value: Any) -> Iterator[Any]:
    """Yield a value, and all the values inside of it."""
    waiting, seen = [value], set()
    while waiting:
        each = waiting.pop()
        if isinstance(each, _PLAIN) or id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        if isinstance(each, Mapping):
            waiting += [*each, *each.values()]
        elif isinstance(each, list | tuple | set | frozenset):
            waiting += each
        elif isinstance(each, BaseModel):
            waiting += vars(each).values()
        elif is_dataclass(each) and not isinstance(each, type):
            waiting += [getattr(each, field.name) for field in fields(each)]


# The token counts in an answer, in the words of the providers.

_INPUT = ("prompt_tokens", "input_tokens", "prompt_token_count", "prompt_eval_count")
_OUTPUT = ("completion_tokens", "output_tokens", "candidates_token_count", "eval_count")
_LAST = 3  # providers put the counts of a stream into one of its last chunks


def tokens_in(*holders: Any) -> Usage | None:
    """Return the counts of the first holder that has some; `None` if none has.

    Args:
        holders: Mappings or objects with the counts of OpenAI, Anthropic, Google or Ollama.
    """
    for holder in holders:
        counts = [_count(holder, names) for names in (_INPUT, _OUTPUT)]
        if any(count is not None for count in counts):
            return Usage(input_tokens=counts[0], output_tokens=counts[1])
    return None


def usage_in(answer: Any) -> Usage | None:
    """Return the token counts of an answer as an SDK returns it, or of a list of chunks whose last ones have them.

    Args:
        answer: A mapping or an object with `usage` or `usage_metadata`, or with the counts themselves; or chunks.
    """
    chunks = reversed(answer[-_LAST:]) if isinstance(answer, list) else (answer,)  # a list may hold all of an index
    each = (tokens_in(field_of(one, "usage"), field_of(one, "usage_metadata"), one) for one in chunks)
    return next(filter(None, each), None)


def field_of(holder: Any, name: str) -> Any:
    """Return a field of a mapping or an object; `None` if it has none of this name."""
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)


def _count(holder: Any, names: tuple[str, ...]) -> int | None:
    return next((count for name in names if type(count := field_of(holder, name)) is int), None)

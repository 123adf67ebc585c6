"""The tokens of log probabilities: joined, they are the text of the answer, and spell out the secrets in it.

OpenAI and those who speak like it give a list of entries, each a dict of a `token`, its `logprob`, its `bytes` and its
alternatives in `top_logprobs`; LlamaIndex gives a row of such entries for each place, the most probable one first.
"""

from __future__ import annotations

from operator import is_
from typing import TYPE_CHECKING, Any

from agenttape_core.redaction.detection.findings import render

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from agenttape_core.redaction.detection.findings import Span
    from agenttape_core.schema import Plain

Place = dict[str, Any] | list[Any]
"""The entry of one token, or the row of the candidates for it."""


def are_tokens(plain: list[Any]) -> bool:
    """Return True if a list of plain data has the tokens of a text and their probabilities."""
    first = plain[0] if plain else None
    if isinstance(first, list):
        return all(isinstance(row, list) and all(map(_is_entry, row)) for row in plain) and any(plain)
    return _is_entry(first) and all(map(_is_entry, plain))


def token_of(place: Place) -> str:
    """Return the token of a place; the empty text for a row without candidates."""
    entry = place if isinstance(place, dict) else place[0] if place else None
    return str(entry["token"]) if entry else ""


def with_token(place: Place, token: str, alone: Callable[[str], str], rest: Callable[[Plain], Plain]) -> Place:
    """Return a place with a redacted token; the very same object when nothing changed.

    Where the token is another one, its alternatives become it, too: they often are the same, or nearly so.

    Args:
        place: The entry, or the row of candidates.
        token: The token.
        alone: Redacts the token of an alternative, which stands in no text.
        rest: Redacts what else an entry has.
    """
    other = alone if token == token_of(place) else lambda _: token
    return _row(place, other, rest) if isinstance(place, list) else _entry(place, token, other, rest)


def cut(whole: str, spans: Sequence[Span], pieces: Sequence[str]) -> Iterator[str]:
    """Yield the pieces of a text with its spans replaced; what replaces a span is where the span starts."""
    start = 0
    for piece in pieces:
        yield render(whole, spans, start, start + len(piece))
        start += len(piece)


def _is_entry(item: Any) -> bool:
    return isinstance(item, dict) and "logprob" in item and isinstance(item.get("token"), str)


def _row(row: list[Any], other: Callable[[str], str], rest: Callable[[Plain], Plain]) -> list[Any]:
    result = [_entry(entry, other(entry["token"]), other, rest) for entry in row]
    return row if all(map(is_, result, row)) else result


def _entry(entry: dict[str, Any], token: str, other: Callable[[str], str], rest: Callable[[Plain], Plain]) -> Any:
    same = token == entry["token"]
    result = dict(entry)
    for key, item in entry.items():
        if key == "token":
            result[key] = item if same else token
        elif key == "bytes" and isinstance(item, list):
            result[key] = item if same else list(token.encode("utf-8", "surrogatepass"))
        elif key == "top_logprobs" and isinstance(item, list) and all(map(_is_entry, item)):
            result[key] = _row(item, other, rest)
        else:
            result[key] = rest(item)
    return entry if all(result[key] is item for key, item in entry.items()) else result

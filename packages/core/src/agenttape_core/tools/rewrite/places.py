"""The places in which two versions of plain data differ by pseudonyms, and the kinds of these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from agenttape_core.format.assets import DATA_URL
from agenttape_core.redaction.detection.data import Data
from agenttape_core.redaction.detection.encoded import has_pseudonym, sub_encoded
from agenttape_core.redaction.recognition import kind_of_whole, kinds_in

_UNKNOWN = "secret"
"""The kind of a secret of which only a later piece stands at a place."""


class Place(NamedTuple):
    """A place with a secret. It never holds the secret.

    Args:
        at: The path to it, such as `request.messages[0].content`.
        kind: What it is: `email`, `openai`, the name of a rule.
    """

    at: str
    kind: str


def differing(before: object, after: object) -> list[Place]:
    """Return the places in which data before redaction differs from what it is after it.

    Args:
        before: Plain data.
        after: The same with pseudonyms. A key that became another one is called by what it became.
    """
    found = list(_walked(before, after, ""))
    # The pseudonym of a secret in pieces stands where it begins; what is gone from later chunks is no other secret.
    whole = [place for place in found if place.kind]
    return whole or [place._replace(kind=_UNKNOWN) for place in found]


def split_binary(text: str) -> tuple[str, str]:
    """Return the head of a `data:` URL, which is empty for any other text, and what follows: perhaps base64."""
    head = DATA_URL.match(text)
    before = head[0] if head else ""
    return before, text[len(before) :]


def changed_strings(plain: Any, change: Callable[[str], str]) -> Any:
    """Return plain data with each string, keys included, replaced by what a function makes of it."""
    if isinstance(plain, str):
        return change(plain)
    if isinstance(plain, dict):
        return {change(key): changed_strings(item, change) for key, item in plain.items()}
    return [changed_strings(item, change) for item in plain] if isinstance(plain, list) else plain


def _walked(before: object, after: object, at: str) -> Iterator[Place]:
    if before is after or before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict) and len(before) == len(after):
        for (old, one), (new, other) in zip(before.items(), after.items(), strict=True):
            below = f"{at}.{new}" if at else str(new)
            if old != new:
                yield from (Place(below, kind) for kind in _new_kinds(str(old), str(new)))
            yield from _walked(one, other, below)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, pair in enumerate(zip(before, after, strict=True)):
            yield from _walked(*pair, f"{at}[{number}]")
    else:
        texts = (value if isinstance(value, str) else "" for value in (before, after))
        # A number that is one pseudonym as a whole; a text may also be what is left of a secret in pieces.
        whole = kind_of_whole(after) if isinstance(after, str | int | float) and after else None
        yield from (Place(at or ".", kind) for kind in _new_kinds(*texts) or [whole or ""])


def _new_kinds(before: str, after: str) -> list[str]:
    return sorted(Counter(_kinds(after)) - Counter(_kinds(before)))


def _kinds(text: str) -> list[str]:
    """Return the kinds of the pseudonyms in a text, those inside base64 included."""
    found = kinds_in(text)
    if has_pseudonym(text):
        inside: list[str] = []

        def noted(inner: str) -> str:
            inside.extend(_kinds(inner))
            return inner

        sub_encoded(text, noted)
        if not inside and (data := Data.of(split_binary(text)[1])):
            inside += kinds_in(data.text)
        found += inside
    return found

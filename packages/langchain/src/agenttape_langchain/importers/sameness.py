"""Whether today's client would send what was recorded."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from agenttape_core.integration.cassettes import differences

_RENAMED = {"max_tokens": "max_completion_tokens"}
_TEXTS = frozenset({"arguments"})
"""Fields that hold JSON as text; how it is spaced says nothing."""


def difference(
    sent: list[bytes], recorded: dict[str, Any], *, renamed: bool = False, apart_from: Collection[str] = ()
) -> str:
    """Return the first place in which a request differs from the recorded one, empty if none does.

    Nothing, an empty text and an empty list say the same to a service.

    Args:
        sent: The bodies that a client has sent.
        recorded: The body of the recording.
        renamed: Whether `max_tokens` is the older name of `max_completion_tokens`.
        apart_from: Fields of the body that are not compared.
    """
    try:
        mine = json.loads(sent[0])
    except (ValueError, IndexError):
        return "the whole of it"
    if not isinstance(mine, dict):
        return "the whole of it"
    theirs = recorded
    if renamed:
        mine, theirs = _with_new_names(mine), _with_new_names(theirs)
    if not mine.get("stream") and not theirs.get("stream"):  # one says so, and the other says nothing of it
        apart_from = {*apart_from, "stream"}
    both = [{key: value for key, value in body.items() if key not in apart_from} for body in (theirs, mine)]
    found = next(differences(*map(_plain, both)), None)
    return found.path if found is not None else ""


def _with_new_names(body: dict[str, Any]) -> dict[str, Any]:
    return {_RENAMED.get(key, key): value for key, value in body.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        pairs = ((key, _parsed(item) if key in _TEXTS else _plain(item)) for key, item in value.items())
        return {key: item for key, item in pairs if item not in (None, "", [])}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _parsed(text: Any) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError):
        return text

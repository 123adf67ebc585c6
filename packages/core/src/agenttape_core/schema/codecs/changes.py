"""The change between two pieces of plain data, so that only the new parts of a stream of growing pieces are stored.

A text is appended to the text there (or is put there, where there was none); any other bare value is put there. now.
`{"$in": {key: change}}` changes a dict, `{"$items": {"#0": change}}` a list, both perhaps new; `{"$to": value}` puts
anything else there, and `{"$gone": true}` takes it away. So all pieces of a text have the same path, where redaction
looks for secrets that were split between chunks.

A chunk of such a stream is a dict with the current values, except for three keys: `content` is a text to append to the
present one, `changes` holds changes by key, and `delta` is the chunk's own change.
"""

from __future__ import annotations

from itertools import compress, count, zip_longest
from operator import is_not
from typing import Any

from agenttape_core.errors import UnreadableValueError
from agenttape_core.schema.plain import Plain, expect_dict

NOTHING: Any = object()
"""Stands for an absent value."""
_ATOMS = frozenset({str, bool, int, float, type(None)})
OWN = frozenset({"content", "changes", "delta"})
"""The keys of a chunk other than the current values."""


def changes(before: Plain, after: Plain) -> Plain:
    """Return the change that makes `after` of `before`; `NOTHING` where they are equal.

    What is the same object in both is not looked at.
    """
    if before is after or (type(before) is type(after) and type(after) in _ATOMS and before == after):
        return NOTHING
    if after is NOTHING:
        return {"$gone": True}
    if type(after) is str and _is(before, str) and after.startswith("" if before is NOTHING else before):
        return after if before is NOTHING else after[len(before) :]
    if type(after) is dict and _is(before, dict):
        return _in_dict(before, after)
    if type(after) is list and _is(before, list):
        return _in_list(before, after)
    return {"$to": after} if isinstance(after, str | dict | list) else after


def _is(before: Plain, cls: type) -> bool:
    return before is NOTHING or type(before) is cls


def _in_dict(before: Plain, after: dict[str, Plain]) -> Plain:
    old = {} if before is NOTHING else before
    if not _keeps_order(old, after):
        return {"$to": after}
    pairs = {key: (old.get(key, NOTHING), after.get(key, NOTHING)) for key in (*old, *after)}
    changed = {key: change for key, pair in pairs.items() if (change := changes(*pair)) is not NOTHING}
    return {"$in": changed} if changed or before is NOTHING else NOTHING


def _keeps_order(old: dict[str, Plain], new: dict[str, Plain]) -> bool:
    """Return whether a dict has the order of another one, with new keys at the end, as a changed one has."""
    keys = list(new)
    return keys == list(old) or keys == [*(key for key in old if key in new), *(key for key in keys if key not in old)]


def _in_list(before: Plain, after: list[Plain]) -> Plain:
    old = [] if before is NOTHING else before
    same = next(compress(count(), map(is_not, old, after)), min(len(old), len(after)))
    pairs = zip_longest(old[same:], after[same:], fillvalue=NOTHING)
    changed = {f"#{n}": change for n, pair in enumerate(pairs, same) if (change := changes(*pair)) is not NOTHING}
    return {"$items": changed} if changed or before is NOTHING else NOTHING


def changed(before: Plain, change: Plain) -> Plain:
    """Return the result of a change to plain data, which isn't modified; `NOTHING` where it is removed.

    Raises:
        UnreadableValueError: If the change is malformed, or belongs to other data.
    """
    if type(change) is str and _is(before, str):
        return change if before is NOTHING else before + change
    if not isinstance(change, str | dict):
        return change
    kind, body = next(iter(expect_dict(change, "$change").items()), ("", None))
    if kind == "$to":
        return body
    if kind == "$gone":
        return NOTHING
    if kind == "$in" and type(body) is dict and _is(before, dict):
        new = {} if before is NOTHING else dict(before)
        for key, inner in body.items():
            _set(new, key, changed(new.get(key, NOTHING), inner))
        return new
    if kind == "$items" and type(body) is dict and _is(before, list):
        return _changed_list([] if before is NOTHING else list(before), body)
    raise UnreadableValueError("$change", f"expected a change of what came before it, found {str(change)[:80]}")


def _set(target: dict[str, Plain], key: str, value: Plain) -> None:
    if value is NOTHING:
        target.pop(key, None)
    else:
        target[key] = value


def _changed_list(new: list[Plain], body: dict[str, Plain]) -> list[Plain]:
    for key, inner in body.items():
        place = int(key[1:]) if key[:1] == "#" and key[1:].isdecimal() else -1
        if not 0 <= place <= len(new):
            raise UnreadableValueError("$items", f"expected the place of an item of {len(new)}, found {key!r}")
        new[place : place + 1] = [changed(new[place] if place < len(new) else NOTHING, inner)]
    return [item for item in new if item is not NOTHING]


def advanced(before: dict[str, Plain], chunk: dict[str, Plain], text: tuple[str, ...]) -> dict[str, Plain]:
    """Return the state of a stream after one more chunk.

    Args:
        before: Its state so far, which isn't modified.
        chunk: What is new.
        text: Where the text is that `content` grows, as a path of keys.

    Raises:
        UnreadableValueError: If the chunk is malformed, or belongs to another stream.
    """
    added, after = chunk.get("content"), dict(before)
    if added is not None:
        old = at(before, text)
        if type(added) is not str or not _is(old, str):
            raise UnreadableValueError("content", "expected text to put behind a text")
        after = put(after, text, ("" if old is NOTHING else old) + added)
    after |= {key: item for key, item in chunk.items() if key not in OWN}
    for key, change in expect_dict(chunk.get("changes", {}), "changes").items():
        _set(after, key, changed(after.get(key, NOTHING), change))
    return after


def at(plain: Plain, path: tuple[str, ...]) -> Plain:
    """Return the value at a path of keys; `NOTHING` if there is none."""
    for key in path:
        plain = plain.get(key, NOTHING) if type(plain) is dict else NOTHING
    return plain


def put(plain: dict[str, Plain], path: tuple[str, ...], value: Plain) -> dict[str, Plain]:
    """Return a dict with a value at a path of keys; the given dict isn't modified."""
    key, *rest = path
    inner = plain.get(key)
    return {**plain, key: put(inner if type(inner) is dict else {}, tuple(rest), value) if rest else value}

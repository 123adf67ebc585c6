"""The difference of two states, or of two events of a class, as a change that `codecs.changed` makes again.

Nothing here is a piece of a stream. So, unlike in `codecs.changes`, new values are written whole and not part by part,
and large ones are compared by their bytes: this is done several times in each turn of an agent.
"""

from __future__ import annotations

import marshal
from itertools import compress, count
from operator import is_not
from typing import Any

from agenttape_core.integration.codecs import NOTHING

_BARE = frozenset({int, float, bool, type(None)})
_VERSION = 2
"""Of marshal's format: the last one in which equal data always have equal bytes."""


def difference(before: Any, after: Any) -> Any:
    """Return the change that makes one plain value of another; `NOTHING` if they are equal."""
    if before is after:
        return NOTHING
    cls = type(after)
    if cls is type(before):
        if cls is dict and before:
            return _in_dict(before, after)
        if cls is list and before:
            return _in_list(before, after)
        if _are_equal(before, after):
            return NOTHING
    return after if cls in _BARE else {"$to": after}


def _are_equal(before: Any, after: Any) -> bool:
    """Return whether values are equal, and of the same types."""
    if type(after) is str:
        return type(before) is str and before == after
    return marshal.dumps(before, _VERSION) == marshal.dumps(after, _VERSION)


def _in_dict(before: dict[str, Any], after: dict[str, Any]) -> Any:
    if [*after][: len(before)] != [*before]:  # a change puts new keys behind the others
        return {"$to": after}
    changed = {
        key: change
        for key, item in after.items()
        if (old := before.get(key, NOTHING)) is not item and (change := difference(old, item)) is not NOTHING
    }
    return {"$in": changed} if changed else NOTHING


def _in_list(before: list[Any], after: list[Any]) -> Any:
    shorter = min(len(before), len(after))
    if len(before) - shorter > shorter:  # what is gone would take more than what is left
        return {"$to": after}
    same = next(compress(count(), map(is_not, before, after)), shorter)
    changed: dict[str, Any] = {}
    for n in range(same, len(after)):
        change = difference(before[n], after[n]) if n < len(before) else {"$to": after[n]}
        if change is not NOTHING:
            changed[f"#{n}"] = change
    changed |= {f"#{n}": {"$gone": True} for n in range(len(after), len(before))}
    return {"$items": changed} if changed else NOTHING

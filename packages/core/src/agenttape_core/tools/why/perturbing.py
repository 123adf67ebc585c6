"""Other outcomes of the same form: each value in them is another one, so that whatever follows from one moves."""

from __future__ import annotations

import json
from collections.abc import Callable

from agenttape_core.schema import Outcome, Plain
from agenttape_core.schema.plain import leaves
from agenttape_core.tools.minimise.outcomes import Tree, outcome_with, tree_of
from agenttape_core.tools.minimise.trees import in_text

_FORM = frozenset({"type", "role", "status", "id", "name", "tool_call_id", "index", "call_id"})
"""Keys of recorded objects that say what they are and belong to: with others, the program would take another way."""

Change = Callable[[Plain], Plain]
"""Returns another text or number."""


def turned(leaf: Plain) -> Plain:
    """Return a value of the same form: letters and digits are the next ones, a number is greater by one."""
    if isinstance(leaf, str):
        return "".join(map(_next, leaf))
    return leaf + 1 if isinstance(leaf, int | float) and not isinstance(leaf, bool) else leaf


def longer(leaf: Plain) -> Plain:
    """Return a value with more in it: a text with one word more, a number that is far greater."""
    if isinstance(leaf, str):
        return f"{leaf} zzz"
    return leaf + 1000 if isinstance(leaf, int | float) and not isinstance(leaf, bool) else leaf


def replacing(text: str) -> Change:
    """Return a change of nothing but the occurrences of a text."""
    other = turned(text)

    def changed(leaf: Plain) -> Plain:
        if isinstance(leaf, str):
            return leaf.replace(text, other)
        is_number = isinstance(leaf, int | float) and not isinstance(leaf, bool)
        return turned(leaf) if is_number and str(leaf) == text else leaf

    return changed


def _next(char: str) -> str:
    if char in "9zZ":
        return {"9": "0", "z": "a", "Z": "A"}[char]
    return chr(ord(char) + 1) if char.isascii() and char.isalnum() else char


def perturbed(outcome: Outcome, change: Change) -> Outcome | None:
    """Return another outcome of the same form; `None` if there is nothing in it that could be another.

    Args:
        outcome: The recorded one.
        change: Changes a text or a number.
    """
    tree = tree_of(outcome)
    other: Tree = {name: _changed(part, change, in_object=False) for name, part in tree.items()}
    return outcome_with(outcome, other) if other != tree else None


def _changed(plain: Plain, change: Change, *, in_object: bool) -> Plain:
    if isinstance(plain, list):
        return [_changed(item, change, in_object=in_object) for item in plain]
    if isinstance(plain, str) and (held := in_text(plain)) is not None:
        return json.dumps(_changed(held, change, in_object=False), ensure_ascii=False)
    if not isinstance(plain, dict):
        return change(plain)
    is_object = in_object or any(key.startswith("$") for key in plain)
    return {
        key: item if is_object and key in _FORM else _changed(item, change, in_object=is_object and key not in _DATA)
        for key, item in plain.items()
    }


_DATA = frozenset({"args", "arguments", "metadata", "artifact", "input"})
"""Keys of recorded objects below which there is data of the program."""


def holds(plain: Plain, text: str) -> bool:
    """Return whether a text occurs in plain data, as a part of a text or as a number."""
    return any(text in leaf if isinstance(leaf, str) else str(leaf) == text for leaf in leaves(plain))

"""Other outcomes of the same form: each value in them is another one, so that whatever follows from one moves."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from agenttape_core.experiments.strategies.outcome_trees import Tree, in_text, outcome_with, tree_of
from agenttape_core.schema import Outcome, Plain
from agenttape_core.schema.plain import Path, leaves, replaced_in_chunk

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
    other: Tree = {
        name: _changed_chunks(part, change) if name == "chunks" else _changed(part, change, in_object=False)
        for name, part in tree.items()
    }
    return outcome_with(outcome, other) if other != tree else None


def _changed_chunks(chunks: list[Plain], change: Change) -> list[Plain]:
    """Return the chunks of a stream with its texts changed as if they were whole: they are cut anywhere."""
    others = {
        path: _in_pieces(_changed_text("".join(pieces), change), pieces)
        for path, pieces in _pieces(chunks).items()
        if not _is_form(path)
    }

    def on_text(path: Path, text: str) -> str:
        return others[path].pop(0) if path in others else text

    texts = [replaced_in_chunk(chunk, on_text) for chunk in chunks]
    return [
        _changed(chunk, lambda leaf: leaf if isinstance(leaf, str) else change(leaf), in_object=False)
        for chunk in texts
    ]


def _pieces(chunks: Sequence[Plain]) -> dict[Path, list[str]]:
    """Return the pieces of each text of a stream, by its path in the chunks."""
    found: dict[Path, list[str]] = {}

    def on_text(path: Path, text: str) -> str:
        if not path or path[-1] is not None:  # else it is a key
            found.setdefault(path, []).append(text)
        return text

    for chunk in chunks:
        replaced_in_chunk(chunk, on_text)
    return found


def _in_pieces(text: str, pieces: Sequence[str]) -> list[str]:
    """Cut a text as another one was cut; what is longer goes with the last piece that is not empty."""
    cut, start = [], 0
    for piece in pieces:
        cut.append(text[start : start + len(piece)])
        start += len(piece)
    if start < len(text):
        last = max((place for place, piece in enumerate(pieces) if piece), default=0)
        cut[last] += text[start:]
    return cut


def _is_form(path: Path) -> bool:
    return bool(path) and path[-1] in _FORM and not _DATA.intersection(step for step in path if isinstance(step, str))


def _changed_text(text: str, change: Change) -> str:
    held = in_text(text)
    if held is None:
        return str(change(text))
    return json.dumps(_changed(held, change, in_object=False), ensure_ascii=False)


def _changed(plain: Plain, change: Change, *, in_object: bool) -> Plain:
    if isinstance(plain, list):
        return [_changed(item, change, in_object=in_object) for item in plain]
    if isinstance(plain, str):
        return _changed_text(plain, change)
    if not isinstance(plain, dict):
        return change(plain)
    is_object = in_object or any(key.startswith("$") for key in plain)
    return {
        key: item if is_object and key in _FORM else _changed(item, change, in_object=is_object and key not in _DATA)
        for key, item in plain.items()
    }


_DATA = frozenset({"args", "arguments", "metadata", "artifact", "input"})
"""Keys of recorded objects below which there is data of the program."""


def holds(outcome: Outcome, text: str) -> bool:
    """Return whether a text occurs in an outcome, as a part of a text or as a number."""
    for name, part in tree_of(outcome).items():
        whole = ["".join(pieces) for pieces in _pieces(part).values()] if name == "chunks" else []
        if any(text in leaf if isinstance(leaf, str) else str(leaf) == text for leaf in (*leaves(part), *whole)):
            return True
    return False

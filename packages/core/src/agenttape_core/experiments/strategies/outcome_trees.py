"""Recorded outcomes as trees of plain data, which can be made smaller, or replaced by others of the same form."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from agenttape_core.schema import Outcome, Plain
from agenttape_core.schema.plain import Path as Place
from agenttape_core.schema.plain import leaves, replaced_in_chunk

Path = tuple[Any, ...]
Way = Literal["drop", "empty"]  # the ways in which a part becomes smaller: it's removed, or emptied
JSON = "<json>"  # the step of a path from a text into the JSON that it holds
_COVERS = frozenset({"message"})  # keys of recorded objects whose value is an object that is always there
_KINDS = frozenset({"type", "role", "status"})  # keys of recorded objects whose text is one of a few words
_STRUCTURE = frozenset({"type", "role", "id", "status", "message", "messages", "generations", "content"})
"""Keys of recorded objects that objects of frameworks can hardly be without."""


def in_text(text: str) -> Plain:
    """Return the JSON that a text holds, if that's a list or a dict; else `None`."""
    if text.lstrip()[:1] not in {"[", "{"} or len(text) < 2:  # noqa: PLR2004 - the two brackets
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, list | dict) and found else None


def children(plain: Plain) -> Iterator[tuple[Path, Plain]]:
    """Yield the parts of plain data, each with its path. Those of a tagged value and of a text of JSON are inside."""
    if isinstance(plain, dict):
        tag = _tag(plain)
        if tag is not None:
            yield from (((tag, *path), part) for path, part in children(plain[tag]) if not isinstance(plain[tag], str))
            return
        for key, item in plain.items():
            if key in _COVERS and isinstance(item, dict):
                yield from (((key, *path), part) for path, part in children(item))
            else:
                yield (key,), item
    elif isinstance(plain, list):
        yield from (((number,), item) for number, item in enumerate(plain))
    elif isinstance(plain, str) and (held := in_text(plain)) is not None:
        yield from (((JSON, *path), part) for path, part in children(held))


def at_depth(plain: Plain, depth: int, path: Path = ()) -> Iterator[tuple[Path, Plain]]:
    """Yield the parts at a depth, each with its path."""
    if depth == 0:
        yield path, plain
        return
    for below, part in children(plain):
        yield from at_depth(part, depth - 1, (*path, *below))


def texts(plain: Plain, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield each text that holds no JSON, with its path."""
    if isinstance(plain, str) and in_text(plain) is None:
        yield path, plain
    for below, part in children(plain):
        yield from texts(part, (*path, *below))


def emptied(plain: Plain) -> Plain:
    """Return plain data of the same form, emptied. Numbers stay, as no number is smaller than another."""
    if isinstance(plain, str):
        return ""
    if isinstance(plain, list):
        return []
    if not isinstance(plain, dict):
        return plain
    tag = _tag(plain)
    return {} if tag is None else {tag: _emptied_in(tag, plain[tag])}


def _emptied_in(tag: str, body: Plain) -> Plain:
    if isinstance(body, dict):
        return _emptied_body(body)
    if isinstance(body, list):
        return [emptied(item) for item in body] if tag == "$tuple" else []
    return body


def _emptied_body(body: Mapping[str, Plain]) -> Plain:
    """Return the body of an object, reduced to its structure."""
    kept: dict[str, Plain] = {}
    for key, item in body.items():
        if key in _KINDS or (key == "id" and isinstance(item, list)):
            kept[key] = item
        elif key == "message" and isinstance(item, dict):
            kept[key] = _emptied_body(item)
        elif key in _STRUCTURE and key != "id":
            kept[key] = emptied(item)
    return kept


def hollow(plain: Plain) -> Plain:
    """Return plain data with the same keys, and empty texts and lists."""
    if isinstance(plain, str):
        held = in_text(plain)
        return json.dumps(hollow(held)) if held is not None else ""
    if isinstance(plain, list):
        return []
    if not isinstance(plain, dict):
        return plain
    # The type of a recorded object isn't a part of its content.
    kinds = {key for key, item in plain.items() if key in _KINDS or (key.startswith("$") and isinstance(item, str))}
    return {key: item if key in kinds else hollow(item) for key, item in plain.items()}


def without(plain: Plain, changes: Mapping[Path, Way], path: Path = ()) -> Plain:
    """Return plain data with some parts left out or emptied."""
    if not changes:
        return plain
    if changes.get(path) == "empty":
        return emptied(plain)
    if isinstance(plain, dict | list):
        items = plain.items() if isinstance(plain, dict) else enumerate(plain)
        kept = {key: without(item, changes, (*path, key)) for key, item in items if changes.get((*path, key)) != "drop"}
        return kept if isinstance(plain, dict) else list(kept.values())
    if isinstance(plain, str) and any(len(one) > len(path) and one[: len(path)] == path for one in changes):
        held = in_text(plain)
        return json.dumps(without(held, changes, (*path, JSON)), ensure_ascii=False) if held is not None else plain
    return plain


def replaced_at(plain: Plain, path: Path, text: Plain) -> Plain:
    """Return plain data with another part at a path."""
    if not path:
        return text
    step, rest = path[0], path[1:]
    if step == JSON and isinstance(plain, str):
        return json.dumps(replaced_at(in_text(plain), rest, text), ensure_ascii=False)
    if isinstance(plain, list):
        return [replaced_at(item, rest, text) if number == step else item for number, item in enumerate(plain)]
    return {key: replaced_at(item, rest, text) if key == step else item for key, item in plain.items()}


def may_be_dropped(path: Path) -> bool:
    """Return whether a part may be left out, by its path in an outcome. No field, tag or structure may be."""
    if len(path) < 2 or path[-1] == JSON or _is_fixed(path):  # noqa: PLR2004 - a field, and what is below it
        return False
    step = path[-1]
    if isinstance(step, str) and step.startswith("$"):
        return False
    in_tag = len(path) > 1 and isinstance(path[-2], str) and path[-2].startswith("$")
    if isinstance(step, int):
        return not (in_tag and path[-2] == "$tuple")
    return not (step in _STRUCTURE and _in_object(path))


def _in_object(path: Path) -> bool:
    """Return whether a key belongs to an object of a framework, and not to data of the program."""
    before = path[:-1]
    return bool(before) and (
        (isinstance(before[-1], str) and before[-1].startswith("$"))
        or (before[-1] == "message")
        or (
            isinstance(before[-1], int) and any(step in {"tool_calls", "content", "messages"} for step in before[-2:-1])
        )
    )


def may_be_emptied(path: Path) -> bool:
    """Return whether a part may be emptied, by its path in an outcome."""
    return not _is_fixed(path) and not (len(path) > 1 and path[-1] in _KINDS and _in_object(path))


def _is_fixed(path: Path) -> bool:
    """Return whether a part belongs to an effect, which is there as a whole or not at all."""
    return path[0] == "effects" and len(path) > 2  # noqa: PLR2004 - the field, and the place of the effect


def _tag(plain: Mapping[str, Plain]) -> str | None:
    if len(plain) == 1:
        (key,) = plain
        if isinstance(key, str) and key.startswith("$") and not key.startswith("$$"):
            return key
    return None


Tree = dict[str, Plain]  # the fields of an outcome that have content, as plain data

_OF_ERRORS = ("message", "args", "attributes")


def tree_of(outcome: Outcome) -> Tree:
    """Return the fields of an outcome that can be made smaller."""
    plain = outcome.model_dump()
    tree: Tree = {name: plain[name] for name in ("value", "chunks") if plain[name] is not None}
    if plain["effects"]:
        tree["effects"] = plain["effects"]
    if plain["error"] is not None:
        tree["error"] = {name: plain["error"][name] for name in _OF_ERRORS}
    return tree


def outcome_with(outcome: Outcome, tree: Tree) -> Outcome:
    """Return an outcome with other fields."""
    plain: dict[str, Any] = outcome.model_dump()
    plain.update({name: part for name, part in tree.items() if name != "error"})
    plain["usage"] = None
    if outcome.error is not None and "error" in tree:
        plain["error"] = {**plain["error"], **tree["error"]}
    chunks = plain["chunks"]
    if chunks is not None:
        plain["effects"] = [{**one, "after": min(one["after"], len(chunks))} for one in plain["effects"]]
        plain["given_up"] = min(plain["given_up"], len(chunks)) if plain["given_up"] is not None else None
    return Outcome.model_validate(plain)


def smaller_tree(tree: Tree, smaller: Callable[[Plain], Plain]) -> Tree:
    """Return the fields of an empty outcome: its value and its last chunk as `emptied` or `hollow` leaves them."""
    small: Tree = {}
    for name, part in tree.items():
        if name == "chunks":
            small[name] = [smaller(chunk) for chunk in part[-1:]]  # readers of streams want at least one
        elif name == "effects":
            small[name] = []
        elif name == "error":
            small[name] = {"message": "", "args": [], "attributes": {}}
        else:
            small[name] = smaller(part)
    return small


# -- Other outcomes of the same form: each value in them is another one, so that whatever follows from one moves.


_FORM = frozenset({"type", "role", "status", "id", "name", "tool_call_id", "index", "call_id"})
"""Keys of recorded objects that name their type and owner: with other values, the program would take another path."""

Change = Callable[[Plain], Plain]  # returns another text or number


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
    """Return a change of only the occurrences of a text."""
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
    """Return another outcome of the same form; `None` if no part of it could differ."""
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
        if not (path and path[-1] in _FORM and not any(isinstance(step, str) and step in _DATA for step in path))
    }

    def on_text(path: Place, text: str) -> str:
        return others[path].pop(0) if path in others else text

    texts = [replaced_in_chunk(chunk, on_text) for chunk in chunks]
    return [
        _changed(chunk, lambda leaf: leaf if isinstance(leaf, str) else change(leaf), in_object=False)
        for chunk in texts
    ]


def _pieces(chunks: Sequence[Plain]) -> dict[Place, list[str]]:
    """Return the pieces of each text of a stream, by its path in the chunks."""
    found: dict[Place, list[str]] = {}

    def on_text(path: Place, text: str) -> str:
        if not path or path[-1] is not None:  # else it is a key
            found.setdefault(path, []).append(text)
        return text

    for chunk in chunks:
        replaced_in_chunk(chunk, on_text)
    return found


def _in_pieces(text: str, pieces: Sequence[str]) -> list[str]:
    """Cut a text like another one; the surplus goes with the last piece that isn't empty."""
    cut, start = [], 0
    for piece in pieces:
        cut.append(text[start : start + len(piece)])
        start += len(piece)
    if start < len(text):
        last = max((place for place, piece in enumerate(pieces) if piece), default=0)
        cut[last] += text[start:]
    return cut


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

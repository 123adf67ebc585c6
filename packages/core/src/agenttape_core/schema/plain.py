"""Plain data, and walks over it: its leaves, and the same data with other leaves.

Redaction has its own walks, because there a key decides about the value below it. So have the checks of files, which
name the place of a mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from agenttape_core.errors import UnreadableValueError

Plain = Any
"""Plain data, see `agenttape_core.schema.values`. Spelled `Any`: a recursive alias would only add casts."""

Path = tuple[Any, ...]  # the steps from the root of plain data to a place in it: keys, and positions in lists

OnText = Callable[[Path, str], str]  # returns what replaces a text, given the path to it


def leaves(plain: Plain) -> Iterator[Plain]:
    """Yield each value that is neither a dict nor a list, in order. Keys are not values."""
    if isinstance(plain, dict):
        for item in plain.values():
            yield from leaves(item)
    elif isinstance(plain, list):
        for item in plain:
            yield from leaves(item)
    else:
        yield plain


def replaced(plain: Plain, leaf: Callable[[Plain], Plain], key: Callable[[str], str] | None = None) -> Plain:
    """Return plain data with each leaf replaced by what `leaf` returns for it, and each key by what `key` returns."""
    if isinstance(plain, dict):
        pairs = plain.items()
        return {name if key is None else key(name): replaced(item, leaf, key) for name, item in pairs}
    if isinstance(plain, list):
        return [replaced(item, leaf, key) for item in plain]
    return leaf(plain)


def replaced_in_chunk(chunk: Plain, on_text: OnText, path: Path = ()) -> Plain:
    """Return a chunk of a stream with its texts and keys replaced.

    The pieces of one text have one path in all chunks of a stream, wherever the provider puts them.
    """
    if isinstance(chunk, str):
        return on_text(path, chunk)
    if isinstance(chunk, list):
        return [
            replaced_in_chunk(item, on_text, (*path, place_in_list(item, number))) for number, item in enumerate(chunk)
        ]
    if not isinstance(chunk, dict):
        return chunk
    return {
        # `None` ends the path of a key, which is no path of a value.
        on_text((*path, key, None), key): replaced_in_chunk(
            item, on_text, (*path, *(place_below_tag(key, item) if key.startswith("$") else (key,)))
        )
        for key, item in chunk.items()
    }


def place_below_tag(tag: str, body: Plain) -> Path:
    """Return the step from a tag to its body: streams mix tagged texts with dicts that have `content`."""
    return (tag, "content") if isinstance(body, str) else (tag,)


def place_in_list(item: Plain, number: int) -> Any:
    """Return the step of a path to an item of a list: its `index`, because providers number the blocks of a stream."""
    index = item.get("index") if isinstance(item, dict) else None
    return ("index", index) if isinstance(index, int | str) else number


def expect_dict(plain: Plain, what: str) -> dict[str, Plain]:
    """Return the plain data if it is a dict.

    Raises:
        UnreadableValueError: If it is not.
    """
    if type(plain) is not dict:
        raise UnreadableValueError(what, f"expected a mapping, found {type(plain).__name__}")
    return plain

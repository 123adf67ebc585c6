"""The functions that installed distributions publish for tools, found without `importlib.metadata` where that can be.

Importing that takes longer than a whole `git diff` of a cassette; it only needs one file in each distribution.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.machinery import PathFinder
from operator import attrgetter
from typing import Any

from agenttape_core.lazy_patterns import Lazy

_ENDS = (".dist-info", ".egg-info")
_ENTRY = Lazy(r"[^=#;\s][^=]*=\s*([\w.]+)\s*:\s*([\w.]+)\s*(?:\[.*\])?\s*")


def published(group: str) -> Iterator[Callable[..., Any]]:
    """Yield the objects that the entry points of a group name.

    If two distributions have the same name, the first one on the path counts. `group` is such as `agenttape.readers`.
    Raises `ImportError` if a module cannot be imported, and `AttributeError` if it has no such object.
    """
    try:
        found = list(_named(group))
    except _Elsewhere:
        from importlib.metadata import entry_points

        yield from (point.load() for point in entry_points(group=group))
    else:
        yield from (attrgetter(name)(import_module(module)) for module, name in found)


class _Elsewhere(Exception):  # noqa: N818 - a signal within this module
    """Distributions may be somewhere else than in folders."""


def _named(group: str) -> Iterator[tuple[str, str]]:
    """Yield the module and the name of each entry."""
    if any(hasattr(finder, "find_distributions") and finder is not PathFinder for finder in sys.meta_path):
        raise _Elsewhere
    seen = set()
    for name, folder in _distributions():
        if name not in seen:
            seen.add(name)
            text = _text(os.path.join(folder, "entry_points.txt"))  # noqa: PTH118 - see the module docstring
            if f"[{group}]".encode() in text:
                yield from _entries(text.decode(), group)


def _distributions() -> Iterator[tuple[str, str]]:
    """Yield the distributions on the path: their normalized names, and the folders of their metadata."""
    for place in sys.path:
        try:
            names = os.listdir(place or ".")  # noqa: PTH208
        except NotADirectoryError:
            raise _Elsewhere from None  # an archive
        except OSError:
            continue
        for name in names:
            if name.endswith(_ENDS):
                yield re.sub(r"[-_.]+", "-", name.rpartition(".")[0].partition("-")[0]).lower(), f"{place}/{name}"
            elif name == "EGG-INFO" or name.endswith(".egg"):
                raise _Elsewhere


def _text(path: str) -> bytes:
    try:
        with open(path, "rb") as stream:  # noqa: PTH123
            return stream.read()
    except (FileNotFoundError, NotADirectoryError):
        return b""


def _entries(text: str, group: str) -> Iterator[tuple[str, str]]:
    section = ""
    for line in text.splitlines():
        if line.startswith("["):
            section = line.strip()
        elif section == f"[{group}]" and (match := _ENTRY.fullmatch(line.strip())):
            yield match[1], match[2]

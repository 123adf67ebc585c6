"""The cassettes that a bare name means."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path, PurePath

import click

from agenttape_core.errors import shown_path
from agenttape_core.settings import load_settings
from agenttape_core.storage import GOLDEN, SUFFIXES, cassette_path, is_cassette, is_pending, stem_of

_SHOWN, _NEAR = 4, 3
_OF_OTHERS = frozenset({"__pycache__", "node_modules", "site-packages"})


def named(name: str, begun: Iterable[Path] = ()) -> Path | None:
    """Return the cassette that a name means: the one in the folder of the settings, or else the only one below here.

    A name may have folders before it, as many as tell it from others: `test_desk/test_hi`.

    Args:
        name: The name, without a suffix.
        begun: Cassettes whose first recordings have not ended; they need not be there.

    Returns:
        Its file; `None` if there is none of this name.

    Raises:
        UsageError: If several have it.
    """
    configured = cassette_path(name, load_settings().cassette_dir)
    if isinstance(configured, Path) and configured.is_file():
        return configured
    found = dict.fromkeys(path for path in begun if _is_called(path, name))
    found |= dict.fromkeys(path for path in _below() if _is_called(path, name) and is_cassette(path))
    if isinstance(configured, Path) and configured in found:
        return configured
    if len(found) > 1:
        shown = list(map(shown_path, found))
        lines = [f"{name} is the name of {len(found)} cassettes; name one by its path:", *shown[:_SHOWN]]
        more = [f"and {len(shown) - _SHOWN} more"] if len(shown) > _SHOWN else []
        raise click.UsageError("\n  ".join([*lines, *more]))
    return next(iter(found), None)


def alike(name: str) -> str:
    """Return which cassettes below here have nearly this name, as advice; empty if none has."""
    stems = {stem_of(path): path for path in _below()}
    last = PurePath(name).name
    near = get_close_matches(last, stems, n=_NEAR) or [stem for stem in stems if last and last in stem][:_NEAR]
    meant = [shown_path(stems[stem]) for stem in near if is_cassette(stems[stem])]
    return f"did you mean:  {' or '.join(meant)}" if meant else ""


def _is_called(path: Path, name: str) -> bool:
    wanted = PurePath(name).parts
    return bool(wanted) and (*path.parent.parts, stem_of(path))[-len(wanted) :] == wanted


def _below() -> Iterator[Path]:
    """Yield the files below the current folder that may be cassettes, sorted; hidden folders are left out."""
    for folder, inner, files in os.walk("."):
        inner[:] = sorted(name for name in inner if not name.startswith(".") and name not in _OF_OTHERS)
        for name in sorted(files):
            if may_be_cassette(name):
                yield Path(folder, name)


def may_be_cassette(name: str) -> bool:
    """Return True if a file in a folder of cassettes has the name of one, and neither waits nor holds golden values."""
    own = name.endswith(SUFFIXES) and not name.endswith(GOLDEN) and not is_pending(name)
    return own and not name.startswith(".")

"""Cassettes that belong to no test: the test was renamed, or is gone."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from agenttape_core.pytest_plugin.cassette_options import own_cassette
from agenttape_core.pytest_plugin.naming import FOLDER
from agenttape_core.storage import GOLDEN, SUFFIXES, is_pending

if TYPE_CHECKING:
    import pytest

_DERIVED = ".derived."
_ALIKE = 0.6
"""The similarity of two names, from 0 to 1, from which on one may be the other after a rename."""


def find(items: Sequence[pytest.Item], config: pytest.Config) -> list[str]:
    """Return the cassettes in the folders of the collected modules that belong to no test.

    Only cassettes that are named after tests count. A module of which single tests were selected by their ids is left
    out, because its other tests are not known.

    Args:
        items: All tests, including the deselected ones.
        config: The configuration of the run.

    Returns:
        Paths from the root of the tests.
    """
    partial = {Path(arg.partition("::")[0]).resolve() for arg in config.args if "::" in arg}
    modules = {item.path for item in items} - partial
    known = {own_cassette(item) for item in items}
    found = [path for module in sorted(modules) for path in _cassettes(module) if path not in known]
    patterns = config.getini("python_files")
    for folder in sorted({module.parent for module in modules}):
        found += _without_module(folder, patterns)
    return [os.path.relpath(path, config.rootpath) for path in found]


def renamed(path: Path, module: Path) -> Path | None:
    """Return the cassette of a test that is not there, under the name that the test or its module had before.

    That is one of the same name of a module that is gone; or, of the same module, the most similar one of those whose
    test is gone.

    Args:
        path: The cassette of the test.
        module: The file of the test.
    """
    folder = module.parent / FOLDER
    gone = (below / path.name for below in sorted(folder.glob("*/")) if not any(module.parent.glob(f"{below.name}.*")))
    moved = [old for old in gone if old.is_file()]
    if moved:
        return moved[0] if len(moved) == 1 else None
    source = module.read_text(encoding="utf-8", errors="replace")
    left = {_said(old): old for old in _cassettes(module) if not _is_defined(old, source)}
    nearest = difflib.get_close_matches(_said(path), left, n=1, cutoff=_ALIKE)
    return left[nearest[0]] if nearest else None


def _said(cassette: Path) -> str:
    """Return the name of a cassette without what all names of tests have in common."""
    return cassette.name.removesuffix(".yaml").removeprefix("test_")


def _is_defined(cassette: Path, source: str) -> bool:
    """Return whether the test that a cassette is named after is in the source of its module."""
    function = cassette.name.partition("[")[0].removesuffix(".yaml").rpartition(".")[2].partition("~")[0]
    return re.search(rf"\bdef {re.escape(function)}\b", source) is not None


def _cassettes(module: Path) -> list[Path]:
    return _files(module.parent / FOLDER / module.stem)


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*")) if path.is_file() and _is_cassette(path.name)]


def _without_module(folder: Path, patterns: Sequence[str]) -> Iterable[Path]:
    """Return the cassettes of modules that are gone. Folders that are not named after a module are the user's own."""
    for below in sorted((folder / FOLDER).glob("*/")):
        was_module = "." not in below.name and any(fnmatch(f"{below.name}.py", pattern) for pattern in patterns)
        if was_module and not any(folder.glob(f"{below.name}.*")):
            yield from _files(below)


def _is_cassette(name: str) -> bool:
    own = name.endswith(SUFFIXES) and not name.startswith(".")
    return own and not name.endswith(GOLDEN) and _DERIVED not in name and not is_pending(name)

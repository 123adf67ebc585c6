"""Cassettes that belong to no test: the test was renamed, or is gone."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from agenttape_core.errors import ConfigurationError
from agenttape_core.pytest_plugin.cassette_options import module_folder, own_cassette
from agenttape_core.pytest_plugin.naming import FOLDER
from agenttape_core.storage import Location, may_be_cassette, stem_of

if TYPE_CHECKING:
    import pytest

_DERIVED = ".derived."
_ALIKE = 0.6  # the similarity of two names, from 0 to 1, from which on one may be the other after a rename


def find(items: Sequence[pytest.Item], config: pytest.Config) -> list[str]:
    """Return the cassettes in the folders of the collected modules that belong to no test.

    Only cassettes that are named after tests count. A module of which single tests were selected by their ids is left
    out, because its other tests are not known. Returns paths from the root of the tests.
    """
    partial = {Path(arg.partition("::")[0]).resolve() for arg in config.args if "::" in arg}
    folders = {
        (folder, item.path.parent)
        for item in items
        if item.path not in partial and isinstance(folder := module_folder(item), Path)
    }
    known = {_of(item) for item in items}
    found = [path for folder, _ in sorted(folders) for path in _files(folder) if path not in known]
    patterns = config.getini("python_files")
    for above, modules in sorted({(folder.parent, modules) for folder, modules in folders}):
        found += _without_module(above, modules, patterns)
    return [os.path.relpath(path, config.rootpath) for path in found]


def _of(item: pytest.Item) -> Location | None:
    try:
        return own_cassette(item)
    except ConfigurationError:  # the test itself says so
        return None


def renamed(path: Path, module: Path) -> Path | None:
    """Return the cassette of a test that is not there, under the name that the test or its module had before.

    That is one of the same name of a module that is gone; or, of the same module, the most similar one of those whose
    test is gone.
    """
    beside = module.parent / FOLDER / module.stem / path.name
    if beside != path and beside.is_file():  # the project has named a folder since
        return beside
    folder = path.parent.parent
    gone = (below / path.name for below in sorted(folder.glob("*/")) if not any(module.parent.glob(f"{below.name}.*")))
    moved = [old for old in gone if old.is_file()]
    if moved:
        return moved[0] if len(moved) == 1 else None
    source = module.read_text(encoding="utf-8", errors="replace")
    left = {_said(old): old for old in _files(path.parent) if not _is_defined(old, source)}
    nearest = difflib.get_close_matches(_said(path), left, n=1, cutoff=_ALIKE)
    return left[nearest[0]] if nearest else None


def _said(cassette: Path) -> str:
    """Return the name of a cassette without what all names of tests have in common."""
    return stem_of(cassette).removeprefix("test_")


def _is_defined(cassette: Path, source: str) -> bool:
    """Return whether the test that a cassette is named after is in the source of its module."""
    function = stem_of(cassette).partition("[")[0].rpartition(".")[2].partition("~")[0]
    return re.search(rf"\bdef {re.escape(function)}\b", source) is not None


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*")) if _is_cassette(path)]


def _without_module(above: Path, modules: Path, patterns: Sequence[str]) -> Iterable[Path]:
    """Return the cassettes of modules that are gone. Folders that are not named after a module are the user's own."""
    for below in sorted(above.glob("*/")):
        was_module = "." not in below.name and any(fnmatch(f"{below.name}.py", pattern) for pattern in patterns)
        if was_module and not any(modules.glob(f"{below.name}.*")) and not (modules / below.name).is_dir():
            yield from _files(below)


def _is_cassette(path: Path) -> bool:
    return may_be_cassette(path.name) and _DERIVED not in path.name and path.is_file()

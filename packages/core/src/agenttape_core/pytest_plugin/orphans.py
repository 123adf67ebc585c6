"""Cassettes that belong to no test: the test was renamed, or is gone."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from agenttape_core.pytest_plugin.cassette_options import own_cassette
from agenttape_core.pytest_plugin.golden import GOLDEN
from agenttape_core.pytest_plugin.naming import FOLDER
from agenttape_core.storage import SUFFIXES

if TYPE_CHECKING:
    import pytest

_DERIVED = ".derived."


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
    return own and not name.endswith(GOLDEN) and _DERIVED not in name

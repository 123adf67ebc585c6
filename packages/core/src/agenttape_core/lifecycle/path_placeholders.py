"""The folders of this run that are others elsewhere: of the project, of the user, of a test, and the current one."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

from agenttape_core.lifecycle.running_test import this_test
from agenttape_core.redaction.path_placeholders import HOME, PROJECT, WORKING, Places, can_be_place
from agenttape_core.schema import Header

_ROOTS = ("pyproject.toml", "setup.py", "setup.cfg", ".git")
"""The files and folders that the root of a project holds."""
_SIGNS = ("pytest.ini", "tox.ini", "uv.lock", "poetry.lock", "requirements.txt")
"""Files that tell the root of a project without any of those, such as one that was copied without its history."""


def places_of_run(given: Mapping[str, str], prior: Header | None) -> Places:
    """Return the places of this run.

    Args:
        given: Those that are known to whoever opens the session, by name.
        prior: The header of the recordings to match; `None` if there are none. Older cassettes know only given places.
    """
    if prior is not None and not prior.redaction.places:
        return Places(given, is_plain=True)
    test = this_test()
    found = {**(test.places() if test is not None else {}), **given}
    try:
        working = os.getcwd()  # noqa: PTH109 - a text is needed
    except OSError:  # somebody has removed it
        working = ""
    home = os.path.expanduser("~")  # noqa: PTH111
    project = _project_root(str(test.folder) if test is not None else working)
    return _places_among(tuple(found.items()), project, working, home)


@lru_cache(maxsize=64)
def _places_among(given: tuple[tuple[str, str], ...], project: str, working: str, home: str) -> Places:
    """Return the given places, and the folders that add information. The same in most sessions."""
    found = dict(given)
    if project != home:
        _add(found, PROJECT, project)
    if not _is_below(working, found.values()):
        _add(found, WORKING, working)
    _add(found, HOME, home)
    return Places(found)


def _add(found: dict[str, str], name: str, path: str) -> None:
    if can_be_place(path) and path not in found.values():
        found.setdefault(name, path)


def _is_below(path: str, folders: Collection[str]) -> bool:
    return path in folders or path.startswith(tuple([f"{folder}/" for folder in folders]))


@lru_cache(maxsize=64)
def _project_root(start: str) -> str:
    """Return the nearest folder at or above another one that looks like the root of a project; empty if none does."""
    return _nearest(start, _ROOTS) or _nearest(start, _SIGNS)


def _nearest(start: str, names: Sequence[str]) -> str:
    """Return the nearest folder at or above another one that holds one of these; empty if none does."""
    folder = start
    while folder:
        if any(os.path.exists(f"{folder}/{name}") for name in names):  # noqa: PTH110
            return folder
        above = os.path.dirname(folder)  # noqa: PTH120
        folder = above if above != folder else ""
    return ""

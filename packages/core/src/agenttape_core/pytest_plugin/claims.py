"""Claims of tests on files: no two tests of a run record to one file, in whatever process."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from agenttape_core.errors import ConfigurationError, shown_path

_CLAIMS: pytest.StashKey[dict[str, tuple[str, str]]] = pytest.StashKey()


def claim(path: Path | str, request: pytest.FixtureRequest) -> None:
    """Note that a test records to a cassette.

    Raises `ConfigurationError` if another test has recorded to it in this run, or to a file whose name differs in case
    only.
    """
    own = os.path.realpath(path) if isinstance(path, Path) else path
    nodeid = request.node.nodeid
    other, taken = _first_at(own.casefold(), (nodeid, own), request)
    if taken != own:
        raise _twins(own, f"{other} has recorded {Path(taken).name} in this run")
    if other != nodeid:
        raise ConfigurationError(
            f"{shown_path(own)} was recorded by {other} in this run, and would be replaced by that of this test\n"
            "  leave the name out of the marker, so that each test has its own cassette, or record it by one "
            "test and let the others replay it"
        )


def refuse_twin(path: Path) -> None:
    """Refuse, with `ConfigurationError`, a new cassette whose name differs from another's in case only."""
    with contextlib.suppress(FileNotFoundError):
        names = os.listdir(path.parent)  # noqa: PTH208 - names as they are spelled, on every system
        alike = [name for name in names if name.casefold() == path.name.casefold()]
        if alike and path.name not in alike:
            raise _twins(str(path), f"there is {alike[0]}", "; or remove that file, if its test is gone")


def _twins(own: str, other: str, remedy: str = "") -> ConfigurationError:
    return ConfigurationError(
        f"{shown_path(own)} and the cassette of another test would be one file on macOS and Windows, where case does "
        f"not matter: {other}\n"
        f"  rename this test, or its parameters: pytest.param(..., id='...'){remedy}"
    )


def _first_at(key: str, claimed: tuple[str, str], request: pytest.FixtureRequest) -> tuple[str, str]:
    """Return the first test in this run that has claimed a file, and its spelling of the name."""
    worker: dict[str, Any] | None = getattr(request.config, "workerinput", None)
    if worker is None:
        return request.config.stash.setdefault(_CLAIMS, {}).setdefault(key, claimed)
    # The temporary folders of all workers of pytest-xdist are in one folder.
    folder = request.getfixturevalue("tmp_path_factory").getbasetemp().parent / f"agenttape-{worker['testrunuid']}"
    folder.mkdir(exist_ok=True)
    place = folder / hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
    mine = folder / f"{worker['workerid']}.claim"
    mine.write_text(json.dumps(claimed), encoding="utf-8")
    with contextlib.suppress(FileExistsError):
        os.link(mine, place)  # unlike a new file, it appears with its content
    other, taken = json.loads(place.read_text(encoding="utf-8"))
    mine.unlink()
    return other, taken

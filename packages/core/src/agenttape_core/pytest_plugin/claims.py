"""Which test has which file: no two tests record to one, in whatever process of the run."""

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

    Args:
        path: The cassette, or its URL.
        request: Of the test.

    Raises:
        ConfigurationError: Another test has recorded to it in this run; or to one that is the same file where upper
            and lower case are one.
    """
    own = os.path.realpath(path) if isinstance(path, Path) else path
    nodeid = request.node.nodeid
    other, taken = _first_at(own.casefold(), (nodeid, own), request)
    if taken != own:
        raise _twins(own, f"{other} has recorded {Path(taken).name} in this run")
    if other != nodeid:
        raise ConfigurationError(
            f"{shown_path(own)} was recorded by {other} in this run, and would be replaced by that of this test\n"
            "  leave the name out of the marker, so that each test has a cassette of its own, or record it by one "
            "test and let the others replay it"
        )


def refuse_twin(path: Path) -> None:
    """Refuse a cassette that is not there while one is that is the same file where upper and lower case are one.

    Args:
        path: The cassette, which has its name from the test.

    Raises:
        ConfigurationError: There is such a file.
    """
    with contextlib.suppress(FileNotFoundError):
        names = os.listdir(path.parent)  # noqa: PTH208 - a name as it is written, which no other way tells everywhere
        alike = [name for name in names if name.casefold() == path.name.casefold()]
        if alike and path.name not in alike:
            raise _twins(str(path), f"there is {alike[0]}", "; or remove that file, if it is of no test any more")


def _twins(own: str, other: str, remedy: str = "") -> ConfigurationError:
    return ConfigurationError(
        f"{shown_path(own)} would be one file with that of another test on macOS and Windows, where upper and lower "
        f"case are the same: {other}\n"
        f"  rename this test, or its parameters: pytest.param(..., id='...'){remedy}"
    )


def _first_at(key: str, claimed: tuple[str, str], request: pytest.FixtureRequest) -> tuple[str, str]:
    """Return who has claimed a file first in this run: a test, and what it calls the file."""
    worker: dict[str, Any] | None = getattr(request.config, "workerinput", None)
    if worker is None:
        return request.config.stash.setdefault(_CLAIMS, {}).setdefault(key, claimed)
    # All workers of pytest-xdist have their temporary folders in one.
    folder = request.getfixturevalue("tmp_path_factory").getbasetemp().parent / f"agenttape-{worker['testrunuid']}"
    folder.mkdir(exist_ok=True)
    place = folder / hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
    mine = folder / f"{worker['workerid']}.claim"
    mine.write_text(json.dumps(claimed), encoding="utf-8")
    with contextlib.suppress(FileExistsError):
        os.link(mine, place)  # which, other than a new file, is there with what it says
    other, taken = json.loads(place.read_text(encoding="utf-8"))
    mine.unlink()
    return other, taken

"""The supported versions of a framework are written in one place, and the page about it says the same."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "packages" / "langchain" / "pyproject.toml").read_text(encoding="utf-8"))


def pinned(group: str) -> dict[str, str]:
    """The versions that a group pins, by distribution."""
    requirements = [Requirement(text) for text in PROJECT["dependency-groups"][group]]
    pins = {req.name: str(req.specifier).removeprefix("==").removesuffix(".*") for req in requirements}
    return {name: version for name, version in pins.items() if version}


def test_page_says_what_is_tested() -> None:
    """The table of versions shows what `make oldest` and `make newest` install."""
    page = (ROOT / "docs" / "langchain.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w-]+)`[^|]*\| ([\d.]+) \| ([\d.]*)", page, re.MULTILINE)
    shown = {name: (oldest, newest) for name, oldest, newest in rows}
    oldest, newest = pinned("oldest"), pinned("newest")
    assert shown == {
        "langchain-core": (oldest["langchain-core"], newest["langchain-core"]),
        "langchain": (oldest["langchain"], newest["langchain"]),
        "pydantic": (oldest["pydantic"], ""),
    }


def test_oldest_is_the_lower_bound() -> None:
    """The oldest tested version is the oldest that the package lets itself be installed with; the newest is allowed."""
    (needed,) = [Requirement(text) for text in PROJECT["project"]["dependencies"] if text.startswith("langchain-core")]
    oldest, newest = (Version(pinned(group)["langchain-core"]) for group in ("oldest", "newest"))
    assert f">={oldest}" in str(needed.specifier)
    assert newest in needed.specifier

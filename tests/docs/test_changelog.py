"""The fragments of the changelog: one sentence or two for each change that a user notices."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MOST = 25
"""The most words of a fragment."""


def test_fragments_are_short_and_of_a_known_type() -> None:
    """Each file in `changelog.d` is named `NAME.TYPE.md`, and has at most 25 words."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["towncrier"]
    types = {each["directory"] for each in settings["type"]}
    fragments = [path for path in (ROOT / settings["directory"]).iterdir() if path.name != ".gitignore"]
    named = [path.name.split(".") for path in fragments]
    assert [parts for parts in named if len(parts) != 3 or parts[1] not in types or parts[2] != "md"] == []
    long = {path.name: len(path.read_text(encoding="utf-8").split()) for path in fragments}
    assert {name: words for name, words in long.items() if not 0 < words <= MOST} == {}


def test_the_changelog_begins_where_fragments_are_inserted() -> None:
    """The changelog has the line below which a release inserts its notes, and the latest notes begin there."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    head, _, notes = text.partition("<!-- towncrier release notes start -->\n")
    assert head.startswith("# Changelog\n")
    assert notes.lstrip().startswith("## 0.1.0")

"""The viewer that is shipped: built from its sources, self-contained, in colours that can be read."""

from __future__ import annotations

import hashlib
import json
import re
from itertools import product
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4] / "packages" / "core"
SOURCES = ROOT / "viewer"
ASSETS = ROOT / "src" / "agenttape_core" / "tools" / "viewer" / "assets"
BUILT = ("build.mjs", "package.json", "tsconfig.json")


def own_sources() -> list[str]:
    """Return what the viewer is built from, as paths below its folder."""
    own = [each.relative_to(SOURCES).as_posix() for each in (SOURCES / "src").rglob("*") if each.is_file()]
    return sorted([*BUILT, *own])


@pytest.mark.parametrize("asset", ["viewer.js", "viewer.css"])
def test_built_from_these_sources(asset: str) -> None:
    """The asset names the hash of the sources as they are: it was built after they were last changed."""
    digest = hashlib.sha256()
    for name in own_sources():
        text = (SOURCES / name).read_text(encoding="utf-8").replace("\r\n", "\n")
        digest.update(f"{name}\n{text}\n".encode())
    assert f"Sources: sha256-{digest.hexdigest()}" in (ASSETS / asset).read_text(encoding="utf-8"), "run: make viewer"


def test_nothing_but_exact_versions() -> None:
    """What it is built with is named exactly, without a lock file that would name a registry."""
    package = json.loads((SOURCES / "package.json").read_text(encoding="utf-8"))
    for version in [*package["dependencies"].values(), *package["devDependencies"].values()]:
        assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    assert not [each for each in SOURCES.glob("*") if "lock" in each.name or each.name.startswith(".npm")]


def test_script_makes_no_markup_and_asks_nobody() -> None:
    """The sources make elements only through Preact, and use nothing that runs text or reaches a network."""
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function|fetch\(|XMLHttp|WebSocket|href="
    )
    for name in own_sources():
        if name.startswith("src/"):
            assert not re.search(forbidden, (SOURCES / name).read_text(encoding="utf-8")), name


def test_script_can_stand_in_a_page() -> None:
    """The script is ASCII, ends no element before its time, and holds the license of what it is built with."""
    script = (ASSETS / "viewer.js").read_text(encoding="utf-8")
    assert script.isascii()
    assert not re.search(r"</script|<!--", script, re.IGNORECASE)
    assert "Copyright (c) 2015-present Jason Miller" in script[:2_000]
    assert "</style" not in (ASSETS / "viewer.css").read_text(encoding="utf-8").lower()


TEXTS = (
    "text",
    "dim",
    "accent",
    "chat",
    "tool",
    "retrieval",
    "embeddings",
    "node",
    "http",
    "memory",
    "failed",
    "warning",
)
GROUNDS = ("bg", "panel", "hover", "sunken", "accent-bg")
PAIRS = [*product(TEXTS, GROUNDS), *((each, f"{each}-bg") for each in ("failed", "warning", "added", "removed"))]


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_colours_can_be_read(theme: int) -> None:
    """Each colour of text has a contrast of 4.5 and more on each ground it stands on, in light and in dark."""

    def luminance(colour: str) -> float:
        """Return how light a colour is, as WCAG 2 defines it."""
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    def contrast(one: str, other: str) -> float:
        """Return the contrast of two colours, as WCAG 2 defines it."""
        dark, light = sorted((luminance(one), luminance(other)))
        return (light + 0.05) / (dark + 0.05)

    styles = (SOURCES / "src" / "style.css").read_text(encoding="utf-8")
    colours = {name: both.split(", ")[theme] for name, both in re.findall(r"--([\w-]+): light-dark\((.+?)\);", styles)}
    assert [(text, ground) for text, ground in PAIRS if contrast(colours[text], colours[ground]) < 4.5] == []

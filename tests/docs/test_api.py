"""The page about the API lists the public modules; the site fills in what their docstrings say (see test_site)."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = re.findall(r"^## (agenttape\S+)$", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), re.MULTILINE)
SAME = {"agenttape_core.transports.httpx2": "agenttape_core.transports.httpx"}
IMPORT = re.compile(r"^\s*from (agenttape_\w+(?:\.\w+)*) import (?:\(([^)]*)\)|(.*))$", re.MULTILINE)


@pytest.mark.parametrize(
    "page",
    sorted({ROOT / "README.md", *(ROOT / "docs").glob("*.md")} - {ROOT / "docs" / "experiments.md"}),  # of contributors
    ids=lambda page: page.name,
)
def test_pages_import_what_is_public(page: Path) -> None:
    """Every name that a page imports is exported by a module of the page about the API."""
    for module, several, one in IMPORT.findall(page.read_text(encoding="utf-8")):
        names = {name.split(" as ")[0].strip() for name in (several or one).partition("#")[0].split(",")} - {""}
        named = {name for name in names if f"{module}.{name}" not in MODULES}
        assert SAME.get(module, module) in MODULES, f"{module} is not on the page"
        assert named <= set(import_module(module).__all__), module

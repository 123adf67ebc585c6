"""The packages as they are installed here say what their sources say."""

from __future__ import annotations

import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("package", ["core", "langchain", "langgraph", "llamaindex"])
def test_entry_points_are_installed(package: str) -> None:
    """Each entry point is installed, as an environment that's older would record less, and what it names is there."""
    project = tomllib.loads((ROOT / "packages" / package / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = {"console_scripts": project.get("scripts", {}), **project.get("entry-points", {})}
    expected = {(group, name, value) for group, points in groups.items() for name, value in points.items()}
    points = distribution(project["name"]).entry_points
    found = {(point.group, point.name, point.value) for point in points}
    assert found == expected, f"install it again: python -m pip install --no-deps -e packages/{package}"
    for point in points:
        point.load()

"""Each package needs what its framework brings along anyway, and nothing else."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PACKAGES = Path(__file__).resolve().parents[2] / "packages"
CORE = {"pydantic", "pyyaml"}
NEEDED = {
    "core": CORE,
    "langchain": {"agenttape-core", "langchain-core"},
    "langgraph": {"agenttape-core", "agenttape-langchain", "langgraph"},
    "llamaindex": {"agenttape-core", "llama-index-core", "llama-index-workflows"},
}
"""The run-time dependencies of each package; an integration adds its framework, and our core."""
FRAMEWORKS = {"langchain": "langchain-core", "langgraph": "langgraph", "llamaindex": "llama-index-core"}


def project(package: str) -> dict[str, object]:
    """Return the `[project]` table of a package."""
    table: dict[str, object] = tomllib.loads((PACKAGES / package / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    return table


def requirements(package: str) -> list[Requirement]:
    """Return what a package declares."""
    dependencies = project(package)["dependencies"]
    assert isinstance(dependencies, list)
    return [Requirement(text) for text in dependencies]


def test_every_package_is_listed() -> None:
    """The table of these tests knows every package."""
    assert {path.parent.name for path in PACKAGES.glob("*/pyproject.toml")} == set(NEEDED)


@pytest.mark.parametrize("package", NEEDED)
def test_declared(package: str) -> None:
    """A package declares exactly its dependencies, each with the oldest version that it works with."""
    declared = requirements(package)
    assert {canonicalize_name(requirement.name) for requirement in declared} == NEEDED[package]
    assert all(re.search(">=|==", str(requirement.specifier)) for requirement in declared)


@pytest.mark.parametrize("package", NEEDED)
def test_installed_as_declared(package: str) -> None:
    """What is installed here, and tested, is what the file declares."""
    required = map(Requirement, distribution(f"agenttape-{package}").requires or ())
    installed = {canonicalize_name(requirement.name) for requirement in required if requirement.marker is None}
    assert installed == NEEDED[package]


@pytest.mark.parametrize("package", FRAMEWORKS)
def test_nothing_new(package: str) -> None:
    """Installing an integration beside its framework adds no third-party distribution."""

    def closure(name: str) -> set[str]:
        """Return everything that installing a distribution brings along, itself included."""
        found: set[str] = set()
        waiting = [Requirement(name)]
        while waiting:
            requirement = waiting.pop()
            found.add(canonicalize_name(requirement.name))
            for text in distribution(requirement.name).requires or ():
                inner = Requirement(text)
                wanted = inner.marker is None or any(
                    inner.marker.evaluate({"extra": extra}) for extra in ("", *requirement.extras)
                )
                if wanted and canonicalize_name(inner.name) not in found:
                    waiting.append(inner)
        return found

    added = closure(f"agenttape-{package}") - closure(FRAMEWORKS[package])
    assert added == {name for name in closure(f"agenttape-{package}") if name.startswith("agenttape-")}


@pytest.mark.parametrize("package", FRAMEWORKS)
def test_extras_of_core_are_handed_on(package: str) -> None:
    """`pip install "agenttape-langchain[cli]"` brings core's command, and so do the other everyday extras."""
    extras, of_core = project(package)["optional-dependencies"], project("core")["optional-dependencies"]
    assert isinstance(extras, dict)
    assert isinstance(of_core, dict)
    for name in ("checks", "cli", "otel", "prices"):
        assert name in of_core
        assert extras[name] == [f"agenttape-core[{name}]"]

"""The supported versions of a framework are written in one place, and the page about it says the same."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version
from tests.matrix.run import PAGE, table_of
from tests.matrix.upgrade import PINNED, moved, pins, with_newest

ROOT = Path(__file__).resolve().parents[2]
FRAMEWORKS = {"langchain": "langchain-core", "langgraph": "langgraph", "llamaindex": "llama-index-core"}
"""The packages whose ends are tested, and the distribution of the framework of each."""
SHOWN = {
    "langchain": {"langchain-core", "langchain", "pydantic"},
    "langgraph": {"langgraph", "langgraph-checkpoint", "langchain-core", "langchain", "pydantic"},
    "llamaindex": {"llama-index-core", "llama-index-workflows", "pydantic"},
}
"""What the table of versions on the page of each shows."""


def project(package: str) -> dict[str, Any]:
    """Return the project file of a package."""
    return tomllib.loads((ROOT / "packages" / package / "pyproject.toml").read_text(encoding="utf-8"))


def oldest_of(package: str) -> dict[str, str]:
    """Return the oldest versions that a package is tested with, by distribution."""
    requirements = [Requirement(text) for text in project(package)["dependency-groups"]["oldest"]]
    pins = {req.name: str(req.specifier).removeprefix("==").removesuffix(".*") for req in requirements}
    return {name: version for name, version in pins.items() if version}


NEWEST = pins(PINNED.read_text(encoding="utf-8"))
"""The newest versions that are tested."""


@pytest.mark.parametrize("package", FRAMEWORKS)
def test_page_says_what_is_tested(package: str) -> None:
    """The table of versions shows what `make oldest` and `make newest` test with."""
    page = (ROOT / "docs" / f"{package}.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w-]+)`[^|]*\| ([\d.]+) \| ([\d.]*)", page, re.MULTILINE)
    shown = {name: (oldest, newest) for name, oldest, newest in rows}
    oldest = oldest_of(package)
    assert shown == {name: (oldest[name], NEWEST[name]) for name in SHOWN[package]}


def test_packages_have_one_version() -> None:
    """All packages are released together, and each needs the others in its own version."""
    projects = [project(path.parent.name)["project"] for path in (ROOT / "packages").glob("*/pyproject.toml")]
    needed = [Requirement(text) for each in projects for text in each["dependencies"]]
    pins = {str(req.specifier) for req in needed if req.name.startswith("agenttape-")}
    assert pins == {f"=={each['version']}" for each in projects}


@pytest.mark.parametrize("package", FRAMEWORKS)
def test_oldest_is_the_lower_bound(package: str) -> None:
    """The oldest tested versions are the lower bounds of the package, and the newest are within its bounds."""
    oldest = oldest_of(package)
    needed = [Requirement(text) for text in project(package)["project"]["dependencies"]]
    framework = [req for req in needed if not req.name.startswith("agenttape-")]
    assert FRAMEWORKS[package] in {req.name for req in framework}
    for req in framework:
        (lowest,) = [Version(spec.version) for spec in req.specifier if spec.operator == ">="]
        assert Version(oldest[req.name]) == lowest
        assert Version(NEWEST[req.name]) in req.specifier


def test_make_runs_every_package_that_has_ends() -> None:
    """`make oldest` and `make newest` run the tests of each package that has a group of oldest versions."""
    (ends,) = re.findall(r"^ENDS := (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    packages = [path.parent.name for path in (ROOT / "packages").glob("*/pyproject.toml")]
    having = {name for name in packages if "oldest" in project(name).get("dependency-groups", {})}
    assert set(ends.split()) == set(FRAMEWORKS) == having


def test_mcp_is_tested_from_its_lower_bound() -> None:
    """`make oldest` runs the tests of MCP with the lowest version that core supports, `make newest` with version 2."""
    (needed,) = map(Requirement, project("core")["project"]["optional-dependencies"]["mcp"])
    make = (ROOT / "Makefile").read_text(encoding="utf-8")
    oldest, newest = (Version(text) for text in re.findall(r"^MCP_\w+ := (.*)$", make, re.MULTILINE))
    assert [Version(each.version) for each in needed.specifier] == [oldest]
    assert oldest < Version(NEWEST["mcp"]) < newest


def test_an_action_has_one_digest() -> None:
    """An action of GitHub has the same version in our workflows, on the pages, and in what `init` writes for users."""
    files = [
        *ROOT.glob(".github/workflows/*.yml"),
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("packages/core/src/**/git/setup.py"),
    ]
    used = [
        line
        for path in files
        for line in re.findall(r"uses: (\S+@.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    pinned = {line for line in used if re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)}
    assert set(used) == pinned
    assert len({line.partition("@")[0] for line in pinned}) == len(pinned)


def test_versions_move_by_normalized_name() -> None:
    """An upgrade changes the versions of what it finds, by any spelling of the names, and keeps all other lines."""
    text = "# What we test.\npydantic_core==2.50.4\nruff==0.17.5\ntomlkit==0.13\n"
    assert moved(text, {"pydantic-core": "2.50.5", "ruff": "0.17.5", "nh3": "0.3"}) == (
        "# What we test.\npydantic_core==2.50.5\nruff==0.17.5\ntomlkit==0.13\n",
        ["pydantic_core 2.50.4 -> 2.50.5"],
    )


def test_an_upgrade_moves_the_table_of_a_page() -> None:
    """The newest versions on a page follow constraints.txt, and the rest of it stays."""
    page = "| | oldest | newest |\n| `a-b`, for c | 1.4.7 | {} |\n| `d` | 2.1 | {} |\n| `d` | no version | 1 |\n"
    assert with_newest(page.format("1.8.3", "2.3"), {"a-b": "1.9", "d": "2.3"}) == page.format("1.9", "2.3")


@pytest.mark.parametrize("package", [path.parent.name for path in sorted(ROOT.glob("packages/*/pyproject.toml"))])
def test_each_python_on_which_all_passed_is_named(package: str) -> None:
    """A package names each Python whose cells on the page all passed, and none that isn't on the page, but for 3.11."""
    table = table_of(PAGE.read_text(encoding="utf-8"))
    cells = {version.rpartition(".")[0]: row.values() for version, row in table.items()}
    passed = {version for version, row in cells.items() if all(" / 0 / " in found for found in row)}
    named = {name.split()[-1] for name in project(package)["project"]["classifiers"] if "Python :: 3." in name}
    assert passed <= named <= {"3.11", *cells}


def test_badges_show_what_holds() -> None:
    """The badges of the README show the Pythons that core names, its license, and the coverage that gates."""
    badges = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "images").glob("badge-*.svg")}
    named = [name.split()[-1] for name in project("core")["project"]["classifiers"] if "Python :: 3." in name]
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    assert f">{' | '.join(named)}<" in badges["badge-python"]
    assert f">≥ {settings['coverage']['report']['fail_under']} %<" in badges["badge-coverage"]
    assert f">{project('core')['project']['license']}<" in badges["badge-license"]

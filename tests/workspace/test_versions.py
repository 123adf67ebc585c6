"""Versions, dependencies, entry points and files of our distributions are those that the pages and projects name."""

from __future__ import annotations

import re
import subprocess
import tomllib
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
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


# -- dependencies ---------------------------------------------------------------------------------------------


PACKAGES = ROOT / "packages"
CORE = {"pydantic", "pyyaml"}
NEEDED = {
    "core": CORE,
    "langchain": {"agenttape-core", "langchain-core"},
    "langgraph": {"agenttape-core", "agenttape-langchain", "langgraph"},
    "llamaindex": {"agenttape-core", "llama-index-core", "llama-index-workflows"},
}
"""The run-time dependencies of each package; an integration adds its framework, and our core."""


def requirements(package: str) -> list[Requirement]:
    """Return what a package declares."""
    dependencies = project(package)["project"]["dependencies"]
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
    extras, of_core = (project(name)["project"]["optional-dependencies"] for name in (package, "core"))
    for name in ("checks", "cli", "otel", "prices"):
        assert name in of_core
        assert extras[name] == [f"agenttape-core[{name}]"]


# -- entry points ---------------------------------------------------------------------------------------------


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


# -- wheels ---------------------------------------------------------------------------------------------------


NAMES = sorted(path.parent.name for path in PACKAGES.glob("*/pyproject.toml"))


@pytest.mark.parametrize("package", NAMES)
def test_the_whole_folder_is_packed(package: str) -> None:
    """A wheel is the package's folder, and the module beside it that reads its streams, if it has one."""
    modules = [f"src/{path.name}" for path in (PACKAGES / package / "src").glob("*.py")]
    build = tomllib.loads((PACKAGES / package / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
    assert build == {"targets": {"wheel": {"packages": [f"src/agenttape_{package}", *modules]}}}


@pytest.mark.process
@pytest.mark.parametrize("package", NAMES)
def test_nothing_that_is_packed_is_ignored(package: str) -> None:
    """The build takes what git does not ignore: no file of a package is ignored, and none is a link to elsewhere."""
    folder = PACKAGES / package / "src" / f"agenttape_{package}"
    files = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    asked = "\n".join(map(str, files))
    done = subprocess.run(
        ["git", "check-ignore", "--no-index", "--stdin"],
        input=asked,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if "not a git repository" in done.stderr:
        pytest.skip("this copy of the sources is in no git repository")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")
    assert [path for path in files if path.is_symlink()] == []


def test_what_core_reads_is_in_its_folder() -> None:
    """The page's script and styles, the tables, and what child processes start with lie in the packed folder."""
    folder = PACKAGES / "core" / "src" / "agenttape_core"
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert {f"tools/processes/startup/{name}.py" for name in ("agenttape_startup", "sitecustomize")} <= found
    assert {"tools/viewer/assets/viewer.js", "tools/viewer/assets/viewer.css"} <= found

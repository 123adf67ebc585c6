"""What a package reads at run time is in its wheel: files are installed here in place, so nothing else would notice."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

import pytest

PACKAGES = Path(__file__).resolve().parents[2] / "packages"
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

"""Run our tests on each Python that is here, and write the table of docs/pythons.md: `make matrix`.

Each has a fresh environment with the versions of constraints.txt. Versions and the words of rows, given as arguments,
choose among them: `make matrix OF="3.14 langgraph"`. Cells that aren't run stay as they are.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PAGE = ROOT / "docs" / "pythons.md"
NAMES = ("core", "langchain", "langgraph", "llamaindex")
VERSIONS = tuple(f"3.{minor}" for minor in range(11, 16))
UNPACKED = frozenset({"3.14"})
"""The versions that are unpacked from a later Debian where they are missing."""
SESSIONS = ("tests/core/session", "tests/core/freeze")
ROWS = {
    "core: sessions and time": SESSIONS,
    "core: all else": ("tests/core", *(f"--ignore={path}" for path in SESSIONS)),
    **{name: (f"tests/{name}",) for name in (*NAMES[1:], "docs")},
}
NOT_RUN = "not run"


def python_of(version: str) -> str | None:
    """Return the path of a Python of this version; `None` if there is none."""
    unpacked = ROOT / f".venv-debian-{version}"
    found = _first(version, unpacked)
    if found is None and version in UNPACKED and shutil.which("apt-get"):
        subprocess.run([HERE / "debian_python.sh", version, unpacked], check=False, stdout=subprocess.DEVNULL)
        found = _first(version, unpacked)
    return found


def _first(version: str, unpacked: Path) -> str | None:
    candidates = [shutil.which(f"python{version}"), str(unpacked / "usr" / "bin" / f"python{version}")]
    candidates += map(str, (Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    return next((path for path in candidates if path is not None and _version(path).startswith(f"{version}.")), None)


def _version(path: str) -> str:
    command = [path, "-c", "import platform; print(platform.python_version())"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout.strip()
    except OSError:
        return ""


def environment(version: str, python: str) -> str:
    """Return the Python of an environment in which our packages and their tests are installed."""
    folder = ROOT / f".venv-python-{version}"
    ready, mine = folder / ".ready", str(folder / "bin" / "python")
    needed = [ROOT / "pyproject.toml", ROOT / "constraints.txt", *ROOT.glob("packages/*/pyproject.toml")]
    if ready.exists() and ready.stat().st_mtime > max(path.stat().st_mtime for path in needed):
        return mine
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", mine, "install"]
    pip += ["--no-compile", "-c", "constraints.txt"]
    editable = [word for name in NAMES for word in ("-e", f"packages/{name}")]
    subprocess.run([*pip, *editable, "pip", "--group", "dev"], check=True, cwd=ROOT)
    if subprocess.run([*pip, "--group", "parts"], check=False, cwd=ROOT).returncode:
        print(f"The servers of other makers could not be installed for Python {version}; their tests are skipped.")
    ready.touch()
    return mine


def result(python: str, tests: tuple[str, ...]) -> str:
    """Run tests, and return how many passed, failed and were skipped."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        options = ["-q", "-p", "no:cacheprovider", f"--junitxml={report}", "-n", os.environ.get("WORKERS", "auto")]
        subprocess.run([python, "-m", "pytest", *options, "--dist", "worksteal", *tests], check=False, cwd=ROOT)
        if not report.exists():
            return "it crashed"
        suite = ET.parse(report).getroot()[0]  # our own file
    tested, skipped = int(suite.attrib["tests"]), int(suite.attrib["skipped"])
    failed = int(suite.attrib["failures"]) + int(suite.attrib["errors"])
    return f"{tested - failed - skipped:,} / {failed} / {skipped}"


def table_of(text: str) -> dict[str, dict[str, str]]:
    """Return the cells of the page's table by the version of Python, with its patch, and the row."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in _table(text)]
    return {version: {row[0]: row[at] for row in lines[2:]} for at, version in enumerate(lines[0]) if at}


def _table(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("|")]


def with_table(text: str, cells: dict[str, dict[str, str]]) -> str:
    """Return the page with other cells in its table."""
    order = sorted(cells, key=lambda version: [int(part) for part in re.findall(r"\d+", version)])
    lines = [f"| | {' | '.join(order)} |", "|---" * (len(order) + 1) + "|"]
    for row in ROWS:
        found = (cells[version].get(row, NOT_RUN) for version in order)
        lines.append(f"| {row} | {' | '.join(found)} |")
    return text.replace("\n".join(_table(text)), "\n".join(lines))


def chosen(words: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the versions that are asked for, with the rows; all by default."""
    versions = [version for version in VERSIONS if version in words] or VERSIONS
    rows = [row for row in ROWS if any(word in row for word in words)] or list(ROWS)
    yield from ((version, rows) for version in versions)


def main(words: list[str]) -> bool:
    """Run what is asked for and write the page; return whether any test failed."""
    failed = False
    for version, rows in chosen(words):
        python = python_of(version)
        if python is None:
            print(f"There is no Python {version} here.")
            continue
        mine, full = environment(version, python), _version(python)
        for row in rows:
            print(f"Python {full}, {row}", flush=True)
            found = result(mine, ROWS[row])
            failed = failed or " / 0 / " not in found
            text = PAGE.read_text(encoding="utf-8")
            cells = {of: by for of, by in table_of(text).items() if of == full or not of.startswith(f"{version}.")}
            cells.setdefault(full, {})[row] = found
            PAGE.write_text(with_table(text, cells), encoding="utf-8")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

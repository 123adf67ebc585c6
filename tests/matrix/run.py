"""Run our tests on each Python that is here, and write the table of docs/pythons.md: `make matrix`.

Each has a fresh environment with the versions of constraints.txt. Versions and the words of rows, given as arguments,
choose among them: `make matrix OF="3.14 langgraph"`. A path runs a part: `make matrix OF="3.14 tests/core/tools"`. The
results of each file of tests stay in the environment, and a cell is written once all files of its row have been run.
`make ahead` runs a quick slice on the newest Python that we claim, and writes nothing.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PAGE = ROOT / "docs" / "pythons.md"
NAMES = ("core", "langchain", "langgraph", "llamaindex")
VERSIONS = tuple(f"3.{minor}" for minor in range(11, 16))
UNPACKED = {"3.14": "forky", "3.15": "sid"}
"""The versions that are unpacked from a later Debian where they are missing, with its name."""
NO_WHEELS = {"3.15": ("numpy",)}
"""What is newer than in constraints.txt on a version, as what we pin has no wheels for it."""
SESSIONS = ("tests/core/session", "tests/core/freeze")
ROWS = {
    "core: sessions and time": SESSIONS,
    "core: all else": ("tests/core", *(f"--ignore={path}" for path in SESSIONS)),
    **{name: (f"tests/{name}",) for name in (*NAMES[1:], "docs")},
}
NOT_RUN = "not run"
RESULTS = "results.json"
AHEAD = "3.14"
"""The Python of `make ahead`."""
PASSED, FAILED, SKIPPED = range(3)


def python_of(version: str) -> str | None:
    """Return the path of a Python of this version; `None` if there is none."""
    unpacked = ROOT / f".venv-debian-{version}"
    found = _first(version, unpacked)
    if found is None and version in UNPACKED and shutil.which("apt-get"):
        command = [str(HERE / "debian_python.sh"), version, str(unpacked), UNPACKED[version]]
        here = {**os.environ, "PYTHON": sys.executable}  # its pip gets the one tool that is needed
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(command, check=False, stdout=subprocess.DEVNULL, timeout=300, env=here)
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


def environment(version: str, python: str, group: str = "dev", packages: Sequence[str] = NAMES) -> str:
    """Return the Python of an environment with packages of ours and a group of what their tests need."""
    folder = ROOT / f".venv-{'python' if group == 'dev' else group}-{version}"
    ready, mine = folder / ".ready", str(folder / "bin" / "python")
    needed = [ROOT / "pyproject.toml", ROOT / "constraints.txt", *ROOT.glob("packages/*/pyproject.toml")]
    if ready.exists() and ready.stat().st_mtime > max(path.stat().st_mtime for path in needed):
        return mine
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", mine, "install"]
    pinned = folder / "constraints.txt"
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    pinned.write_text("".join(pin for pin in pins if not pin.startswith(NO_WHEELS.get(version, ()))), encoding="utf-8")
    pip += ["--no-compile", "-c", str(pinned)]
    editable = [word for name in packages for word in ("-e", f"packages/{name}")]
    subprocess.run([*pip, *editable, "pip", "--group", group], check=True, cwd=ROOT)
    if group == "dev" and subprocess.run([*pip, "--group", "parts"], check=False, cwd=ROOT).returncode:
        print(f"The servers of other makers could not be installed for Python {version}; their tests are skipped.")
    ready.touch()
    return mine


def run(python: str, tests: Sequence[str], *options: str) -> None:
    """Run tests with options, and keep how many of each file passed, failed and were skipped."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        usual = ["-q", "-p", "no:cacheprovider", f"--junitxml={report}", "-o", "faulthandler_timeout=1800"]
        usual += ["-n", os.environ.get("WORKERS", "auto"), "--dist", "worksteal"]
        subprocess.run([python, "-m", "pytest", *usual, *options, *tests], check=False, cwd=ROOT)
        cases = list(ET.parse(report).iter("testcase")) if report.exists() else []  # our own file
    counts: dict[str, list[int]] = {}
    for case in cases:
        outcomes = {part.tag for part in case}
        outcome = FAILED if outcomes & {"failure", "error"} else SKIPPED if "skipped" in outcomes else PASSED
        # A module and classes, as in `tests.core.test_guard.TestHosts`; a module that couldn't be imported is the name.
        module = re.sub(r"(\.test_\w+)\..*", r"\1", case.attrib["classname"] or case.attrib["name"])
        counts.setdefault(module.replace(".", "/") + ".py", [0, 0, 0])[outcome] += 1
    kept = Path(python).parent.parent / RESULTS
    kept.write_text(json.dumps(results(python) | counts, indent=0), encoding="utf-8")


def results(python: str) -> dict[str, list[int]]:
    """Return how many tests of each file passed, failed and were skipped in this environment, as far as it ran them."""
    kept = Path(python).parent.parent / RESULTS
    return json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}


def files_of(tests: Sequence[str]) -> set[str]:
    """Return the files of tests that pytest collects for these arguments."""
    ignored = tuple(word.removeprefix("--ignore=") + "/" for word in tests if word.startswith("--ignore="))
    found = {str(path.relative_to(ROOT)) for part in tests for path in (ROOT / part).rglob("test_*.py")}
    found |= {part for part in tests if (ROOT / part).is_file()}
    return {path for path in found if not path.startswith(ignored)}


def cell(python: str, tests: Sequence[str]) -> str | None:
    """Return how many of these tests passed, failed and were skipped; `None` if not all of them have been run."""
    files, found = files_of(tests), results(python)
    if files - found.keys():
        return None
    passed, failed, skipped = (sum(found[path][outcome] for path in files) for outcome in (PASSED, FAILED, SKIPPED))
    return f"{passed:,} / {failed} / {skipped}"


def table_of(text: str) -> dict[str, dict[str, str]]:
    """Return the cells of the page's table by the version of Python, with its patch, and the row."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in _table(text)]
    return {version: {row[0]: row[at] for row in lines[2:]} for at, version in enumerate(lines[0]) if at}


def _table(text: str) -> list[str]:
    """Return the lines of the first table."""
    lines = itertools.dropwhile(lambda line: not line.startswith("|"), text.splitlines())
    return list(itertools.takewhile(lambda line: line.startswith("|"), lines))


def with_table(text: str, cells: dict[str, dict[str, str]]) -> str:
    """Return the page with other cells in its table."""
    order = sorted(cells, key=lambda version: [int(part) for part in re.findall(r"\d+", version)])
    lines = [f"| | {' | '.join(order)} |", "|---" * (len(order) + 1) + "|"]
    for row in ROWS:
        found = (cells[version].get(row, NOT_RUN) for version in order)
        lines.append(f"| {row} | {' | '.join(found)} |")
    return text.replace("\n".join(_table(text)), "\n".join(lines))


def chosen(words: list[str]) -> Iterator[tuple[str, dict[str, Sequence[str]]]]:
    """Yield the versions that are asked for, with the tests to run of each row; all by default."""
    versions = [version for version in VERSIONS if version in words] or VERSIONS
    paths = [word for word in words if word.startswith("tests/")]
    rows: dict[str, Sequence[str]] = {row: ROWS[row] for row in ROWS if any(word in row for word in words)}
    for row, tests in ROWS.items():
        if part := [path for path in paths if files_of([path]) <= files_of(tests)]:
            rows[row] = part
    yield from ((version, rows or dict(ROWS)) for version in versions)


def main(words: list[str]) -> bool:
    """Run what is asked for and write the page; return whether a test of a complete cell failed."""
    failed = False
    for version, rows in chosen(words):
        python = python_of(version)
        if python is None:
            print(f"There is no Python {version} here.")
            continue
        mine, full = environment(version, python), _version(python)
        for row, tests in rows.items():
            print(f"Python {full}, {row}", flush=True)
            run(mine, tests, *(["--night"] if row in NAMES else []))
            found = cell(mine, ROWS[row])
            if found is None:  # until the other files of the row have been run, it keeps its cell
                continue
            failed = failed or " / 0 / " not in found
            text = PAGE.read_text(encoding="utf-8")
            cells = {of: by for of, by in table_of(text).items() if of == full or not of.startswith(f"{version}.")}
            cells.setdefault(full, {})[row] = found
            PAGE.write_text(with_table(text, cells), encoding="utf-8")
    return failed


def ahead() -> int:
    """Run the quick tests of sessions and time on a newer Python; without one, say so and pass."""
    python = python_of(AHEAD)
    if python is None:
        print(f"There is no Python {AHEAD} here: its tests are skipped.")
        return 0
    try:
        mine = environment(AHEAD, python, "ahead", ("core",))
    except subprocess.CalledProcessError:
        print(f"Our packages could not be installed for Python {AHEAD}: its tests are skipped.")
        return 0
    options = ["-q", "-p", "no:cacheprovider", "-n", "auto", "--dist", "worksteal", "-m", "not process and not slow"]
    return subprocess.run([mine, "-m", "pytest", *options, *SESSIONS], check=False, cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(ahead() if sys.argv[1:] == ["ahead"] else main(sys.argv[1:]))

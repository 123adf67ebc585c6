"""Import and use widely used packages within a session that is the first to see them: `make imports`.

Each package has two processes of its own, one that records and one that replays. Names of distributions, given as
arguments, choose among them. Those that are not installed are passed over, as torch is, unless you install it: it has
gigabytes.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import textwrap
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from uses import PACKAGES

PROCESS = Path(__file__).with_name("process.py")
LIMIT = 300
"""Seconds for one process: a compiler may be at work in it."""


def problem(name: str, mode: str, folder: Path) -> str:
    """Return the last lines of what went wrong in a process, or an empty text."""
    command = [sys.executable, "-W", "ignore", str(PROCESS), mode, name]
    try:
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return f"no end after {LIMIT} s"
    return "\n".join(run.stderr.splitlines()[-6:]) or f"ended with {run.returncode}" if run.returncode else ""


def main(names: list[str]) -> bool:
    """Try the packages and print a table; return whether any of them broke."""
    broken = []
    print(f"{'package':18} {'version':12} {'recorded':9} replayed")
    for name in names or sorted(PACKAGES):
        try:
            installed = version(name)
        except PackageNotFoundError:
            print(f"{name:18} not installed")
            continue
        with tempfile.TemporaryDirectory() as folder:
            problems = [problem(name, mode, Path(folder)) for mode in ("all", "none")]
        recorded, replayed = ("broken" if text else "ok" for text in problems)
        print(f"{name:18} {installed:12} {recorded:9} {replayed}", flush=True)
        for text in filter(None, problems):
            print(textwrap.indent(text, "    "), flush=True)
        broken += [name] if any(problems) else []
    print(f"broken: {', '.join(broken)}" if broken else "All of them work.")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

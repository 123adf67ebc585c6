"""The lines of a project that have changed, and those that each test reaches."""

from __future__ import annotations

import re
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agenttape_core.guard.caller import is_library
from agenttape_core.tools.git.requests import Revision

_HUNK = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@")


def changed_lines(revision: str) -> dict[Path, set[int]]:
    """Return the numbers of the lines that have changed since a revision, by the file; of a new file, all of them.

    Args:
        revision: A commit, branch or tag, in git's words.

    Raises:
        ConfigurationError: If git does not know the revision, or this is no repository.
    """
    since = Revision(revision, "--base")
    top = Path(since.tell("rev-parse", "--show-toplevel").strip())
    found: dict[Path, set[int]] = {}
    lines: set[int] = set()
    plainly = ("-c", "core.quotepath=off", "diff", "-U0", "--no-color", "--no-ext-diff")
    for line in since.tell(*plainly, revision, "--", ":/*.py").splitlines():
        if line.startswith("+++ "):
            lines = found.setdefault((top / line[len("+++ b/") :]).resolve(), set())
        elif hunk := _HUNK.match(line):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            lines |= set(range(first, first + count))
    new = since.tell("ls-files", "-z", "--others", "--exclude-standard", "--full-name", "--", ":/*.py")
    for name in new.split("\0"):
        if name:
            path = (top / name).resolve()
            found[path] = set(range(1, len(path.read_bytes().splitlines()) + 1))
    return found


AT_IMPORT = ""
"""The name of the part of a run in which no test runs yet."""
_TOOL = 4
"""An id of `sys.monitoring` that no known tool uses."""


def root_of(folder: Path) -> Path:
    """Return the folder of the project that a folder belongs to: the nearest with a `pyproject.toml` or a repository.

    Args:
        folder: The folder.
    """
    for each in (folder, *folder.parents):
        if any((each / name).exists() for name in ("pyproject.toml", "setup.py", ".git")):
            return each
    return folder


class Reached:
    """Notes the lines of a project's files that are run.

    Args:
        root: The folder of the project.
    """

    def __init__(self, root: Path) -> None:
        self._root = f"{root.resolve()}/"
        self._own: dict[str, str | None] = {}
        self._part = AT_IMPORT
        self.lines: dict[str, dict[str, dict[int, int]]] = {}
        """The number of times that each line was run, by the part of the run and the file."""

    def begin(self, part: str) -> None:
        """Begin another part of the run: a test, by its id."""
        self._part = part

    def start(self) -> None:
        """Trace from now on, in all threads that begin from now on."""
        monitoring: Any = getattr(sys, "monitoring", None)
        if monitoring is None:
            threading.settrace(self._called)
            sys.settrace(self._called)
            return
        monitoring.use_tool_id(_TOOL, "agenttape-adequacy")
        monitoring.register_callback(_TOOL, monitoring.events.LINE, self._monitored)
        monitoring.set_events(_TOOL, monitoring.events.LINE)

    def stop(self) -> None:
        """Trace no more."""
        monitoring: Any = getattr(sys, "monitoring", None)
        if monitoring is None:
            sys.settrace(None)
            threading.settrace(None)
            return
        monitoring.set_events(_TOOL, 0)
        monitoring.free_tool_id(_TOOL)

    def _file(self, name: str) -> str | None:
        """Return the file of code if it is the project's."""
        if name not in self._own:
            is_file = not name.startswith("<") and not is_library(name)
            full = str(Path(name).resolve()) if is_file else ""
            self._own[name] = full if full.startswith(self._root) and full.endswith(".py") else None
        return self._own[name]

    def _called(self, frame: types.FrameType, event: str, _: object) -> Callable[..., Any] | None:  # noqa: ARG002
        if str(frame.f_globals.get("__name__", "")).startswith("agenttape_"):
            return None
        file = self._file(frame.f_code.co_filename)
        if file is None:
            return None

        def line(frame: types.FrameType, event: str, _: object) -> Callable[..., Any]:
            if event == "line":
                self._note(file, frame.f_lineno)
            return line

        return line

    def _monitored(self, code: types.CodeType, line: int) -> object:
        file = self._file(code.co_filename)
        if file is None:
            monitoring: Any = sys.__dict__["monitoring"]  # of Python 3.12
            return monitoring.DISABLE
        self._note(file, line)
        return None

    def _note(self, file: str, line: int) -> None:
        found = self.lines.setdefault(self._part, {}).setdefault(file, {})
        found[line] = found.get(line, 0) + 1

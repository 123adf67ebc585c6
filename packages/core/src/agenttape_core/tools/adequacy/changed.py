"""The lines of Python files that have changed since a revision of git."""

from __future__ import annotations

import re
from pathlib import Path

from agenttape_core.tools.git.asking import Revision

_HUNK = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@")


def changed_lines(revision: str) -> dict[Path, set[int]]:
    """Return the numbers of the lines that have changed since a revision, by the file; of a new file, all of them.

    Args:
        revision: A commit, branch or tag, in git's words.

    Raises:
        ConfigurationError: If git does not know the revision, or this is no repository.
    """
    since = Revision(revision, "--since")
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

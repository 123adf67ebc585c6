"""Commands for git: `python -m agenttape_core.tools.git textconv FILE`, or `merge BASE OURS THEIRS MARKER NAME`."""

from __future__ import annotations

import sys

from agenttape_core.tools.git.filtered import filtered


def main(words: list[str]) -> int:
    """Do the task that git passes, as `agenttape init` has set up; return the exit code."""
    match words:
        case ["textconv", file]:
            sys.stdout.buffer.write(_diffable(file))
            return 0
        case ["merge", base, ours, theirs, marker, name]:
            from pathlib import Path

            from agenttape_core.tools.git.driver import merge_files

            code, told = merge_files(Path(base), Path(ours), Path(theirs), marker=int(marker), name=name)
            sys.stderr.write(f"agenttape: {_visible(told)}\n" if told else "")
            return code
        case _:
            sys.stderr.write(f"{__doc__}\n")
            return 2


def _diffable(file: str) -> bytes:
    """Return the text of a cassette for `git diff`, with as few imports as it takes."""
    with open(file, "rb") as stream:  # noqa: PTH123 - `pathlib` takes as long to import as all that is imported here
        data = stream.read()
    found = filtered(data)
    if found is not None:
        return found
    from agenttape_core.tools.git.parsed import parsed

    found = parsed(data)
    if found is not None:
        return found
    from pathlib import Path

    from agenttape_core.tools.git.driver import diffable

    return diffable(Path(file))


def _visible(text: str) -> str:
    """Return a text with its control characters as escapes: it may contain a stranger's text."""
    return "".join(char if char == "\n" or char.isprintable() else ascii(char)[1:-1] for char in text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

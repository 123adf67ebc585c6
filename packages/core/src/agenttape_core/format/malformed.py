"""The one internal exception of the readers; it becomes a `CassetteFormatError` where the file is known."""

from __future__ import annotations


class Malformed(Exception):  # noqa: N818 - a signal between two modules, never shown
    """A piece of a file breaks the rules of the format.

    `problem` has the expected against the found; `line` is 0-based, inside the piece that was parsed.
    """

    def __init__(self, problem: str, line: int = 0) -> None:
        self.problem = problem
        self.line = line
        super().__init__(problem)

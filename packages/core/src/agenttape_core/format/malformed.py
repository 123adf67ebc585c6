"""The one internal exception of the readers; it becomes a `CassetteFormatError` where the file is known."""

from __future__ import annotations


class Malformed(Exception):  # noqa: N818 - a signal between two modules, never shown
    """A piece of a file breaks the rules of the format.

    Args:
        problem: What is wrong, expected against found.
        line: The 0-based line inside the piece that was parsed.
    """

    def __init__(self, problem: str, line: int = 0) -> None:
        self.problem = problem
        self.line = line
        super().__init__(problem)

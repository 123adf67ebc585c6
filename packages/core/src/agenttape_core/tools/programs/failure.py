"""Failures of programs, and whether two of them are alike."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agenttape_core.errors import shown_path
from agenttape_core.guard.caller import is_library, is_own


@dataclass(frozen=True, slots=True)
class Failure:
    """The end of a program by an exception.

    Args:
        type: The class of the exception, as `module:QualName`.
        file: The file of the innermost line of the program's own code; empty if there is none.
        line: The number of that line.
        function: The function that it is in.
        message: The text of the exception, which says nothing about whether two failures are alike.
    """

    type: str
    file: str
    line: int
    function: str
    message: str

    def is_like(self, other: Failure | None) -> bool:
        """Return whether another failure is the same: an exception of this class, raised at this line."""
        mine = (self.type, self.file, self.line, self.function)
        return other is not None and mine == (other.type, other.file, other.line, other.function)

    @property
    def name(self) -> str:
        """The name of the class."""
        return self.type.rpartition(":")[2]

    @property
    def place(self) -> str:
        """The line, as `agent.py:41 in parse`."""
        return (
            f"{shown_path(Path(self.file))}:{self.line} in {self.function}" if self.file else "no line of the program"
        )

    def __str__(self) -> str:
        said = self.message.partition("\n")[0]
        return f"{self.name} at {self.place}" + (f": {said}" if said else "")


def failure_of(error: BaseException) -> Failure:
    """Return the failure that an exception is. Of a group of exceptions, the first one counts.

    Args:
        error: The exception, as it was caught.
    """
    error = next(_leaves(error))
    kind = type(error)
    own = [
        (frame.f_code.co_filename, line, frame.f_code.co_qualname)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not is_own(frame) and not is_library(frame.f_code.co_filename) and not _is_made(frame.f_code.co_filename)
    ]
    file, line, function = own[-1] if own else ("", 0, "")
    return Failure(f"{kind.__module__}:{kind.__qualname__}", file, line, function, str(error))


def _is_made(file: str) -> bool:
    """Return whether code comes from no file, such as `<frozen importlib>` or `<string>`."""
    return file.startswith("<")


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error

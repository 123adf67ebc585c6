"""The result of an experiment: a line, a table and findings, of which reports in all forms are made."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pydantic import TypeAdapter

from agenttape_core.errors import ConfigurationError
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.tools.reporting import Checked, Finding, judged_by

Part = TypeVar("Part")


class Summary(NamedTuple):
    """The text of a result and its findings."""

    program: str
    cassette: str  # its recording, if it's only one
    line: str  # the result in a line
    table: Sequence[str] = ()  # the lines below it
    findings: Sequence[Finding] = ()  # everything that should be mended


class Result(ABC):
    """The result of an experiment. An experiment's own class is a dataclass of the facts that it has found.

    From these, `agenttape lab` and pytest make reports in all forms.
    """

    __slots__ = ()
    experiment: ClassVar[str]  # the name of the experiment, which is the rule of its findings

    @abstractmethod
    def summary(self) -> Summary:
        """Return the text and the findings."""

    @property
    def ok(self) -> bool:
        """True if it found no defect."""
        return not any(each.has_failed for each in self.to_checked())

    @property
    def is_whole(self) -> bool:
        """True if it came to its end, and was not interrupted."""
        return True

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)  # type: ignore[call-overload,no-any-return]

    def to_checked(self) -> list[Checked]:
        """Return it for the reporters of checks."""
        said = self.summary()
        return [judged_by(self.experiment, said.program, said.cassette, said.findings)]

    def __str__(self) -> str:
        said = self.summary()
        return "\n".join([said.line, *said.table])


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows of a table as lines; each column is as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def cut(text: str, most: int) -> str:
    """Return a text, of which at most so many characters are shown."""
    return text if len(text) <= most else f"{text[:most]}…"


_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


def read(kind: type[Part], plain: Any) -> Part:
    """Return the dataclass or the named tuple that plain data describe, even if they have been through JSON."""
    found: Part = _adapter(kind).validate_python(plain)
    return found


def earlier(report: str | Path, key: str, read: Callable[[Any], Part]) -> list[Part]:
    """Return the parts of the report of an earlier run, which a later one takes over."""
    try:
        return [read(one) for one in json.loads(Path(report).read_text(encoding="utf-8"))[key]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        told = error.strerror or error if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
        said = str(told).partition("\n")[0]
        raise ConfigurationError(
            f"{report}: not a report of this experiment as JSON: {said}\n"
            "  name the file that --report (agenttape lab) or --cassette-report (pytest) has written"
        ) from None

"""UnrecordedCall: the calls of a run that lived on although they had no recording."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from agenttape_core.schema import Plain


class UnrecordedCall(str):
    """A call that got an error result because there was no recording. Its text is the line of the report.

    Args:
        summary: The line.
        kind: The kind of boundary.
        name: The name of the boundary.
        address: Where the call was made.
        reason: Why it has no recording, in a few words.
        request: The request: redacted plain data, as a cassette holds it.
        nearest: The number of the recording nearest to it; `None` if no call of its kind was recorded.
        differences: The parts in which that differs: path, as recorded, as asked.
    """

    __slots__ = ("address", "differences", "kind", "name", "nearest", "reason", "request")

    def __new__(cls, summary: str, **_: Any) -> Self:
        """Make the line."""
        return super().__new__(cls, summary)

    def __init__(
        self,
        summary: str,  # noqa: ARG002 - the text itself
        *,
        kind: str,
        name: str,
        address: str,
        reason: str,
        request: Plain,
        nearest: int | None = None,
        differences: Sequence[tuple[str, Any, Any]] = (),
    ) -> None:
        self.kind = kind
        self.name = name
        self.address = address
        self.reason = reason
        self.request = request
        self.nearest = nearest
        self.differences = tuple(differences)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return its fields, so that it can be pickled and sent to another process."""
        return _made, (str(self), self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        return {
            "kind": self.kind,
            "name": self.name,
            "address": self.address,
            "reason": self.reason,
            "request": self.request,
            "nearest": self.nearest,
            "differences": [
                {"path": path, "recorded": _shown(recorded), "asked": _shown(asked)}
                for path, recorded, asked in self.differences
            ],
        }


def _made(summary: str, fields: dict[str, Any]) -> UnrecordedCall:
    differences = [(part["path"], part["recorded"], part["asked"]) for part in fields.pop("differences")]
    return UnrecordedCall(summary, differences=differences, **fields)


def _shown(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | list | dict | None) else str(value)

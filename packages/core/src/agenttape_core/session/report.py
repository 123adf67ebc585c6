"""The report of a session: the fate of each interaction."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock

from agenttape_core.matching import Rung


@dataclass(frozen=True, slots=True)
class Crossed:
    """One interaction and what became of it.

    Args:
        kind: The kind of boundary.
        name: The name of the boundary.
        address: Where it stands in the run.
        number: Its number in the cassette; while recording, the order of its start.
        rung: How its recording was found; `None` if it was executed or not used at all.
    """

    kind: str
    name: str
    address: str
    number: int
    rung: Rung | None = None

    def __str__(self) -> str:
        found = f" ({self.rung})" if self.rung is not None else ""
        return f"{self.number:>4}  {self.kind} {self.name} at {self.address}{found}"


@dataclass(slots=True)
class Report:
    """The interactions that a session served, executed, missed and left unused. Grows while the session is open."""

    _served: list[Crossed] = field(default_factory=list)
    _executed: list[Crossed] = field(default_factory=list)
    _unused: list[Crossed] = field(default_factory=list)
    _missed: list[str] = field(default_factory=list)
    _drift: list[str] = field(default_factory=list)
    _blocked: list[str] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    @property
    def served(self) -> tuple[Crossed, ...]:
        """The interactions answered from the cassette, in the order of the calls."""
        return tuple(self._served)

    @property
    def executed(self) -> tuple[Crossed, ...]:
        """The interactions that really happened."""
        return tuple(self._executed)

    @property
    def unused(self) -> tuple[Crossed, ...]:
        """The recorded interactions that were not used; known when the session has ended."""
        return tuple(self._unused)

    @property
    def missed(self) -> tuple[str, ...]:
        """The calls that had no recording, a line each."""
        return tuple(self._missed)

    @property
    def drift(self) -> tuple[str, ...]:
        """The calls that got an error result for want of a recording (`on_miss="return"`), a line each."""
        return tuple(self._drift)

    @property
    def blocked(self) -> tuple[str, ...]:
        """The attempts to reach the outside that the guard refused, a line each."""
        return tuple(self._blocked)

    def add(self, *, served: Crossed | None = None, executed: Crossed | None = None) -> None:
        """Note an interaction."""
        with self._lock:
            if served is not None:
                self._served.append(served)
            if executed is not None:
                self._executed.append(executed)

    def add_failure(self, *, missed: str | None = None, drift: str | None = None, blocked: str | None = None) -> None:
        """Note a call that was refused."""
        with self._lock:
            if drift is not None:
                self._drift.append(drift)
            if missed is not None:
                self._missed.append(missed)
            if blocked is not None:
                self._blocked.append(blocked)

    def close(self, unused: list[Crossed]) -> None:
        """Note the recordings that were not used."""
        self._unused = unused

    def __str__(self) -> str:
        parts = [f"{len(self._served)} served", f"{len(self._executed)} executed"]
        parts += [f"{len(items)} {word}" for items, word in self._exceptional() if items]
        return ", ".join(parts)

    def _exceptional(self) -> list[tuple[list[Crossed] | list[str], str]]:
        return [
            (self._unused, "unused"),
            (self._missed, "missed"),
            (self._drift, "drifted"),
            (self._blocked, "blocked"),
        ]

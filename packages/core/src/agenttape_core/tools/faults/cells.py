"""The cells of a fault matrix: which call fails in which way, and which stand for others where there are many."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from agenttape_core.interventions import Change
from agenttape_core.matching import bare_step
from agenttape_core.schema import Interaction
from agenttape_core.session import Session, Source
from agenttape_core.tools.faults.kinds import CONTROL, FaultKind

MANY = 24
"""The number of calls of a run from which on some stand for others."""
_OF_CLASS = 2


@dataclass(frozen=True, slots=True)
class Target:
    """A recorded call that fails.

    Args:
        number: Its number in the cassette.
        kind: Its kind.
        name: Its name.
        address: Where it is made.
    """

    number: int
    kind: str
    name: str
    address: str

    def __str__(self) -> str:
        return f"{self.number:>4}  {self.kind} {self.name} at {self.address}"


class Planned(NamedTuple):
    """A cell that is to be run.

    Args:
        fault: The kind of the fault.
        target: The call.
        change: The change that makes it fail.
    """

    fault: FaultKind
    target: Target
    change: Change


class Plan(NamedTuple):
    """The cells of a run.

    Args:
        cells: The cells.
        calls: The number of calls that could fail.
        left_out: How many of them have others that stand for them.
    """

    cells: list[Planned]
    calls: int
    left_out: int


def planned(source: Source, served: Iterable[int], kinds: Sequence[FaultKind], most: int = MANY) -> Plan:
    """Return the cells of a run.

    If there are many calls, the first and the last of each class stand for the others: calls of one kind and name at
    addresses that differ in their numbers alone.

    Args:
        source: The recordings.
        served: The numbers of the calls that the run was served; others cannot fail.
        kinds: The kinds of faults.
        most: The number of calls up to which each fails.
    """
    items = [source.interaction(number) for number in sorted(set(served))]
    able = [item for item in items if any(kind.applies(item) for kind in kinds)]
    chosen = able if len(able) <= most else _representatives(able)
    cells = [Planned(kind, _target(item), kind.change(item)) for item in chosen for kind in kinds if kind.applies(item)]
    return Plan(cells, len(able), len(able) - len(chosen))


def control_of(source: Source, served: Collection[int]) -> Mapping[int, Change]:
    """Return the neutral changes of a run: each answer is served as a change, and is the recorded one."""
    items = [source.interaction(number) for number in served]
    return {item.number: CONTROL.change(item) for item in items if CONTROL.applies(item)}


def served_by(session: Session) -> list[int]:
    """Return the numbers of the recordings that a session has served, and would serve again."""
    policy = session.policy
    return [one.number for one in session.report.served if policy.may_serve(one.kind, one.name)]


def _representatives(items: Sequence[Interaction]) -> list[Interaction]:
    classes: dict[tuple[str, ...], list[Interaction]] = {}
    for item in items:
        key = (item.kind, item.name, "/".join(map(bare_step, item.address.split("/"))))
        classes.setdefault(key, []).append(item)
    numbers = {item.number for found in classes.values() for item in (*found[: _OF_CLASS - 1], found[-1])}
    return [item for item in items if item.number in numbers]


def _target(item: Interaction) -> Target:
    return Target(item.number, item.kind, item.name, item.address)

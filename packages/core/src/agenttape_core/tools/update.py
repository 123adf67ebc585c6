"""The plan of an update after an edit: the calls that have changed, those that may depend on them, and the cost."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from agenttape_core.errors import ConfigurationError, counted, shown_path
from agenttape_core.lifecycle.project import project_settings
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import OWN, IndexRow, Timing
from agenttape_core.session import Session, Source
from agenttape_core.tools.reading.prices import Prices, how_to_price, load_prices
from agenttape_core.tools.reading.provider_calls import MODELS, is_refused, model_call, path_of_model
from agenttape_core.tools.reading.summary import cost_of, model_of, tried_with

# -- The calls below a changed one: those that may have been asked because of its answer.


TimingOf = Callable[[int], Timing | None]

_SUPERSTEP = re.compile(r"(?P<node>.*)@(?P<step>\d+)(?P<branch>\D.*)?$")


def below(rows: Iterable[IndexRow], timing_of: TimingOf, changed: Collection[int]) -> list[int]:
    """Return the numbers of the calls that may depend on a changed one, in the order of the file.

    It is an upper bound. A call doesn't depend on calls that ended after it had begun, nor on those of another branch
    of the same superstep, since these don't see each other. A call inside a changed one is below it.

    Args:
        rows: The recorded calls.
        timing_of: Returns the times of one by its number; where they are not known, the order of the file counts.
        changed: The numbers of the calls that have changed.
    """
    rows = list(rows)
    roots = [row for row in rows if row.number in changed]
    return [
        row.number
        for row in rows
        if row.number not in changed and any(may_depend(row, root, timing_of) for root in roots)
    ]


def may_depend(row: IndexRow, root: IndexRow, timing_of: TimingOf) -> bool:
    """Return whether a call may depend on the answer of another one."""
    if row.address.startswith(f"{root.address}/"):
        return True
    if root.address.startswith(f"{row.address}/"):
        return row.kind == "tool"  # it returns what the changed call inside made of it
    return not are_parallel(row.address, root.address) and _began_after(row, root, timing_of)


def _began_after(row: IndexRow, root: IndexRow, timing_of: TimingOf) -> bool:
    mine, other = timing_of(row.number), timing_of(root.number)
    if mine is None or other is None or mine.start_ms is None or other.start_ms is None:
        return row.number > root.number
    return mine.start_ms >= other.start_ms + other.duration_ms


def are_parallel(first: str, other: str) -> bool:
    """Return whether two addresses are of different branches of one superstep of a graph."""
    for one, two in zip(first.split("/"), other.split("/"), strict=False):
        if one != two:
            mine, theirs = _SUPERSTEP.match(one), _SUPERSTEP.match(two)
            return mine is not None and theirs is not None and mine["step"] == theirs["step"]
    return False


PLANNING: Mapping[str, Any] = {"mode": "replay", "match_on": ("exact", "request", "address"), "live": ()}
"""Options of `use_cassette` for a replay that continues with the old answer if a request changed. Its request doesn't
judge unused recordings."""

_SHOWN = 10


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A recorded call that would be executed, or may have to be."""

    number: int
    kind: str
    name: str
    address: str
    dollars: float | None  # of its recording; `None` if that is unknown, 0 for a call without a model
    model: str | None = None  # as its provider calls it; `None` for a call without a model, or without its name

    def __str__(self) -> str:
        return f"{self.number:>4}  {self.kind} {self.name} at {self.address}"


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan: the changes and the cost of updating one or several cassettes.

    Args:
        path: The cassette as a message shows it; empty for several together.
        calls: The number of recorded calls.
        changed: The calls that ask for something else than was recorded.
        below: The calls that may depend on the answers of those: at most these follow.
        new: The calls that have no counterpart at all, a line each. The run stops there, so more may follow.
        dropped: The recordings that are no longer used.
        failed: The failures of sessions that the run opened itself, a line each, also those that it caught. Their
            cassettes have separate plans.
    """

    path: str
    calls: int
    changed: tuple[PlannedCall, ...] = ()
    below: tuple[PlannedCall, ...] = ()
    new: tuple[str, ...] = ()
    dropped: tuple[PlannedCall, ...] = ()
    failed: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        """True if the run makes exactly the recorded calls."""
        return not (self.changed or self.new or self.dropped)

    @property
    def dollars(self) -> float:
        """The most that it would cost, in US dollars: the cost of the recordings, if known."""
        return sum(call.dollars or 0.0 for call in (*self.changed, *self.below))

    @property
    def unpriced(self) -> int:
        """The number of calls whose cost is not known."""
        return sum(call.dollars is None for call in (*self.changed, *self.below)) + len(self.new)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data; `from_dict` reads it."""
        return {**asdict(self), "dollars": self.dollars, "unpriced": self.unpriced}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Plan:
        """Return the plan that `to_dict` made plain."""
        calls = {name: tuple(PlannedCall(**call) for call in plain[name]) for name in ("changed", "below", "dropped")}
        return cls(
            path=plain["path"], calls=plain["calls"], new=tuple(plain["new"]), failed=tuple(plain["failed"]), **calls
        )

    def __str__(self) -> str:
        """Return it in one line: `2 of 41 calls changed; up to 5 more depend on them, about $0.01`."""
        failed = [f"{counted(len(self.failed), 'other session')} failed"] if self.failed else []
        if self.is_clean:
            return ", ".join([f"{counted(self.calls, 'call')}, none changed", *failed])
        first = f"{len(self.changed)} of {counted(self.calls, 'call')} changed"
        if self.below:
            depend, on = "depends" if len(self.below) == 1 else "depend", "it" if len(self.changed) == 1 else "them"
            first += f"; up to {len(self.below)} more {depend} on {on}"
        parts = [first]
        if self.new:
            parts.append(f"{len(self.new)} new, and what follows")
        if self.dropped:
            parts.append(f"{len(self.dropped)} no longer made")
        if self.dollars:
            parts.append(f"about ${max(self.dollars, 0.01):.2f}")
        if self.unpriced:
            advice = (
                "" if load_prices(project_settings().prices).are_there else " (pip install 'agenttape-core[prices]')"
            )
            parts.append(f"{counted(self.unpriced, 'call')} without a known price{advice}")
        return ", ".join([*parts, *failed])

    def lines(self) -> list[str]:
        """Return it with a line for each of the first calls."""
        lines = [*map(str, self.changed), *(f"   +  {line}" for line in self.new)]
        lines += [f"{call}  (no longer made)" for call in self.dropped]
        lines += [f"   !  {line}" for line in self.failed]
        more = [f"      and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
        where = f"{self.path}: " if self.path else ""
        return [f"{where}{self}", *islice(lines, _SHOWN), *more]


class Diverged(NamedTuple):
    """The ways in which a run has diverged from its recording."""

    changed: Collection[int]  # the numbers of the calls that ask for something else
    missed: Sequence[str]  # the calls without a counterpart, a line each
    unused: Collection[int]  # the numbers of the unused recordings
    drops: bool = True  # whether these are removed, because no other run uses them


def plan_of(session: Session, prices: Prices, shown: str | None = None) -> Plan:
    """Return the plan for updating the cassette of a session that was opened with the options `PLANNING`.

    Args:
        session: The session, which has ended.
        prices: The prices of tokens.
        shown: The cassette as a message shows it.
    """
    report = session.report
    changed = {one.number for one in (*report.replayed, *report.stepped_into) if one.match_rule == "address"}
    unused = [one.number for one in report.judged]
    diverged = Diverged(changed, report.missed, unused, drops=not session.policy.is_shared)
    where = shown if shown is not None else shown_path(session.path)
    return planned(session.source, session.recordings.timing_of, diverged, prices, where)


def planned(
    source: Source, timing_of: Callable[[int], Timing | None], diverged: Diverged, prices: Prices, shown: str
) -> Plan:
    """Return the plan for updating a cassette.

    Args:
        source: Its recordings.
        timing_of: Returns the times of a recording, if they are known.
        diverged: Where the run has diverged from them.
        prices: The prices of tokens.
        shown: The cassette as a message shows it.
    """
    rows = {row.number: row for row in source.entries}
    models = {number for number, row in rows.items() if row.kind in MODELS}
    follow = set(below(rows.values(), timing_of, diverged.changed))
    if diverged.missed:  # the run stopped there, so what comes after was not reached
        follow.update(diverged.unused)
    dropped = set(diverged.unused) - follow if diverged.drops else set()

    def call(number: int) -> PlannedCall:
        row = rows[number]
        item = source.interaction(number) if row.kind in MODELS or row.kind == "http" else None
        if item is None or is_refused(item) or not (row.kind in MODELS or path_of_model(item)) or row.parent in models:
            return PlannedCall(number, row.kind, row.name, row.address, 0.0)
        made = model_call(item)
        cost = cost_of(tried_with(made, OWN), prices)
        return PlannedCall(number, row.kind, row.name, row.address, cost, model_of(made))

    def calls(numbers: Collection[int]) -> tuple[PlannedCall, ...]:
        return tuple(map(call, sorted(numbers)))

    return Plan(shown, len(rows), calls(diverged.changed), calls(follow), tuple(diverged.missed), calls(dropped))


def planned_together(first: Plan, other: Plan) -> Plan:
    """Return two plans of one cassette, which several runs replay, as one."""
    changed = {call.number: call for call in (*first.changed, *other.changed)}
    follow = {call.number: call for call in (*first.below, *other.below) if call.number not in changed}
    unasked = {call.number for call in first.dropped} & {call.number for call in other.dropped}
    return Plan(
        path=first.path,
        calls=max(first.calls, other.calls),
        changed=tuple(changed[number] for number in sorted(changed)),
        below=tuple(follow[number] for number in sorted(follow)),
        new=tuple(dict.fromkeys((*first.new, *other.new))),
        dropped=tuple(call for call in first.dropped if call.number in unasked),
        failed=tuple(dict.fromkeys((*first.failed, *other.failed))),
    )


def total_of(plans: Sequence[Plan]) -> Plan:
    """Return several plans as one."""
    return Plan(
        path="",
        calls=sum(one.calls for one in plans),
        changed=tuple(call for one in plans for call in one.changed),
        below=tuple(call for one in plans for call in one.below),
        new=tuple(line for one in plans for line in one.new),
        dropped=tuple(call for one in plans for call in one.dropped),
        failed=tuple(line for one in plans for line in one.failed),
    )


def summary_of(plans: Sequence[Plan], command: str = "") -> str:
    """Return the number of cassettes that need updating, and the command for it, in one line.

    Args:
        plans: The plans of all of them.
        command: The command that updates them; empty if you're about to be asked.
    """
    changed = sum(not plan.is_clean for plan in plans)
    first = f"{changed} of {counted(len(plans), 'cassette')} {'needs' if changed == 1 else 'need'} updating"
    return f"{first} ({total_of(plans)})" + (f":  {command}" if command else "")


def refuse_dear(found: Plan, max_usd: float | None) -> None:
    """Refuse a plan that may cost more than is allowed.

    Args:
        found: The plan.
        max_usd: The most that it may cost, in US dollars; `None` if it may cost anything.

    Raises:
        ConfigurationError: If it may cost more, or the cost of a call is not known.
    """
    if max_usd is None or found.is_clean:
        return
    if found.dollars > max_usd:
        raise ConfigurationError(
            f"the update may cost about ${found.dollars:.4f}, and ${max_usd:g} is allowed; nothing was recorded\n"
            f"  {found}"
        )
    calls = [call for call in (*found.changed, *found.below) if call.dollars is None]
    if calls:
        models = [call.model for call in calls if call.model is not None]
        advice = how_to_price(models, load_prices(project_settings().prices))
        raise ConfigurationError(
            f"the cost of {len(calls)} of the calls is not known, so ${max_usd:g} cannot be kept; nothing was recorded"
            f"\n  {calls[0]}\n  {advice}"
        )

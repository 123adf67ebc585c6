"""The changes of a session: checked before anything runs, and judged when it has ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from agenttape_core.engine import Policy
from agenttape_core.errors import ChangeNotReachedError, ConfigurationError, counted, shown_path
from agenttape_core.session import Session
from agenttape_core.storage import Cassette, Location

if TYPE_CHECKING:  # most sessions change nothing
    from agenttape_core.interventions import Changes, Placed

_SHOWN = 10


def changes_of(changes: Changes, cassette: Cassette, policy: Policy) -> dict[int, Placed]:
    """Return the changes of recorded calls, by their numbers.

    `changes` are by what selects the calls. Raises `ConfigurationError` if one selects no call, or can't be reached.
    """
    from agenttape_core.interventions import placed  # most sessions change nothing

    found = placed(changes, cassette)
    for row in cassette.entries:
        if row.number not in found:
            continue
        if not policy.may_replay(row.kind, row.name, row.address):
            why = "it is live, so it is not replayed"
        elif policy.must_step_into(row.kind, row.name, row.address):
            why = "its code is stepped into, so its recorded outcome is not used"
        else:
            continue
        raise ConfigurationError(
            f"changes: interaction {row.number}, {row.kind} {row.name} at {row.address}, cannot be changed: {why}"
        )
    return found


def unlanded_error(session: Session, changes: Mapping[int, Placed], shown: Location) -> ChangeNotReachedError | None:
    """Return the error that names the changes of which none was reached; `None` if one of each key was."""
    reached = {changes[one.number].key for one in session.report.reached}
    left = {number: one.change for number, one in changes.items() if one.key not in reached}
    if not left:
        return None
    rows = {row.number: row for row in session.source.entries}
    lines = []
    for number, change in list(left.items())[:_SHOWN]:
        row = rows.get(number)
        where = f"{row.kind} {row.name} at {row.address}" if row is not None else "a call"
        lines.append(f"{number:>4}  {where}: {change}")
    more = [f"and {len(left) - _SHOWN} more"] if len(left) > _SHOWN else []
    verb = "wasn't" if len(left) == 1 else "weren't"
    first = f"{shown_path(shown)}: {counted(len(left), 'change')} {verb} reached: the run didn't make the call"
    remedy = "a run in which nothing was changed shows nothing: change a call that it makes"
    return ChangeNotReachedError("\n  ".join([first, *lines, *more, remedy]))

"""The calls that changes are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from agenttape_core.errors import ConfigurationError
from agenttape_core.interventions.changes import Change, checked
from agenttape_core.matching import Key, Selector, refuse_unselected
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import IndexRow, Outcome

Changes = Mapping[int, Change] | Mapping[str, Change] | Mapping[Key, Change]  # changes by what selects the calls


class Recorded(Protocol):
    """A cassette, as far as changes have to know it."""

    path: Any

    @property
    def entries(self) -> Sequence[IndexRow]:
        """An index row for each recording."""

    def outcome(self, number: int) -> Outcome:
        """Read the response."""


class Placed(NamedTuple):
    """A change at its place."""

    key: Key  # the key that selected the call
    change: Change


def placed(changes: Changes, cassette: Recorded) -> dict[int, Placed]:
    """Return the change of each call that has one, by the number of its recording.

    A number or an address wins over what selects several calls; of those, the first that selects a call. `changes` has
    each by the key that selects its calls. Raises `ConfigurationError` if a key selects no call, or a change cannot be
    made of any call that it selects.
    """
    if not isinstance(changes, Mapping):
        raise ConfigurationError(
            f"changes={changes!r}: expected a mapping of calls to changes, {{'search': raises(...)}}"
        )
    found: dict[int, Placed] = {}
    known = cassette.entries
    refuse_unselected(changes, known, "changes", cassette.path)
    selectors = {key: Selector((key,), known, option="changes") for key in changes}
    for key, given in sorted(changes.items(), key=lambda item: not selectors[item[0]].is_exact(known)):
        change = checked(given, f"changes={{{key!r}: ...}}")
        rows = selectors[key].among(known)
        problems = {row.number: change.problem(cassette.outcome(row.number)) for row in rows}
        able = [row for row in rows if not problems[row.number]]
        if not able:
            first = rows[0]
            raise ConfigurationError(
                f"changes={{{key!r}: ...}}: {change} cannot be made of interaction {first.number}, {first.kind} "
                f"{first.name} at {first.address}: {problems[first.number]}"
            )
        for row in able:
            found.setdefault(row.number, Placed(key, change))
    return found

"""The calls that changes are made of: by number, address, kind, name, or a pattern of places."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from agenttape_core.errors import ConfigurationError, counted, shown_path
from agenttape_core.interventions.changes import Change, checked
from agenttape_core.matching import PlacePattern
from agenttape_core.schema import KINDS, IndexRow, Outcome

Key = int | str
"""Selects recorded calls: a number, a kind, a name, an address, or a pattern of places such as `**/search`."""


Changes = Mapping[int, Change] | Mapping[str, Change] | Mapping[Key, Change]
"""Changes by what selects the calls."""


class Recorded(Protocol):
    """A cassette, as far as changes have to know it."""

    path: Any

    @property
    def entries(self) -> Sequence[IndexRow]:
        """An index row for each recording."""

    def outcome(self, number: int) -> Outcome:
        """Read what came back."""


class Placed(NamedTuple):
    """A change at its place.

    Args:
        key: The key that selected the call.
        change: The change.
    """

    key: Key
    change: Change


def placed(changes: Changes, cassette: Recorded) -> dict[int, Placed]:
    """Return the change of each call that has one, by the number of its recording.

    A number or an address wins over what selects several calls; of those, the first that selects a call.

    Args:
        changes: The changes, by what selects the calls.
        cassette: The recordings.

    Raises:
        ConfigurationError: If a key selects no call, or a change cannot be made of any call that it selects.
    """
    if not isinstance(changes, Mapping):
        raise ConfigurationError(
            f"changes={changes!r}: expected a mapping of calls to changes, {{'search': raises(...)}}"
        )
    found: dict[int, Placed] = {}
    known = _Known(cassette)
    for key, given in sorted(changes.items(), key=lambda item: not known.is_exact(item[0])):
        change = checked(given, f"changes={{{key!r}: ...}}")
        rows = known.selected(key)
        if not rows:
            raise ConfigurationError(f"changes={{{key!r}: ...}}: {_nothing(key, cassette)}")
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


class _Known:
    """The recordings of a cassette, by all that selects them.

    Args:
        cassette: The cassette.
    """

    def __init__(self, cassette: Recorded) -> None:
        self._rows = cassette.entries
        self._numbers = {row.number: row for row in self._rows}
        self._kinds = _by(self._rows, lambda row: row.kind)
        self._names = _by(self._rows, lambda row: row.name)
        self._addresses = _by(self._rows, lambda row: row.address)

    def is_exact(self, key: object) -> bool:
        """Return whether a key selects calls by a number or an address."""
        return isinstance(key, int) or (key not in self._kinds and key not in self._names and key in self._addresses)

    def selected(self, key: Key) -> list[IndexRow]:
        """Return the recordings that a key selects."""
        if isinstance(key, int) and not isinstance(key, bool):
            return [self._numbers[key]] if key in self._numbers else []
        if not isinstance(key, str) or not key:
            raise ConfigurationError(
                f"changes={{{key!r}: ...}}: expected a number, an address, a kind, a name or a pattern such as "
                "'**/search'"
            )
        named = self._kinds.get(key) or self._names.get(key) or []
        if named or key in KINDS:
            return named
        if exact := self._addresses.get(key):
            return exact
        pattern = PlacePattern(key)
        return [row for row in self._rows if pattern.selects(row.address)]


def _by(rows: Sequence[IndexRow], key: Callable[[IndexRow], str]) -> dict[str, list[IndexRow]]:
    found: dict[str, list[IndexRow]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def _nothing(key: Key, cassette: Recorded) -> str:
    """Return that a key selects no call, and what is nearest to it."""
    rows, path = cassette.entries, shown_path(cassette.path)
    if isinstance(key, int):
        return f"{path} holds {counted(len(rows), 'interaction')}, and none has this number"
    names = list(dict.fromkeys(word for row in rows for word in (row.name, row.kind, row.address)))
    near = difflib.get_close_matches(key.rpartition("/")[2] or key, names, 3, 0.5)
    near = near or difflib.get_close_matches(key, names, 3, 0.3) or names[:5]
    return (
        f"no recorded call of {path} is selected; there are {', '.join(near) or 'none at all'}\n"
        "  name a call by its number, address, kind or name, or by a pattern of places such as **/search"
    )

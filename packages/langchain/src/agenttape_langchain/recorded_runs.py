"""The recorded run that an outermost run is: conversations that begin in another order keep their own answers.

Outermost runs of one name are told apart by the order in which they begin, and a recording has their addresses in that
order. Where it holds several with different configurable parts, such as `thread_id`, a run of a replay is the recorded
one that agrees with it most, and gets its address. One that agrees with none, such as one of a thread whose id is drawn
at random, is told apart by the order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any, NamedTuple

from agenttape_core import CassetteError
from agenttape_core.integration import BaseSession, Position, Slot, plain_value, register_run_reader

THREAD = "thread_id"
"""The key of a conversation, which counts more than all others."""

_NUMBERS = re.compile("[~#]")


class _Recorded(NamedTuple):
    """A recorded outermost run."""

    address: str
    facts: Mapping[str, Any]


class _Begun(NamedTuple):
    """An outermost run of this session."""

    facts: Mapping[str, Any]
    metadata: Mapping[str, Any]


class RecordedRuns:
    """The outermost runs of the cassette of one session, and those of the replay that are theirs. Thread-safe.

    Args:
        session: The session.
    """

    def __init__(self, session: BaseSession) -> None:
        self._session = session
        self._runs: dict[str, list[_Recorded]] | None = None
        self._begun: dict[str, _Begun] = {}
        self._lock = Lock()

    def begin(
        self, begin: Callable[[], Position], configurable: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> Position:
        """Begin an outermost run.

        Args:
            begin: Returns its position by the order in which runs begin.
            configurable: The configurable part of its config.
            metadata: Its metadata.
        """
        position = begin()
        facts = self._facts(configurable) if configurable else {}
        if not facts:
            self._begun[position.address] = _Begun(facts, metadata)
            return position
        with self._lock:
            recorded = self._recorded(position.address)
            if recorded and not self._session.root.is_led_to(position.address):
                address = self._address(position.address, recorded, facts)
                while address is None and position.address in self._begun:  # by a run that it was recorded for
                    position = begin()
                position = position.moved(address) if address is not None else position
            self._begun[position.address] = _Begun(facts, metadata)
        return position

    def differences(self, address: str) -> list[str]:
        """Return how the configurable part of an outermost run differs from that of the recorded one, a line for each.

        Args:
            address: The address of the run, or one below it.
        """
        root = address.partition("/")[0]
        begun = self._begun.get(root)
        if begun is None:
            return []
        try:
            steps = list(self._session.source.outermost_steps())
        except CassetteError as error:  # a record that cannot be read must not hide the miss
            return [f"unknown: {error}"]
        recorded = next((step.metadata for step in steps if step.address == root), {})
        return [
            f"{key} of {root}: recorded {value!r}, now {repr(begun.facts[key]) if key in begun.facts else 'not given'}"
            for key, value in recorded.items()
            if (key in begun.facts and begun.facts[key] != value) or not (key in begun.facts or key in begun.metadata)
        ]

    def _facts(self, configurable: Mapping[str, Any]) -> dict[str, Any]:
        plain = {str(key): plain_value(value) for key, value in configurable.items()}
        facts: dict[str, Any] = self._session.redactor.value(plain)
        return facts

    def _recorded(self, address: str) -> Sequence[_Recorded]:
        """Return the recorded runs of the same name, if they differ."""
        if self._runs is None:
            self._runs = self._read()
        return self._runs.get(_name(address), ())

    def _read(self) -> dict[str, list[_Recorded]]:
        source, runs = self._session.source, dict[str, list[_Recorded]]()
        if len({row.address.partition("/")[0] for row in source.entries}) < 2:  # noqa: PLR2004 - nothing to tell apart
            return runs
        for step in source.outermost_steps():
            if step.metadata:
                runs.setdefault(_name(step.address), []).append(_Recorded(step.address, step.metadata))
        return {name: found for name, found in runs.items() if any(run.facts != found[0].facts for run in found)}

    def _address(self, address: str, recorded: Sequence[_Recorded], facts: Mapping[str, Any]) -> str | None:
        """Return the address of the recorded run that agrees most; None if none is left that agrees at all."""
        marks = {run.address: _agreement(run.facts, facts) for run in recorded}
        worst = min(marks.values())
        left = {place: mark for place, mark in marks.items() if place not in self._begun}
        best = max(left.values(), default=worst)
        if best == worst or best[:2] == (False, 0):
            return None
        places = [place for place, mark in left.items() if mark == best]
        beside = [place for place in places if place.partition("#")[0] == address.partition("#")[0]]
        return (beside or places)[0]


def _agreement(recorded: Mapping[str, Any], facts: Mapping[str, Any]) -> tuple[bool, int]:
    """Return whether two runs are of the same thread, and how many more facts are equal."""
    same = sum(key in recorded and recorded[key] == value for key, value in facts.items())
    return THREAD in facts and recorded.get(THREAD) == facts[THREAD], same


def _name(address: str) -> str:
    return _NUMBERS.split(address, maxsplit=1)[0]


_RUNS = Slot(RecordedRuns)


def recorded_runs(session: BaseSession) -> RecordedRuns:
    """Return the recorded outermost runs of a session."""
    return session.extension(_RUNS)


register_run_reader(lambda session, address: recorded_runs(session).differences(address))

"""The recorded run that an outermost run is: conversations that begin in another order keep their own answers.

Outermost runs of one name are told apart by the order in which they begin, and a recording has their addresses in that
order. Where it holds several with different configurable parts, such as `thread_id`, a run of a replay is the recorded
one that agrees with it most, and gets its address. Of those that agree equally, such as the turns of a thread, it is
the first one with the same input, else the first one left. One that agrees with none, such as one of a thread whose id
is drawn at random, is told apart by its input and the order.

Where a session adds to a cassette, a run that is not recorded gets an address of its own: at that of another one it
would draw its ids again, and a thread that goes on would lose the messages that had them before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import count
from threading import Lock
from typing import Any, NamedTuple

from agenttape_core import CassetteError
from agenttape_core.integration import BaseSession, Plain, Position, Slot, plain_value, register_run_reader

THREAD = "thread_id"
"""The key of a conversation, which counts more than all others."""

_COMMAND = "$command"
"""The tag of LangGraph's commands in a cassette."""

_NUMBERS = re.compile("[~#]")
_FIRST = re.compile(r"[^/]+/[^/]*@1(?!\d)")
"""The address of a node in the first superstep of an outermost graph."""


class _Recorded(NamedTuple):
    """A recorded outermost run."""

    address: str
    facts: Mapping[str, Any]
    given: Plain


class _Begun(NamedTuple):
    """An outermost run of this session."""

    facts: Mapping[str, Any]
    metadata: Mapping[str, Any]
    given: Any


class RecordedRuns:
    """The outermost runs of the cassette of one session, and those of the replay that are theirs. Thread-safe.

    Args:
        session: The session.
    """

    def __init__(self, session: BaseSession) -> None:
        self._session = session
        self._adds = not session.is_replay and not session.policy.replaces
        self._runs: dict[str, list[_Recorded]] | None = None
        self._begun: dict[str, _Begun] = {}
        self._lock = Lock()

    def begin(
        self, begin: Callable[[], Position], configurable: Mapping[str, Any], metadata: Mapping[str, Any], given: Any
    ) -> Position:
        """Begin an outermost run.

        Args:
            begin: Returns its position by the order in which runs begin.
            configurable: The configurable part of its config.
            metadata: Its metadata.
            given: Its input.
        """
        position = begin()
        begun = _Begun(self._facts(configurable) if configurable else {}, metadata, given)
        with self._lock:
            if self._adds:
                position.rename(self._added(position.address, begun))
            elif begun.facts and not self._session.root.is_led_to(position.address):
                recorded = self._recorded(position.address)
                address = self._address(position.address, recorded, begun) if recorded else None
                while recorded and address is None and position.address in self._begun:  # by one that it is of
                    position = begin()
                position.rename(address if address is not None else position.address)
            self._begun[position.address] = begun
        return position

    def goes_on(self, position: Position) -> None:
        """Note that an outermost graph that has just begun goes on with a thread: it is no run that began one.

        Args:
            position: Its position, below which nothing has begun.
        """
        begun = self._begun.get(position.address)
        inside = f"{position.address}/"
        if begun is None or not any(_FIRST.match(address) for address in self._steps if address.startswith(inside)):
            return
        with self._lock:
            left = [run for run in self._of_name(position.address) if run.address not in self._begun]
            others = [] if self._adds else _with_input(left, self._plain(begun.given))
            if others or self._adds:
                position.rename(others[0].address if others else self._unused(position.address))
                self._begun[position.address] = begun

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
        """Return the recorded runs of the same name, if there are several."""
        found = self._of_name(address)
        return found if len(found) > 1 else ()

    def _of_name(self, address: str) -> Sequence[_Recorded]:
        """Return the recorded runs of the same name."""
        if self._runs is None:
            self._runs = self._read()
        return self._runs.get(_name(address), ())

    def _read(self) -> dict[str, list[_Recorded]]:
        runs: dict[str, list[_Recorded]] = {}
        if not self._adds and len(self._names) < 2:  # noqa: PLR2004 - nothing to tell apart
            return runs
        for step in self._session.source.outermost_steps():
            runs.setdefault(_name(step.address), []).append(_Recorded(step.address, step.metadata, step.input))
        return runs

    @cached_property
    def _steps(self) -> Sequence[str]:
        """The addresses of all recorded steps."""
        return self._session.source.step_addresses()

    @cached_property
    def _names(self) -> set[str]:
        """The outermost parts of all recorded addresses."""
        calls = (row.address for row in self._session.source.entries)
        return {address.partition("/")[0] for address in (*calls, *self._steps)}

    def _address(self, address: str, recorded: Sequence[_Recorded], begun: _Begun) -> str | None:
        """Return the address of the recorded run that agrees most; None if none is left that agrees at all."""
        marks = {run.address: _agreement(run.facts, begun.facts) for run in recorded}
        worst = min(marks.values())
        left = [run for run in recorded if run.address not in self._begun]
        best = max((marks[run.address] for run in left), default=worst)
        agrees = best != worst and best[:2] != (False, 0)
        if agrees:
            left = [run for run in left if marks[run.address] == best]
        if len(left) > 1:
            same = _with_input(left, self._plain(begun.given))
            left = same or (left if agrees else [])
        elif not agrees:
            left = []
        here = [run for run in left if run.address == address and not agrees]
        beside = [run for run in left if run.address.partition("#")[0] == address.partition("#")[0]]
        found = here or beside or left
        return found[0].address if found else None

    # -- a session that adds -------------------------------------------------------------------------------------------

    def _added(self, address: str, begun: _Begun) -> str:
        """Return the address of a run of a session that adds: that of the recorded run that it is, or a new one."""
        known = self._of_name(address)
        thread = begun.facts.get(THREAD)
        mine = [run for run in known if run.facts.get(THREAD) == thread]
        may_be = [run for run in mine if run.address not in self._begun]
        if thread is not None:  # its state grows with each run, so only the next one can be taken once more
            last = max((place for place, run in enumerate(mine) if run.address in self._begun), default=-1)
            may_be = mine[last + 1 : last + 2]
        same = _with_input(may_be, self._plain(begun.given)) if may_be else []
        if same:
            return next((run.address for run in same if run.address == address), same[0].address)
        is_free = address not in self._begun and all(run.address != address for run in known)
        return address if is_free else self._unused(address)

    def _unused(self, address: str) -> str:
        """Return an address that no run has."""
        stem = address.partition("#")[0]
        names = (stem if number == 1 else f"{stem}#{number}" for number in count(1))
        return next(name for name in names if name not in self._begun and name not in self._names)

    def _plain(self, given: Any) -> Plain:
        """Return an input as its step holds it."""
        try:
            return self._session.redactor.value(plain_value(given))
        except Exception:  # noqa: BLE001 - of the user's class, or too deep: its step has the name of the class
            return f"<{type(given).__module__}.{type(given).__qualname__}>"


def _agreement(recorded: Mapping[str, Any], facts: Mapping[str, Any]) -> tuple[bool, int]:
    """Return whether two runs are of the same thread, and how many more facts are equal."""
    same = sum(key in recorded and recorded[key] == value for key, value in facts.items())
    return THREAD in facts and recorded.get(THREAD) == facts[THREAD], same


def _with_input(runs: Iterable[_Recorded], given: Plain) -> list[_Recorded]:
    """Return the runs with an input, as plain data."""
    wanted = _comparable(given)
    return [run for run in runs if _comparable(run.given) == wanted]


def _comparable(plain: Plain) -> Plain:
    """Return an input without ids of messages and of questions, which differ in each recording."""
    if isinstance(plain, list):
        return [_comparable(item) for item in plain]
    if not isinstance(plain, dict):
        return plain
    command = plain.get(_COMMAND)
    if isinstance(command, dict) and isinstance(command.get("resume"), dict):
        plain = {_COMMAND: {**command, "resume": list(command["resume"].values())}}
    return {key: _comparable(item) for key, item in plain.items() if key != "id"}


def _name(address: str) -> str:
    return _NUMBERS.split(address, maxsplit=1)[0]


_RUNS = Slot(RecordedRuns)


def recorded_runs(session: BaseSession) -> RecordedRuns:
    """Return the recorded outermost runs of a session."""
    return session.extension(_RUNS)


register_run_reader(lambda session, address: recorded_runs(session).differences(address))

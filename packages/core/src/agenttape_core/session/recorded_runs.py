"""The recorded run that an outermost run is: conversations that begin in another order keep their own answers.

Outermost runs with the same name are matched in the order in which they begin, and a recording has their addresses in
that order. Where it holds several with different facts, such as the thread of a conversation, a run of a replay is the
recorded one that agrees with it most, and gets its address.

If several agree equally, such as the turns of a conversation, take the first with the same input, else the first one
left. A run that agrees with none, such as a conversation with a random id, is matched by its input and the order.

If a session adds to a cassette, an unrecorded run gets a new address: at the address of another run it would draw the
same ids again, and a resumed conversation would lose the messages that had them before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from agenttape_core.errors import CassetteError
from agenttape_core.locks import Lock, cached_property
from agenttape_core.matching import Position
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import Plain
from agenttape_core.session.codecs import plain_value
from agenttape_core.session.session import Session

_NUMBERS = "[~#]"


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


def without_ids(plain: Plain) -> Plain:
    """Return plain data without the ids of messages and of whatever else has one, which differ in each recording."""
    if isinstance(plain, list):
        return [without_ids(item) for item in plain]
    if not isinstance(plain, dict):
        return plain
    return {key: without_ids(item) for key, item in plain.items() if key != "id"}


class RecordedRuns:
    """The outermost runs of the cassette of one session, and their matches in the replay. Thread-safe.

    Args:
        session: The session.
        conversation: The fact that identifies a run's conversation; it counts more than all others.
        comparable: Returns an input in comparable form: without the parts that differ in each recording.
    """

    def __init__(
        self, session: Session, conversation: str = "", comparable: Callable[[Plain], Plain] = without_ids
    ) -> None:
        self._session = session
        self._conversation = conversation
        self._comparable = comparable
        self._adds = session.policy.adds and not session.is_replay
        self._runs: dict[str, list[_Recorded]] | None = None
        self._begun: dict[str, _Begun] = {}
        self._lock = Lock()

    @cached_property
    def are_matched(self) -> bool:
        """True if outermost runs are to be begun by `begin`: the session adds some, or the recording has steps."""
        return self._adds or bool(self._steps)

    def begin(
        self,
        begin: Callable[[], Position],
        given: Any,
        facts: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Position:
        """Begin an outermost run.

        Args:
            begin: Returns its position by the order in which runs begin.
            given: Its input.
            facts: What the program configured for it.
            metadata: Its metadata.
        """
        position = begin()
        if not self.are_matched:
            return position
        begun = _Begun(self._facts(facts) if facts else {}, metadata or {}, given)
        with self._lock:
            if self._runs is None:
                self._runs = self._read()
            if self._adds:
                position.rename(self._added(position.address, begun))
            elif self._runs and not self._session.root.is_led_to(position.address):
                recorded = self._recorded(position.address)
                address = self._address(position.address, recorded, begun) if recorded else None
                while recorded and address is None and position.address in self._begun:  # by one that it is of
                    position = begin()
                position.rename(address if address is not None else position.address)
            self._begun[position.address] = begun
        return position

    def is_other(self, position: Position) -> None:
        """Note that a run which has just begun is not the recorded one whose address it has: give it another.

        Args:
            position: Its position; no call below it has begun.
        """
        begun = self._begun.get(position.address)
        if begun is None:
            return
        with self._lock:
            left = [run for run in self._of_name(position.address) if run.address not in self._begun]
            others = [] if self._adds else self._with_input(left, begun.given)
            if others or self._adds:
                position.rename(others[0].address if others else self._unused(position.address))
                self._begun[position.address] = begun

    def recorded_input(self, address: str) -> Plain:
        """Return the recorded input of the outermost run at an address; `None` where it had none, or isn't recorded."""
        return next((run.given for run in self._of_name(address) if run.address == address), None)

    def steps_inside(self, address: str) -> Iterator[str]:
        """Yield the addresses of the recorded steps of an outermost run."""
        inside = f"{address}/"
        return (step for step in self._steps if step.startswith(inside))

    def differences(self, address: str) -> list[str]:
        """Return the differences between an outermost run's facts and the recorded run's, a line for each.

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

    def _facts(self, given: Mapping[str, Any]) -> dict[str, Any]:
        plain = {str(key): plain_value(value) for key, value in given.items()}
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
        if not self._steps:
            return runs
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
        marks = {run.address: self._agreement(run.facts, begun.facts) for run in recorded}
        worst = min(marks.values())
        left = [run for run in recorded if run.address not in self._begun]
        best = max((marks[run.address] for run in left), default=worst)
        agrees = best != worst and best[:2] != (False, 0)
        if agrees:
            left = [run for run in left if marks[run.address] == best]
            left = (self._with_input(left, begun.given) if len(left) > 1 else []) or left
        else:
            here = [run for run in left if run.address == address]
            left = self._with_input(here, begun.given) or self._with_input(left, begun.given)
        beside = [run for run in left if run.address.partition("#")[0] == address.partition("#")[0]]
        found = beside or left
        return found[0].address if found else None

    def _agreement(self, recorded: Mapping[str, Any], facts: Mapping[str, Any]) -> tuple[bool, int]:
        """Return whether two runs are of the same conversation, and how many more facts are equal."""
        same = sum(key in recorded and recorded[key] == value for key, value in facts.items())
        return self._conversation in facts and recorded.get(self._conversation) == facts[self._conversation], same

    # -- a session that adds -------------------------------------------------------------------------------------------

    def _added(self, address: str, begun: _Begun) -> str:
        """Return the address of a run of a session that adds: its recorded run's address, or a new one."""
        known = self._of_name(address)
        mine_is = begun.facts.get(self._conversation)
        mine = [run for run in known if run.facts.get(self._conversation) == mine_is]
        may_be = [run for run in mine if run.address not in self._begun]
        if mine_is is not None:  # its state grows with each run, so only the next one can be taken once more
            last = max((place for place, run in enumerate(mine) if run.address in self._begun), default=-1)
            may_be = mine[last + 1 : last + 2]
        same = self._with_input(may_be, begun.given) if may_be else []
        if same:
            return next((run.address for run in same if run.address == address), same[0].address)
        is_free = address not in self._begun and all(run.address != address for run in known)
        return address if is_free else self._unused(address)

    def _unused(self, address: str) -> str:
        """Return an address that no run has."""
        stem = address.partition("#")[0]
        names = (stem if number == 1 else f"{stem}#{number}" for number in count(1))
        return next(name for name in names if name not in self._begun and name not in self._names)

    def _with_input(self, runs: Iterable[_Recorded], given: Any) -> list[_Recorded]:
        """Return the runs with an input."""
        wanted = self._comparable(self._plain(given))
        return [run for run in runs if self._comparable(run.given) == wanted]

    def _plain(self, given: Any) -> Plain:
        """Return an input as its step holds it."""
        try:
            return self._session.redactor.value(plain_value(given))
        except Exception:  # noqa: BLE001 - of the user's class, or too deep: its step has the name of the class
            return f"<{type(given).__module__}.{type(given).__qualname__}>"


def _name(address: str) -> str:
    return re.split(_NUMBERS, address, maxsplit=1)[0]

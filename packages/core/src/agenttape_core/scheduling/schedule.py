"""The schedules of the event loops of a session: recorded, and kept again in a replay.

A program in a loop does the same again if all that it waits for from outside comes at the same point of its own steps.
While a session records, each loop has a log of what came when: see `delivery_log`. In a replay, a call that is served
waits until it is its turn. Where a schedule was recorded, that is after as many steps of the program as then; timers of
the program and posts of threads have their turns, too. Otherwise, and where the program has changed, it is when the
loop has nothing else to do, in the order in which calls began to wait.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any
from weakref import WeakKeyDictionary

from agenttape_core.locks import Lock
from agenttape_core.scheduling.awaited import RIGHT_AWAY, Awaited, LineTurn
from agenttape_core.scheduling.choices import Choices
from agenttape_core.scheduling.choosing import ChoosingLine
from agenttape_core.scheduling.delivery_log import Folding, Logged, merged
from agenttape_core.scheduling.line import Line
from agenttape_core.scheduling.phases import Phase, phases_of
from agenttape_core.scheduling.script import Script
from agenttape_core.scheduling.virtual_time import VIRTUAL
from agenttape_core.schema import Scheduled


class Schedule:
    """The schedules of all loops of one session. Thread-safe; what belongs to one loop is used in its thread.

    Args:
        recorded: What a recording knows of them.
        is_kept: Whether the order of what is executed is recorded.
        choices: A chosen order to impose instead; `None` to keep the recorded one.
        is_virtual: Whether time passes in loops only where they have nothing to do.
    """

    def __init__(
        self,
        recorded: Iterable[Scheduled],
        *,
        is_kept: bool,
        choices: Choices | None = None,
        is_virtual: bool = False,
    ) -> None:
        self._choices = choices
        self.is_virtual = is_virtual
        self._recorded = list(recorded)
        self.session: Callable[[], Any] = lambda: None
        """Returns the session, once it is known, while it lives."""
        self._lines: WeakKeyDictionary[Any, Line] = WeakKeyDictionary()
        self._groups: list[Scheduled] = []
        self._unfolded: deque[Folding] = deque()
        self._phases = phases_of(self._recorded)
        self._of_inside: dict[str, Scheduled] | None = None
        self._of_job: dict[str, Scheduled] = {}
        self._scripts: dict[int, Script] = {}
        """Those on their way through this replay, by the identity of their groups."""
        self._numbers = itertools.count(1)
        for group in self._recorded:
            if group.job:
                self._of_job.setdefault(group.job, group)
        self.is_kept = is_kept
        self.is_on = False
        """True once the session is entered: for one that never is, as that of a stand-in, nobody follows the loops."""
        self.is_over = False
        self._lock = Lock()

    def enter(self) -> None:
        """Begin to follow the loops of the session; with virtual time, hold that of the loop which runs here."""
        self.is_on = True
        if self.is_virtual:
            VIRTUAL.append(self)
            self.line()

    def turn(
        self,
        crossing: Any,
        address: str,
        *,
        is_executed: bool,
        answers: int = 0,
        is_opening: bool = False,
        during: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> AbstractContextManager[Awaited]:
        """Return a context that gives an awaited call its turn.

        It is no generator: the collector of garbage would end the turn of a stream that the program has left before the
        stream is closed.

        Args:
            crossing: The call.
            address: Where its recording stands, or will stand.
            is_executed: Whether it is executed for real.
            answers: The number of its chunks, and one, where it is served.
            is_opening: Whether it is a stream that is awaited before it is read, which has a turn of its own.
            during: Returns a context that holds while the call waits.
        """
        call = Logged(address, crossing, is_executed=is_executed, is_opening=is_opening)
        return _Taking(lambda: self._begin(call, answers, during))

    def _begin(self, call: Logged, answers: int, during: Callable[[], AbstractContextManager[None]]) -> LineTurn | None:
        line = self.line()
        if line is None or (call.is_executed and not self.is_kept):
            return None
        phases = self._phases.get(call.address)
        phase = phases.begin(is_opening=call.is_opening) if phases is not None else None
        knows_effects = phase is not None and not phase.group.knows_only_ends and 0 < answers < phase.length
        turn = LineTurn(line, call, phase, during, knows_effects=knows_effects)
        group = phase.group if phase is not None else None
        line.begin(call.address, group, is_served=not call.is_executed, made=id(call.crossing))
        return turn

    def line(self, loop: Any = None) -> Line | None:
        """Return the line of a loop, by default of the one that runs in this thread; `None` if none does."""
        if loop is None:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                return None
        session = self.session()
        if not self.is_on or self.is_over or session is None:
            return None
        found = self._lines.get(loop)
        if found is None:
            with self._lock:
                found = self._lines.get(loop)
                if found is None:
                    found = self._lines[loop] = self._new_line(loop, session)
        return found

    def _new_line(self, loop: Any, session: Any) -> Line:
        number = next(self._numbers)
        if self._choices is not None:
            return ChoosingLine(loop, self, session, number, self._choices)
        return Line(loop, self, session, number)

    def script_of(self, address: str, made: int = 0) -> Script | None:
        """Return the script of the group that a recording belongs to; `None` if it has nothing to say, or no more."""
        phases = self._phases.get(address)
        return self.script(phases.group, address, made) if phases is not None else None

    def script_around(self, address: str) -> Script | None:
        """Return the script of the group that calls inside of a recording belong to."""
        group = self._around().get(address)
        return Script(group) if group is not None else None

    def has_inside(self, address: str) -> bool:
        """Return True if the recorded order has calls that were made inside of a call."""
        return address in self._around()

    def _around(self) -> dict[str, Scheduled]:
        """Return the groups by all that their calls were made inside of."""
        if self._of_inside is None:
            found: dict[str, Scheduled] = {}
            for address, phases in self._phases.items():
                end = address.rfind("/")
                while end > 0 and (around := address[:end]) not in found:
                    found[around] = phases.group
                    end = address.rfind("/", 0, end)
            self._of_inside = found
        return self._of_inside

    @contextmanager
    def running_through(self, address: str) -> Iterator[Awaited]:
        """Run the code of a recorded call inside: what the recording says of its end has no counterpart.

        Args:
            address: Where its recording stands.
        """
        line = self.line() if address in self._phases or self.has_inside(address) else None
        if line is None:
            yield RIGHT_AWAY
            return
        line.runs_through(address)
        try:
            yield RIGHT_AWAY
        finally:
            line.end()

    def script_of_job(self, job: str) -> Script | None:
        """Return the script of the group that began with a job of a thread."""
        return self.script(self._of_job.get(job), job)

    def script(self, group: Scheduled | None, begins: str, made: int = 0) -> Script | None:
        """Return the script of a group, from where it was left: in this run, nothing may be awaited between two calls.

        Args:
            group: The group; `None` if there is none.
            begins: The call or the job that begins. One that has begun before does so in another run, from the start.
            made: As for `Script.begins`.

        Returns:
            It; `None` if it has nothing to say, or no more.
        """
        if group is None:
            return None
        script = self._scripts.get(id(group))
        if script is None or not script.begins(begins, made):
            script = self._scripts[id(group)] = Script(group)
            script.begins(begins, made)
        return script if script.next is not None else None

    def answered(self, address: str, phase: Phase | None) -> None:
        """Note that a call was answered from its recording, or that a chunk or an effect of it came."""
        earlier = phase.answers.came(address) if phase is not None and phase.answers is not None else ""
        if earlier:
            self.note(f"calls were answered in another order than in the recording, such as {earlier} before {address}")

    def keep(self, folding: Folding) -> None:
        """Keep what was recorded of a loop."""
        with self._lock:
            self._unfolded.append(folding)
            self._fold(has_ended=False)

    def _fold(self, *, has_ended: bool) -> None:
        """Fold what was kept, in its order, as far as its calls have ended, or all of it if the run has."""
        while self._unfolded and (has_ended or self._unfolded[0].has_ended):
            group = self._unfolded.popleft().scheduled()
            if group is not None:
                self._groups.append(group)

    def forget(self) -> None:
        """Forget what was recorded so far: it is with the sink."""
        with self._lock:
            self._groups.clear()
            self._unfolded.clear()

    def note(self, what: str) -> None:
        """Note that the recorded order could not be kept, and why."""
        session = self.session()
        if session is not None:
            session.report.add_disorder(what)

    def note_unseen(self, what: str) -> None:
        """Note what the order says nothing of, if the run was only observed."""
        session = self.session()
        if session is not None and session.frozen is not None and session.frozen.was_observed:
            session.report.add_unseen(what)

    def close(self) -> None:
        """End all lines, and let all go on that wait."""
        if self.is_virtual and self in VIRTUAL:
            VIRTUAL.remove(self)
        self.is_over = True
        with self._lock:
            lines = list(self._lines.values())
        for line in lines:
            line.close()

    @property
    def recorded(self) -> Sequence[Scheduled]:
        """The order that a recording knows."""
        return self._recorded

    def groups(self) -> list[Scheduled]:
        """Return what was recorded, after what was recorded before and still holds."""
        with self._lock:
            self._fold(has_ended=True)
            own = merged(self._groups)
        mine = {address for group in own for address in group.calls}
        kept = [group for group in self._recorded if mine.isdisjoint(group.calls)]
        jobs = {group.job for group in kept if group.job}
        return kept + [group for group in own if group.calls or group.job not in jobs]


class _Taking:
    """A turn while it is taken.

    Args:
        begin: Takes it; returns `None` if there is none to take.
    """

    __slots__ = ("_begin", "_turn")

    def __init__(self, begin: Callable[[], LineTurn | None]) -> None:
        self._begin = begin
        self._turn: LineTurn | None = None

    def __enter__(self) -> Awaited:
        self._turn = self._begin()
        return self._turn if self._turn is not None else RIGHT_AWAY

    def __exit__(self, *_: object) -> None:
        if self._turn is not None:
            self._turn.end()

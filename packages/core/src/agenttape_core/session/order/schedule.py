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
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol
from weakref import WeakKeyDictionary, ref

from agenttape_core.schema import Scheduled, Sender
from agenttape_core.session.order.answered import AnswersInOrder
from agenttape_core.session.order.choices import Choices
from agenttape_core.session.order.choosing import ChoosingLine
from agenttape_core.session.order.delivery_log import Folding, Logged, merged
from agenttape_core.session.order.handles import answering
from agenttape_core.session.order.line import Line
from agenttape_core.session.order.script import Script
from agenttape_core.session.order.virtual_time import VIRTUAL


class Turn(Protocol):
    """The place of one awaited call among all that its event loop waits for."""

    def waits(self) -> None:
        """Note that the call is awaited now, or the next chunk of its stream."""

    def came(self) -> None:
        """Note that the answer has come, the chunk, or the end of the stream."""

    def effected(self) -> None:
        """Note that the call has just had an effect. Thread-safe."""

    def told(self) -> None:
        """Note that the code of the call tells the program of what has come, before it returns that. Thread-safe."""

    @property
    def knows_effects(self) -> bool:
        """True if the recording says when the effects of the call came; otherwise they come with its answer."""

    async def comes(self) -> None:
        """Wait for the moment at which the answer came in the recording, the chunk, an effect, or the end."""

    async def was_cancelled(self) -> None:
        """Wait for the moment at which the call, which has been cancelled or left, ended in the recording."""

    def leaves(self) -> None:
        """Note that the reader of a stream leaves it: its code ends now, which may take a while."""

    def has_left(self) -> None:
        """Note that the code of a stream has ended that its reader has left."""


class _NoTurn:
    """The turn of a call that runs by itself: nothing of it comes from outside."""

    def waits(self) -> None: ...

    def came(self) -> None: ...

    def effected(self) -> None: ...

    def told(self) -> None: ...

    @property
    def knows_effects(self) -> bool:
        return False

    async def comes(self) -> None: ...

    async def was_cancelled(self) -> None: ...

    def leaves(self) -> None: ...

    def has_left(self) -> None: ...


NO_TURN: Turn = _NoTurn()


class Schedule:
    """The schedules of all loops of one session. Thread-safe; what belongs to one loop is used in its thread.

    Args:
        recorded: What a recording knows of them.
        session: The session.
        is_kept: Whether the order of what is executed is recorded.
        choices: The order that somebody chooses instead; `None` to keep the recorded one.
        is_virtual: Whether time passes in loops only where they have nothing to do.
    """

    def __init__(
        self,
        recorded: Iterable[Scheduled],
        session: Any,
        *,
        is_kept: bool,
        choices: Choices | None = None,
        is_virtual: bool = False,
    ) -> None:
        self._choices = choices
        self.is_virtual = is_virtual
        self._recorded = list(recorded)
        self._session = ref(session)
        self._lines: WeakKeyDictionary[Any, Line] = WeakKeyDictionary()
        self._groups: list[Scheduled] = []
        self._unfolded: deque[Folding] = deque()
        self._of_address: dict[str, Scheduled] = {}
        self._of_inside: dict[str, Scheduled] | None = None
        at_once: dict[str, list[bool]] = {}
        self._of_job: dict[str, Scheduled] = {}
        self._to_come: dict[str, AnswersInOrder] = {}
        self._numbers = itertools.count(1)
        for group in self._recorded:
            if group.job:
                self._of_job.setdefault(group.job, group)
            answers = None if group.knows_only_ends else AnswersInOrder(group)
            for address in group.calls:
                self._of_address.setdefault(address, group)
                if answers is not None:
                    self._to_come.setdefault(address, answers)
            for delivery in group.deliveries():
                if delivery.sender == "call":
                    at_once.setdefault(group.calls[delivery.which], []).append(delivery.at_once)
        self._at_once = {address: iter(flags) for address, flags in at_once.items()}
        self._answers = Counter({address: len(flags) for address, flags in at_once.items()})
        self.is_kept = is_kept
        self.is_on = False
        """True once the session is entered: for one that never is, as that of a stand-in, nobody follows the loops."""
        self.is_over = False
        self._lock = threading.Lock()

    def enter(self) -> None:
        """Begin to follow the loops of the session; with virtual time, hold that of the loop which runs here."""
        self.is_on = True
        if self.is_virtual:
            VIRTUAL.append(self)
            self.line()

    @contextmanager
    def turn(
        self,
        crossing: Any,
        address: str,
        *,
        is_executed: bool,
        answers: int = 0,
        during: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> Iterator[Turn]:
        """Give an awaited call its turn while inside.

        Args:
            crossing: The call.
            address: Where its recording stands, or will stand.
            is_executed: Whether it is executed for real.
            answers: The number of its chunks, and one, where it is served.
            during: Returns a context that holds while the call waits.
        """
        line = self.line()
        if line is None or (is_executed and not self.is_kept):
            yield NO_TURN
            return
        call, at_once = Logged(address, crossing, is_executed=is_executed), self._at_once.get(address, iter(()))
        turn = _LineTurn(line, call, at_once, during, knows_effects=0 < answers < self._answers[address])
        line.begin(address, is_served=not is_executed)
        try:
            yield turn
        finally:
            turn.end()

    def line(self, loop: Any = None) -> Line | None:
        """Return the line of a loop, by default of the one that runs in this thread; `None` if none does."""
        if loop is None:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                return None
        session = self._session()
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

    def script_of(self, address: str) -> Script | None:
        """Return the script of the group that a recording belongs to."""
        return _script(self._of_address.get(address))

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
            for address, group in self._of_address.items():
                end = address.rfind("/")
                while end > 0 and (around := address[:end]) not in found:
                    found[around] = group
                    end = address.rfind("/", 0, end)
            self._of_inside = found
        return self._of_inside

    @contextmanager
    def running_through(self, address: str) -> Iterator[Turn]:
        """Run the code of a recorded call inside: what the recording says of its end has no counterpart.

        Args:
            address: Where its recording stands.
        """
        line = self.line() if address in self._of_address or self.has_inside(address) else None
        if line is None:
            yield NO_TURN
            return
        line.runs_through(address)
        try:
            yield NO_TURN
        finally:
            line.end()

    def script_of_job(self, job: str) -> Script | None:
        """Return the script of the group that began with a job of a thread."""
        return _script(self._of_job.get(job))

    def answered(self, address: str) -> None:
        """Note that a call was answered from its recording, or that a chunk or an effect of it came."""
        answers = self._to_come.get(address)
        earlier = answers.came(address) if answers is not None else ""
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
        session = self._session()
        if session is not None:
            session.report.add_disorder(what)

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


def _script(group: Scheduled | None) -> Script | None:
    script = Script(group) if group is not None else None
    return script if script is not None and script.next is not None else None


class _LineTurn:
    """The turn of a call in a loop.

    Args:
        line: The line of the loop.
        call: The call.
        at_once: For each chunk, each effect and the end, whether it came at once in the recording.
        during: Returns a context that holds while the call waits.
        knows_effects: Whether the recording says when the effects came.
    """

    def __init__(
        self,
        line: Line,
        call: Logged,
        at_once: Iterator[bool],
        during: Callable[[], AbstractContextManager[None]],
        *,
        knows_effects: bool,
    ) -> None:
        self.knows_effects = knows_effects
        self._line = line
        self._during = during
        self._call = call
        self._at_once = at_once
        self._since: int | None = None

    def waits(self) -> None:
        self._since = self._line.waits(self._call)

    def came(self) -> None:
        if self._since is not None:
            self._line.came(self._call, self._since)
            self._since = None

    def effected(self) -> None:
        if self._line.is_here():
            self._has_effected()
        else:
            self._line.post(self._has_effected)

    def _has_effected(self) -> None:
        if self._since is not None:
            self._line.came(self._call, self._since, is_effect=True)
            self.waits()

    def told(self) -> None:
        if self._line.is_here():
            self.came()

    async def comes(self) -> None:
        self.waits()
        if not next(self._at_once, False):
            await self._comes("call")
        self.came()
        self._line.schedule.answered(self._call.address)

    async def was_cancelled(self) -> None:
        if self._line.knows_end_of(self._call):
            self.waits()
            await self._comes("cancelled")

    def leaves(self) -> None:
        self._call.is_left = True
        self.waits()

    def has_left(self) -> None:
        if self._since is not None and self._line.is_at_once(self._since):
            self._since = None

    async def _comes(self, sender: Sender) -> None:
        with answering(), self._during():
            await self._line.comes(self._call, sender)

    def end(self) -> None:
        """End it."""
        if self._since is not None:
            self._line.cancelled(self._call)
        self._line.delivers_no_more(self._call)
        self._line.end()

"""The scheduler of one session: what arrives is admitted when nothing of the program can continue (decision 133)."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, ClassVar
from weakref import ref

from agenttape_core.named_tuples import NamedTuple
from agenttape_core.scheduling.blocking import TURNS
from agenttape_core.scheduling.choices import Choices
from agenttape_core.scheduling.executing import ANSWERED
from agenttape_core.scheduling.loop_seams import FOLLOWED_LOOPS
from agenttape_core.scheduling.loops import Rooms
from agenttape_core.scheduling.participants import Key, in_loop
from agenttape_core.scheduling.strategies import AsTheyCome, ByTime, Chosen, OfAnswers, Recorded
from agenttape_core.scheduling.thread_starts import current_work
from agenttape_core.scheduling.threads import Threads
from agenttape_core.scheduling.turn import BESIDE, Turn
from agenttape_core.scheduling.unordered import BETWEEN_ANSWERS, Unordered
from agenttape_core.schema import Admissions, IndexRow, Scheduled, Timing


class Order(NamedTuple):
    """The order of a run, as its cassette keeps it.

    Args:
        admissions: The order of all that arrived.
        unordered: The labels of arrivals without an order.
        answers: The addresses of calls that overlapped, in the order in which they were answered, if no more is known.
        schedule: What an observer saw of the calls of event loops.
        at_once: The addresses of calls that answered without letting their event loop continue.
        is_older: Whether it had an order of threads, too, which an earlier version has recorded.
    """

    admissions: Admissions | None = None
    unordered: str = ""
    answers: Sequence[Sequence[str]] = ()
    schedule: Sequence[Scheduled] = ()
    at_once: Collection[str] = ()
    is_older: bool = False


class Times(NamedTuple):
    """The recorded times of a run that was only observed: its calls are answered by them.

    Args:
        rows: The recordings.
        timings: Returns their times, by their numbers.
    """

    rows: Sequence[IndexRow]
    timings: Callable[[], Mapping[int, Timing]]


class Scheduler:
    """Decides when an arrival from outside reaches the program of one session. Thread-safe.

    Args:
        order: The order that was recorded.
        imposes: Whether it's kept.
        notes: Whether the order of this run is noted.
        choices: A chosen order to impose instead; `None` to keep the recorded one.
        times: The recordings and their times; to go by the times, if the run was only observed.
        is_paced: Whether calls take the time that they took in the recording.
        is_virtual: Whether time passes only in idle loops.
    """

    followed: ClassVar[Sequence[AbstractContextManager[Any]]] = (FOLLOWED_LOOPS, TURNS)
    """They follow the event loops and the threads of this process while entered."""
    answered: ClassVar[ContextVar[Any]] = ANSWERED
    """In a replay, the call whose answer the code that runs here passes on: it was part of it in the recording."""

    def __init__(
        self,
        order: Order | None = None,
        *,
        imposes: bool = False,
        notes: bool = False,
        choices: Choices | None = None,
        times: Times | None = None,
        is_paced: bool = False,
        is_virtual: bool = False,
    ) -> None:
        order = order or Order()
        self.recorded = order
        """The order that was recorded."""
        self.is_paced = is_paced
        self._choices = choices
        self._session: Callable[[], Any] = lambda: None
        self.notes_loops = notes
        """True if the order of executed calls is recorded."""
        self._rows = times
        keys = keys_of(order.admissions) if imposes and order.admissions is not None else ()
        self._times: Counter[str] = Counter()
        self._in_step: set[tuple[str, int]] = set()
        """The effects of calls that came in one step with the one before, by the numbers of the calls' arrivals."""
        for key in keys:
            base = key.base.removesuffix("^")
            if base != key.base:
                self._in_step.add((base, self._times[base]))
            self._times[base] += 1
        strategy = AsTheyCome()
        if keys:
            strategy = Recorded(keys, self._note)
        elif imposes and order.answers:
            strategy = OfAnswers(order.answers, self._note)
        if choices is not None:
            strategy = Chosen(choices, self._by_number, self._note)
        elif times is not None:
            strategy = ByTime(self._by_address, order.answers, order.schedule, self._is_unseen)
        is_replay = imposes and bool(keys or order.unordered)
        self._unordered = Unordered(order.unordered, is_replay=is_replay, is_noted=notes, tell=self._note)
        self.turn = Turn(strategy, is_noted=notes, stalled=self._unordered.stalled)
        self.threads = Threads(self.turn, self._current, self._unordered)
        self.loops = Rooms(self.turn, self.threads, self._current)
        self.threads.rooms = self.loops
        self.loops.is_virtual, self.loops.is_chosen = is_virtual, choices is not None
        self.turn.clocks.append(self.threads.waits)
        self._blocks: set[str] = set()

    def _current(self) -> Any:
        return self._session()

    def _note(self, line: str) -> None:
        """Note that an order could not be kept."""
        if (session := self._session()) is not None:
            session.report.add_nondeterminism(line)  # another report, if the run so far was forgotten

    @property
    def is_chosen(self) -> bool:
        """True if an order is imposed that was chosen, and not recorded."""
        return self._choices is not None

    def _by_address(self) -> dict[str, Timing]:
        timings = self._rows.timings() if self._rows is not None else {}
        rows = self._rows.rows if self._rows is not None else ()
        return {row.address: timings[row.number] for row in rows if row.number in timings}

    def _by_number(self) -> dict[str, int]:
        return {row.address: row.number for row in self._rows.rows} if self._rows is not None else {}

    def _is_unseen(self) -> None:
        if (session := self._session()) is not None:
            session.report.add_unobserved(BETWEEN_ANSWERS)

    def base_of(self, number: int | None) -> str:
        """Return the origin of the answer of a call in a thread: its address, where answers come by their times."""
        if self._rows is None or not number or (self._choices is not None and not self._is_chosen_here()):
            return ""
        return next((row.address for row in self._rows.rows if row.number == number), "")

    def _is_chosen_here(self) -> bool:
        """Return whether a call of the caller's thread waits to be chosen: those of threads of a loop always do."""
        assert self._choices is not None
        work = current_work()
        return self._choices.holds_threads or (work is not None and work.loop is not None)

    def times(self, base: str) -> int:
        """Return how often something of an origin came in the recording."""
        return self._times[base]

    def came_in_step(self, base: str) -> bool:
        """Return whether the next arrival of a call came in one step with the one before."""
        return bool(self._in_step) and (base, self.turn.came(base) + self.turn.came(f"{base}^")) in self._in_step

    def belongs_to(self, session: Any) -> None:
        """Belong to a session, which is not kept alive."""
        self._session = ref(session)

    def enter(self) -> None:
        """Let the caller's thread be that of the session."""
        self.threads.enter()
        if self.recorded.is_older:
            self._note("the order of threads was recorded by an earlier version, and is not kept: record it again")
        if self.loops.is_virtual:
            self.loops.room()

    def comes_at_once(self) -> bool:
        """Return True if an arrival reaches the caller's thread right away, as nothing else continues."""
        if self.turn.is_on or self._choices is not None:
            return False
        self.threads.calling.add(threading.get_ident())
        return True

    def answers_at_once(self) -> None:
        """Note that a call in a loop is answered where it's made, by no recorded time.

        In an observed run, it isn't known whether a call of another thread that may continue came before it.
        """
        if isinstance(self.turn.strategy, ByTime) and self.turn.is_on and self.turn.has_others():
            self._is_unseen()

    def settle(self) -> None:
        """Bring the threads that continue to the point at which the session ends."""
        self.threads.settle()

    def close(self) -> None:
        """Let all that waits continue: the session ends."""
        self.threads.leave()
        self.loops.close()

    def diverge(self) -> None:
        """Keep no order from here on: the run isn't the recorded one any more."""
        with self.turn.lock:
            self.turn.strategy.diverge()
            self.turn.admit()

    def block(self, address: str) -> None:
        """Note that a replay answers a call as a whole: nothing inside of it arrives there."""
        self._blocks.add(address)

    def order(self) -> Order:
        """Return the order of this run, or the recorded one where this run had none."""
        log = self.turn.log
        if log is None:
            return self.recorded
        if not log or not self.turn.is_needed:
            return self.recorded if not self._unordered.text() else Order(unordered=self._unordered.text())
        kept = [key for key in log if not self._is_inside(key.base)]
        return Order(admissions=admissions_of(kept), unordered=self._unordered.text())

    def _is_inside(self, base: str) -> bool:
        if not self._blocks:
            return False
        outer = base.partition("|")[0] if "|" in base else base.rstrip("<^!$")
        if base.endswith("<") and outer in self._blocks:
            return True
        if "|" in base and outer in self._blocks:
            return True
        outer = outer.rstrip("!")
        end = outer.rfind("/")
        while end > 0:
            if outer[:end] in self._blocks:
                return True
            end = outer.rfind("/", 0, end)
        return False

    def begins_call(self) -> None:
        """Take the turn, if it was taken away."""
        if self.turn.is_on:
            self.threads.wait_for_turn()

    async def continues(self) -> None:
        """Take the turn after a wait that isn't the program's, such as for a connection: a replay has none."""
        room = self.loops.room() if self.turn.is_on else None
        if room is not None:
            await room.answered(BESIDE)

    def replays(self, number: int) -> None:
        """Note that a recording answers a call of the caller, where the order of calls is chosen.

        Args:
            number: The number of the recording.
        """
        if self._choices is not None and len(self.turn.live) > 1 and not in_loop() and not self._is_chosen_here():
            self._choices.in_threads.add(number)

    @property
    def passes_time(self) -> bool:
        """True if time passes only for those who wait for it."""
        return not (self.is_paced or self.loops.is_virtual)


def admissions_of(keys: Sequence[Key]) -> Admissions:
    """Return keys as a cassette keeps them."""
    places: dict[str, int] = {}
    for key in keys:
        places.setdefault(key.base, len(places))
    words: list[str] = []
    last: tuple[int, int, int] | None = None  # place, first number, count
    seen: dict[int, int] = {}

    def flush() -> None:
        if last is not None:
            place, first, count = last
            expected = seen.get(place, 0) + 1
            at = f"@{first}" if first != expected else ""
            words.append(f"{place}{at}*{count}" if count > 1 else f"{place}{at}")
            seen[place] = first + count - 1

    for key in keys:
        place = places[key.base]
        if last is not None and last[0] == place and last[1] + last[2] == key.number:
            last = (place, last[1], last[2] + 1)
        else:
            flush()
            last = (place, key.number, 1)
    flush()
    return Admissions(origins=list(places), order=" ".join(words))


def keys_of(admissions: Admissions) -> list[Key]:
    """Return the keys that a cassette keeps."""
    keys: list[Key] = []
    seen: Counter[int] = Counter()
    for word in admissions.order.split():
        rest, _, times = word.partition("*")
        place, _, number = rest.partition("@")
        at = int(place)
        first = int(number) if number else seen[at] + 1
        count = int(times or 1)
        keys += [Key(admissions.origins[at], first + more) for more in range(count)]
        seen[at] = first + count - 1
    return keys

"""The scheduler of one session by which what arrives is admitted when nothing of the program can go on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import ref

from agenttape_core.scheduling.admission.calls import AdmittedArrivals
from agenttape_core.scheduling.admission.loops import Rooms
from agenttape_core.scheduling.admission.seams import following_loops
from agenttape_core.scheduling.admission.strategies import AsTheyCome, ByTime, Recorded
from agenttape_core.scheduling.admission.threads import Participants
from agenttape_core.scheduling.admission.turn import Key, Strategy, Turn
from agenttape_core.scheduling.admission.unordered import Unordered
from agenttape_core.scheduling.loose import BETWEEN_ANSWERS
from agenttape_core.scheduling.scheduler import Order, Scheduler, Times
from agenttape_core.scheduling.strand_seams import TURNS
from agenttape_core.schema import Admissions, Timing


class AdmittingScheduler(Scheduler):
    """Decides when what comes from outside reaches the program of one session. Thread-safe.

    Args:
        order: The order that was recorded.
        imposes: Whether it's kept.
        notes: Whether the order of this run is noted.
        is_paced: Whether calls take the time that they took in the recording.
        times: The recorded times, if the run was only observed.
    """

    def __init__(self, order: Order, *, imposes: bool, notes: bool, is_paced: bool, times: Times | None) -> None:
        self.recorded = order
        self.is_paced = is_paced
        self.arrivals = AdmittedArrivals
        self._choices = None
        self._session: Any = lambda: None
        self.notes_loops = notes
        self._rows = times
        keys = keys_of(order.admissions) if imposes and order.admissions is not None else ()
        self._times = Counter(key.base for key in keys)
        strategy: Strategy = Recorded(keys, self._note) if keys else AsTheyCome()
        if times is not None:
            strategy = ByTime(self._by_address, self._is_unseen)
        is_replay = imposes and bool(keys or order.unordered)
        self._unordered = Unordered(order.unordered, is_replay=is_replay, is_noted=notes, tell=self._note)
        self.turn = Turn(strategy, is_noted=notes, stalled=self._unordered.stalled)
        self.threads: Any = Participants(self.turn, self._current, self._unordered)
        self.loops: Any = _Loops(self.turn, self.threads, self._current, is_kept=notes)
        self.threads.rooms = self.loops
        self.turn.clocks.append(self.threads)
        self._blocks: set[str] = set()

    def _current(self) -> Any:
        return self._session()

    def _by_address(self) -> dict[str, Timing]:
        timings = self._rows.timings() if self._rows is not None else {}
        rows = self._rows.rows if self._rows is not None else ()
        return {row.address: timings[row.number] for row in rows if row.number in timings}

    def _is_unseen(self) -> None:
        self._note_unseen(BETWEEN_ANSWERS)

    def base_of(self, number: int | None) -> str:
        """Return the origin of the answer of a call in a thread: its address, where answers come by their times."""
        if self._rows is None or not number:
            return ""
        return next((row.address for row in self._rows.rows if row.number == number), "")

    def times(self, base: str) -> int:
        """Return how often something of an origin came in the recording."""
        return self._times[base]

    def belongs_to(self, session: Any) -> None:
        """Belong to a session, which is not kept alive."""
        self._session = ref(session)

    @contextmanager
    def following(self) -> Iterator[None]:
        """Follow the event loops and the threads of this process, while inside."""
        with following_loops(), TURNS:
            yield

    def enter(self) -> None:
        """Let the caller's thread be that of the session."""
        self.threads.enter()

    def comes_at_once(self) -> bool:
        """Return False: each answer is an arrival, whoever else there is."""
        return False

    def settle(self) -> None:
        """Bring the threads that go on to the point at which the session ends."""
        self.threads.settle()

    def close(self) -> None:
        """Let all that waits go on: the session ends."""
        self.threads.leave()
        self.loops.close()

    def leave(self) -> None:
        """Do nothing more."""

    def depart(self) -> None:
        """Keep no order from here on: the run isn't the recorded one any more."""
        with self.turn.lock:
            self.turn.strategy.depart()
            self.turn.admit()

    def forget(self) -> None:
        """Forget what was noted so far: it's with the sink."""

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
        end = outer.rfind("/")
        while end > 0:
            if outer[:end] in self._blocks:
                return True
            end = outer.rfind("/", 0, end)
        return False

    def begins_call(self) -> None:
        """Take the turn, if it was taken away."""
        self.threads.gate()

    def serves(self, number: int) -> None:
        """Do nothing: nobody chooses."""

    @property
    def passes_time(self) -> bool:
        """True if time passes for those who wait for it."""
        return not self.is_paced


class _Loops(Rooms):
    is_virtual = False

    def __init__(self, *args: Any, is_kept: bool) -> None:
        super().__init__(*args)
        self.is_kept = is_kept
        """True if the order of what is executed is recorded."""

    def line(self, loop: Any = None) -> None:
        """Return nothing: there are no lines."""


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

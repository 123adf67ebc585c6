"""The deliveries of one event loop while a session records, and what of their order is worth keeping."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from agenttape_core.scheduling.handles import PROGRAM
from agenttape_core.schema import Delivery, Scheduled, Sender, thread_number, written

LEFT_OPEN: Final = thread_number("left open")
"""The number of what closes the generators that are still open at the end of a session or a loop: it comes then."""


class Logged:
    """An awaited call, as far as its order is concerned.

    Args:
        address: Where its recording stands.
        crossing: The call.
        is_executed: Whether it is executed for real.
        is_opening: Whether it is a stream that is awaited before it is read.
    """

    __slots__ = ("address", "came", "crossing", "is_executed", "is_left", "is_opening")

    def __init__(self, address: str, crossing: Any, *, is_executed: bool, is_opening: bool = False) -> None:
        self.address = address
        self.is_opening = is_opening
        self.came = 0
        """The number of its chunks, effects and answers so far."""
        self.crossing = crossing
        self.is_executed = is_executed
        self.is_left = False
        """True for a stream once its reader has left it."""


Made: TypeAlias = tuple[Sender, int]
"""A timer or the work of a thread, and its number among all of the loop."""


class _Event(NamedTuple):
    what: Literal["waits", "came", "at once", "cancelled", "timer", "job", "answer", "post"]
    call: Any = None
    which: int = 0
    is_idle: bool = False
    is_effect: bool = False
    made: Made = ("call", 0)
    owner: Any = None
    beside: tuple[Made, ...] = ()
    is_certain: bool = False


class _Steps:
    """Steps in a row of one owner."""

    __slots__ = ("count", "owner")

    def __init__(self, owner: Any) -> None:
        self.owner = owner
        self.count = 1


_Entry: TypeAlias = "_Event | _Steps"


_THREADS: dict[str, Literal["job", "answer", "post"]] = {"job": "job", "answer": "answer", "post": "post"}


class DeliveryLog:
    """The events of a loop since something was awaited from outside, until nothing was."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._leaves_open = False
        self._owners: dict[Made, Any] = {}
        """The calls whose code has made timers and jobs."""

    def step(self, owner: Any) -> None:
        """Note a step of the program, or of a call whose code belongs to it."""
        last = self._entries[-1] if self._entries else None
        if type(last) is _Steps and last.owner is owner:
            last.count += 1
        else:
            self._entries.append(_Steps(owner))

    def waits(self, call: Logged) -> None:
        """Note that a call is awaited, or the next chunk of its stream."""
        self._entries.append(_Event("waits", call))

    def came(self, call: Logged, *, at_once: bool, is_idle: bool, is_effect: bool = False) -> None:
        """Note that its answer came, or the next chunk of its stream, or its end, or an effect.

        Args:
            call: The call.
            at_once: Whether the loop did not go on meanwhile.
            is_idle: Whether the program had nothing else to do.
            is_effect: Whether the call has only done something besides returning, and goes on.
        """
        self._entries.append(_Event("at once" if at_once else "came", call, is_idle=is_idle, is_effect=is_effect))

    def cancelled(self, call: Logged, *, is_idle: bool) -> None:
        """Note that a call, or a stream, ended while it was awaited, as it was cancelled; see `came`."""
        self._entries.append(_Event("cancelled", call, is_idle=is_idle))

    def makes(self, made: Made, owner: Any) -> None:
        """Note that the code of a call makes a timer, or a job of a thread: not if a replay serves the call."""
        self._owners[made] = owner

    def delivered(self, made: Made, age: int, *, is_idle: bool, beside: tuple[Made, ...], is_told: bool = True) -> None:
        """Note that a timer of the program was due, or that a thread has put something into the loop.

        Args:
            made: The timer, or the work of a thread.
            age: The number of those that were made after it; for another thread, its number.
            is_idle: Whether the program had nothing else to do.
            beside: The other work of threads that was under way.
            is_told: Whether a replay may have to be told. Not for what comes of a step of the program itself.
        """
        what: Literal["timer", "job", "answer", "post"] = _THREADS.get(made[0], "timer")
        owner = self._owners.get(made)
        self._entries.append(_Event(what, None, age, is_idle, False, made, owner, beside, not is_told))

    def leaves_open(self) -> None:
        """Note that the loop or the session ends while generators of the program are open."""
        self._leaves_open = True

    def close(self, job: str) -> Folding:
        """Begin anew, and return what happened.

        Args:
            job: The job of a thread with which it began; empty if it began with a call.
        """
        entries, self._entries = self._entries, []
        leaves_open, self._leaves_open = self._leaves_open, False
        return Folding(entries, job, self._owners, leaves_open=leaves_open)


def _is_of_program(crossing: Any) -> bool:
    """Return whether a replay runs the code of a call: that of it and of all calls around it."""
    while crossing is not None:
        if not crossing.is_run_again:
            return False
        crossing = crossing.parent
    return True


class Folding:
    """Entries on their way to deliveries: without what a replay does not do, as it serves the calls around it.

    Without a schedule, a replay delivers when the program has nothing else to do, in the order in which it began to
    wait. Only what differs from that is kept.

    Args:
        entries: The entries.
        job: The job of a thread with which they began; empty if they began with a call.
        owners: The calls whose code has made timers and jobs.
        leaves_open: Whether the loop or the session ended while generators of the program were open.
    """

    def __init__(
        self, entries: Sequence[_Entry], job: str, owners: Mapping[Made, Any], *, leaves_open: bool = False
    ) -> None:
        self._leaves_open = leaves_open
        self._job = job
        self._entries = entries
        self._owners = owners

    @property
    def has_ended(self) -> bool:
        """True once all calls of the entries have ended: only then is known which of them a replay runs through."""
        return all(getattr(crossing, "has_ended", True) for entry in self._entries for crossing in _outwards(entry))

    def scheduled(self) -> Scheduled | None:
        """Return the order of what happened; `None` if a replay has the same without being told."""
        entries = [self._aged(entry) for entry in self._entries if _happens_again(entry)]
        return _Fold(entries, self._job, leaves_open=self._leaves_open).scheduled()

    def _aged(self, entry: _Entry) -> _Entry:
        """Return a timer or the work of a thread without what a replay does not make."""
        if isinstance(entry, _Steps) or not (entry.which or entry.beside):
            return entry
        sender, number = entry.made
        ages = range(1, entry.which + 1) if sender != "post" else ()
        gone = sum(self._is_gone((sender, number + age)) for age in ages)
        beside = tuple(made for made in entry.beside if not self._is_gone(made))
        return entry._replace(which=entry.which - gone, beside=beside)

    def _is_gone(self, made: Made) -> bool:
        """Return whether a replay does not make a timer, or work of a thread."""
        return made in self._owners and not _is_of_program(self._owners[made])


def have_ended(call: Logged) -> bool:
    """Return True if a call and all calls around it have ended: only then is known which of them a replay serves."""
    crossing = call.crossing
    while crossing is not None:
        if not getattr(crossing, "has_ended", True):
            return False
        crossing = getattr(crossing, "parent", None)
    return True


def _outwards(entry: _Entry) -> Iterator[Any]:
    """Yield the call of an entry, and those around it."""
    crossing = entry.call.crossing if isinstance(entry, _Event) and entry.call is not None else entry.owner
    while crossing is not None and crossing is not PROGRAM:
        yield crossing
        crossing = getattr(crossing, "parent", None)


class _Fold:
    """One folding, of entries that happen again."""

    def __init__(self, entries: list[_Entry], job: str, *, leaves_open: bool) -> None:
        self._leaves_open = leaves_open
        self._job = job
        self._entries = entries
        self._calls: dict[int, tuple[int, str]] = {}
        self._waiting: dict[int, Logged] = {}
        self._last: dict[int, int] = {}
        """The place of the last answer or chunk of each call, and that of the last post of a thread, as of call 0."""
        for place, entry in enumerate(self._entries):
            if type(entry) is _Event and not entry.is_certain and (entry.what == "came" or entry.what in _THREADS):
                self._last[id(entry.call) if entry.call is not None else 0] = place
        self._last_cancelled = {
            id(entry.call): place
            for place, entry in enumerate(self._entries)
            if type(entry) is _Event and entry.what == "cancelled"
        }
        self._after_effect: set[int] = set()
        """The calls that have had an effect and did not come to anything else since."""
        self._is_told = leaves_open
        """True if a replay must be told the order."""

    def scheduled(self) -> Scheduled | None:
        calls = [entry.call for entry in self._entries if type(entry) is _Event and entry.call is not None]
        if not any(call.is_executed for call in calls) and (calls or not self._job):
            return None
        deliveries = list(self._deliveries())
        if not (self._is_told or self._may_shift(deliveries)) or not (self._calls or self._job):
            return None
        addresses = [address for _, address in self._calls.values()]
        return Scheduled(calls=addresses, job=self._job, order=written(deliveries))

    def _may_shift(self, deliveries: list[Delivery]) -> bool:
        """Return whether timers may fire in another order in a replay, where calls take no time."""
        timers = sum(delivery.sender == "timer" for delivery in deliveries)
        return timers > 1 and any(delivery.sender == "call" and not delivery.at_once for delivery in deliveries)

    def _deliveries(self) -> Iterator[Delivery]:
        steps = 0
        for place, entry in enumerate(self._entries):
            if isinstance(entry, _Steps):
                steps += entry.count
            elif entry.what == "waits":
                self._waiting[id(entry.call)] = entry.call
            elif entry.what == "at once":
                self._stop_waiting(entry.call)
                if not self._follows_effect(entry):  # untold, a replay has both when the second comes
                    self._is_told |= bool(self._waiting) or not entry.is_idle
                yield Delivery("call", self._number(entry.call), at_once=True)
            else:
                yield self._delivery(entry, place, steps)
                steps = 0
        if self._leaves_open:
            yield Delivery("post", LEFT_OPEN)

    def _delivery(self, entry: _Event, place: int, steps: int) -> Delivery:
        after = None if entry.is_idle else steps
        if entry.what == "came":
            self._is_told |= self._follows_effect(entry)
            self._is_told |= not entry.is_idle or not self._is_first(entry.call) or self._last.get(0, -1) > place
            self._stop_waiting(entry.call)
            return Delivery("call", self._number(entry.call), after)
        if entry.what == "cancelled":  # others are cancelled in the order in which they began
            last = self._last_cancelled
            before = takewhile(lambda call: call != id(entry.call), self._waiting)
            self._is_told = self._is_told or any(last.get(call, -1) > place for call in before)
            self._stop_waiting(entry.call)
            self._is_told |= not entry.is_idle or (entry.call.is_left and bool(self._waiting))
            return Delivery("cancelled", self._number(entry.call), after)
        if entry.is_certain:
            return Delivery("post", entry.which, after)
        self._is_told = self._is_told or any(self._last.get(call, -1) > place for call in self._waiting)
        self._is_told |= bool(entry.beside) or (entry.what in _THREADS and (not entry.is_idle or entry.which > 0))
        return Delivery(_THREADS.get(entry.what, "timer"), entry.which, after)

    def _follows_effect(self, entry: _Event) -> bool:
        """Return whether the last that came of a call was an effect, and note whether this is one."""
        call = id(entry.call)
        follows = call in self._after_effect
        (self._after_effect.add if entry.is_effect else self._after_effect.discard)(call)
        return follows

    def _is_first(self, call: Logged) -> bool:
        return next(iter(self._waiting), None) == id(call)

    def _stop_waiting(self, call: Logged) -> None:
        self._waiting.pop(id(call), None)

    def _number(self, call: Logged) -> int:
        found, _ = self._calls.setdefault(id(call), (len(self._calls), call.address))
        return found


def _happens_again(entry: _Entry) -> bool:
    if isinstance(entry, _Steps):
        return entry.owner is PROGRAM or _is_of_program(entry.owner)
    if entry.call is None:
        return entry.owner is None or _is_of_program(entry.owner)
    return happens_again(entry.call)


def happens_again(call: Logged) -> bool:
    """Return whether a replay serves a call: it runs the code of all calls around it, and not that of this one."""
    crossing = call.crossing
    around = getattr(crossing, "parent", None)
    return _is_of_program(around) and not (call.is_executed and crossing.is_run_again)


def merged(groups: Iterable[Scheduled]) -> list[Scheduled]:
    """Return groups, with those in a row in one in which every call answered at once: they need no order."""
    together: list[Scheduled] = []
    for group in groups:
        if together and _is_at_once(group) and _is_at_once(together[-1]):
            together.append(_joined(together.pop(), group))
        else:
            together.append(group)
    return together


def _joined(first: Scheduled, second: Scheduled) -> Scheduled:
    shifted = [delivery._replace(which=delivery.which + len(first.calls)) for delivery in second.deliveries()]
    return Scheduled(calls=[*first.calls, *second.calls], job=first.job, order=written([*first.deliveries(), *shifted]))


def _is_at_once(group: Scheduled) -> bool:
    return not group.job and all(delivery.at_once for delivery in group.deliveries())

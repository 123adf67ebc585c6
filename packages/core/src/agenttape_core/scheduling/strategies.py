"""The strategies by which arrivals are admitted: as they come, as recorded, by recorded times, as chosen."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice

from agenttape_core.locks import cached_property
from agenttape_core.scheduling.choices import Choices
from agenttape_core.scheduling.participants import Key
from agenttape_core.scheduling.turn import Turn
from agenttape_core.schema import Timing

_LEAST = 0.1
"""Milliseconds that pass at least while a part of the program waits, as one that looks again and again."""


def timer(key: Key) -> bool:
    """Return whether an arrival is a time that has passed."""
    return key.base.endswith("~")


class AsTheyCome:
    """Admits what was offered first: a recording, or a run that has no order to keep."""

    is_led = False
    has_threads = False

    def pick(self, turn: Turn) -> Key | None:
        """Return the arrival that was offered first."""
        for key, entry in turn.ready.items():
            if entry.is_free:
                return key
        return None

    def took(self, key: Key) -> None:
        """Note that an arrival was admitted."""

    def unstick(self, turn: Turn) -> bool:
        """Let a call that waits to be cancelled again wait no more; or let time pass, where that may cancel it."""
        return pass_time(turn) or end_wait(turn)

    def depart(self) -> None:
        """Keep no order."""

    def is_set(self, key: Key, seconds: float) -> None:
        """Note that a timer is set."""

    def is_offered(self, key: Key) -> None:
        """Note that something may continue once it is admitted."""


class Recorded(AsTheyCome):
    """Admits what arrives in the order of a recording.

    What the recording does not name waits until nothing of it can come: a timer that did not fire, work that was
    cancelled before it began.

    Args:
        order: The keys in the recorded order.
        tell: Called with what could not be kept, in words.
    """

    has_threads = True

    def __init__(self, order: Sequence[Key], tell: Callable[[str], object]) -> None:
        self._order = list(order)
        self._at = 0
        self._passed: set[Key] = set()
        self._skipped: set[Key] = set()
        self._places = {key: place for place, key in enumerate(self._order)}
        self._inside: dict[Key, None] = {}
        """The arrivals of effects of answered calls: they follow the effects, which have places."""
        self._tell = tell

    @property
    def is_led(self) -> bool:  # type: ignore[override]
        """True until all of the order has come."""
        return self.head is not None

    @property
    def head(self) -> Key | None:
        """The next arrival of the recording; `None` if all have come."""
        while self._at < len(self._order) and self._order[self._at] in self._passed:
            self._at += 1
        return self._order[self._at] if self._at < len(self._order) else None

    def pick(self, turn: Turn) -> Key | None:
        """Return the next arrival of the recording, if it's there."""
        head = self.head
        if head is None:
            return super().pick(turn)
        if self._inside or self._skipped:
            for key, ready in turn.ready.items():
                if ready.is_free and (key in self._inside or key in self._skipped):  # the latter come too late
                    return key
        entry = turn.ready.get(head)
        if entry is not None:
            return head if entry.is_free else None
        for clock in turn.clocks:
            if clock.passes_to(head) if timer(head) else clock.seeks(head):
                break
        entry = turn.ready.get(head)
        return head if entry is not None and entry.is_free else None

    def took(self, key: Key) -> None:
        """Note that an arrival was admitted."""
        self._passed.add(key)
        self._inside.pop(key, None)

    def is_offered(self, key: Key) -> None:
        """Note that something may continue once it is admitted."""
        if "|" in key.base and key not in self._places:
            self._inside[key] = None

    def unstick(self, turn: Turn) -> bool:
        """Skip what does not come, up to what is there."""
        head = self.head
        free = [key for key, entry in turn.ready.items() if entry.is_free]
        listed = [key for key in free if self._places.get(key, -1) >= self._at and key not in self._passed]
        if head is None:
            return super().unstick(turn)
        if any(clock.seeks_again(head) for clock in turn.clocks) or self._lets_expire(turn):
            return True
        if listed:
            first = min(listed, key=self._places.__getitem__)
            self._skip_to(self._places[first])
            return True
        if turn.last_resorts and (self._lets_come(free) or super().unstick(turn)):
            return True
        if free:
            self._tell(f"{free[0].base} came where the recording has {head.base}")
            self.depart()
            return True
        return False

    def _lets_expire(self, turn: Turn) -> bool:
        """Let the time pass of a wait that the recording doesn't have, as nothing else continues."""
        expired = turn.expire()
        if expired is not None:
            self._skipped.add(expired)
        return expired is not None

    def _lets_come(self, free: Iterable[Key]) -> bool:
        """Let a timer come that the recording lacks, as it may cancel the call that waits for that.

        A watchdog whose sleep ended late in the recording sleeps once more in a replay.
        """
        late = next((key for key in free if timer(key) and key not in self._places), None)
        if late is not None:
            self._skipped.add(late)
        return late is not None

    def _skip_to(self, place: int) -> None:
        missing = [key for key in islice(self._order, self._at, place) if key not in self._passed]
        if not missing:
            return
        self._skipped.update(missing)
        self._tell(f"{missing[0].base} did not come before {self._order[place].base}, as it did in the recording")
        self._at = place

    def depart(self) -> None:
        """Keep no order from now on."""
        self._at = len(self._order)


class OfAnswers(AsTheyCome):
    """Keeps the order in which calls were answered, where a recording says no more: all else comes as it does.

    Args:
        groups: The addresses of calls that overlapped, one for each chunk and each end, as they came.
        tell: Called with what could not be kept, in words.
    """

    def __init__(self, groups: Iterable[Sequence[str]], tell: Callable[[str], object]) -> None:
        self._tell = tell
        self._left: list[deque[Key]] = []
        self._group: dict[Key, int] = {}
        counts: Counter[str] = Counter()
        for number, group in enumerate(groups):
            counts.update(group)
            seen = Counter({address: counts[address] - times for address, times in Counter(group).items()})
            keys = deque[Key]()
            for address in group:
                seen[address] += 1
                keys.append(Key(address, seen[address]))
            self._left.append(keys)
            self._group |= dict.fromkeys(keys, number)

    def pick(self, turn: Turn) -> Key | None:
        """Return what is in no order, or the next answer of its group."""
        for key, entry in turn.ready.items():
            if entry.is_free and (key not in self._group or self._left[self._group[key]][0] == key):
                return key
        return None

    def took(self, key: Key) -> None:
        """Note that an arrival was admitted."""
        group = self._group.pop(key, None)
        if group is not None:
            self._left[group].remove(key)

    def unstick(self, turn: Turn) -> bool:
        """Skip answers that do not come."""
        if super().unstick(turn):
            return True
        waiting = [key for key, entry in turn.ready.items() if entry.is_free and key in self._group]
        if not waiting:
            return False
        left = self._left[self._group[waiting[0]]]
        first = min((key for key in waiting if self._group[key] == self._group[waiting[0]]), key=left.index)
        self._tell(f"{left[0].base} did not come before {first.base}, as it did in the recording")
        while left[0] != first:
            del self._group[left.popleft()]
        return True

    def depart(self) -> None:
        """Keep no order."""
        self._group.clear()


class ByTime(AsTheyCome):
    """Admits the answers of a run that was only observed by the times at which they came.

    An observer does not see what the program does in between. So a replay lets all parts of it come as far as they can,
    and time passes as the recording has it: to the next answer, or to the next timer of the program before that.
    Recorded times are rounded, so answers of calls that overlapped also keep their recorded order.

    Args:
        times: The recorded times by the addresses of the calls, read when the first one arrives.
        groups: The addresses of calls that overlapped: for each chunk and each end, or only for ends.
        unseen: Called where two answers wait together: what is done between them may come in another order.
    """

    is_led = True

    def __init__(
        self, times: Callable[[], Mapping[str, Timing]], groups: Sequence[Sequence[str]], unseen: Callable[[], object]
    ) -> None:
        self._read = times
        self._groups = groups
        self._unseen = unseen
        self._now = 0.0
        """The moment of the recording, in milliseconds."""
        self._due: dict[Key, float] = {}
        """The moments at which timers are due."""
        self._passing: Key | None = None
        """The timer that a clock passes to."""

    @cached_property
    def _times(self) -> Mapping[str, Timing]:
        return self._read()

    @cached_property
    def _moments(self) -> Mapping[Key, tuple[float, int]]:
        """The moments of answers whose order is recorded, and their places: neither ever falls in a group."""
        found: dict[Key, tuple[float, int]] = {}
        left = Counter(address for group in self._groups for address in group)
        for group in self._groups:
            moment = 0.0
            for address in group:
                timing = self._times.get(address)
                if timing is None or timing.start_ms is None:
                    continue
                key = Key(address, len(timing.offsets_ms) + 2 - left[address])  # the last one is the end
                left[address] -= 1
                moment = max(moment, self._timed(key))
                found[key] = moment, len(found)
        return found

    def is_set(self, key: Key, seconds: float) -> None:
        """Note that a timer is set."""
        self._due[key] = self._now + max(_LEAST, 1000 * seconds)

    def pick(self, turn: Turn) -> Key | None:
        """Return the next arrival: right away one that takes no time, else the first of the answers and timers."""
        free = [key for key, entry in turn.ready.items() if entry.is_free]
        for key in free:
            if key == self._passing or (key.base not in self._times and not timer(key)):
                return key
        if not turn.is_settled():
            return None
        calls = [(*self._answer(key), key) for key in free if key.base in self._times]
        timers = [(self._due.get(key, self._now), -1, key) for clock in turn.clocks for key in clock.live_timers()]
        timers += [(self._due.get(key, self._now), -1, key) for key in free if timer(key)]
        if len(calls) > 1:
            self._unseen()
        if not calls and not timers:
            return None
        first: Key
        moment, _, first = min(calls + timers)
        if first in turn.ready:
            return first
        self._passing = first
        for clock in turn.clocks:
            if clock.passes_to(first):
                break
        self._now = max(self._now, moment)
        return None

    def _answer(self, key: Key) -> tuple[float, int]:
        """Return when an answer came, or a chunk of it, and its place among those whose order is recorded."""
        return self._moments.get(key) or (self._timed(key), -1)

    def _timed(self, key: Key) -> float:
        """Return the recorded time of an answer, or a chunk of it; now if that is not known."""
        timing = self._times[key.base]
        if timing.start_ms is None:
            return self._now
        came = timing.offsets_ms[key.number - 1] if key.number <= len(timing.offsets_ms) else timing.duration_ms
        return timing.start_ms + came

    def took(self, key: Key) -> None:
        """Note that an arrival was admitted."""
        if key.base in self._times:
            self._now = max(self._now, self._answer(key)[0])
        self._now = max(self._now, self._due.pop(key, self._now))

    def unstick(self, turn: Turn) -> bool:
        """Go on with whatever there is."""
        if super().unstick(turn):
            return True
        free = next((key for key, entry in turn.ready.items() if entry.is_free), None)
        turn.disregard()  # else each answer would wait for them again
        self._passing = free
        return free is not None


class Chosen(AsTheyCome):
    """Answers calls in a chosen order: see `choices`.

    All parts of the program come as far as they can first. Then any of the calls that wait may be answered next, which
    is a choice. A timer comes when no call waits, or when each of these waits for a call that is still to be made.

    Args:
        choices: The order.
        numbers: Returns the recordings by the addresses of their calls.
        tell: Called with what could not be imposed, in words.
    """

    is_led = True

    def __init__(
        self, choices: Choices, numbers: Callable[[], Mapping[str, int]], tell: Callable[[str], object]
    ) -> None:
        self._choices = choices
        self._read = numbers
        self._tell = tell
        self._is_over = False

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        return self._read()

    def pick(self, turn: Turn) -> Key | None:
        """Return what takes no time, or a call that is chosen, or a timer."""
        free = [key for key, entry in turn.ready.items() if entry.is_free]
        for key in free:
            if self._is_over or (key.base not in self._numbers and not timer(key)):
                return key
        if not turn.is_settled(sleeps=True):
            return None
        calls = {self._numbers[key.base]: key for key in free if key.base in self._numbers}
        chosen = self._choices.choose(list(calls)) if calls else None
        if chosen is None:
            first = next(filter(timer, free), None)
            if first is not None or any(clock.passes_to_first() for clock in turn.clocks) or not calls:
                return first
            chosen = self._choices.choose_anyway(list(calls), self._tell)
        return self._chosen(turn, calls[chosen])

    def _chosen(self, turn: Turn, key: Key) -> Key:
        self._choices.are_threads = self._choices.are_threads or not turn.ready[key].of_loop
        return key

    def unstick(self, turn: Turn) -> bool:
        """Go on without a thread that does not come to anything."""
        if super().unstick(turn):
            return True
        if any(entry.is_free for entry in turn.ready.values()):
            self._choices.is_held = False
            self._tell("a thread waits where it can't be observed")
            turn.disregard()
            return True
        return False

    def depart(self) -> None:
        """Impose no order from now on."""
        self._is_over = True


def pass_time(turn: Turn) -> bool:
    """Let the clock of a loop pass to its next timer, if a call waits there to be cancelled again."""
    return any(resort.passes_time() for resort in turn.last_resorts)


def end_wait(turn: Turn) -> bool:
    """End the wait of a call that isn't cancelled again."""
    if not turn.last_resorts:
        return False
    turn.last_resorts.pop(0).end()
    return True

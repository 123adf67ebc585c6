"""The strategies by which arrivals are admitted: as they come, as recorded, by recorded times, as chosen."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice, takewhile

from agenttape_core.locks import cached_property
from agenttape_core.scheduling.choices import Choices
from agenttape_core.scheduling.participants import Key
from agenttape_core.scheduling.turn import Turn
from agenttape_core.schema import Scheduled, Timing

_LEAST = 0.1
"""Milliseconds that pass at least while a part of the program waits, as one that looks again and again."""


_BEGINNING = 0
"""The number of the beginning of a call, where its arrivals have others."""
_JUST = 20.0
"""Milliseconds between the time at which a timer was due, as far as that is known, and what the program did then."""
_HOPS = 3
"""Rounds after which a framework may tell its handlers of the end of a stream that has come before."""
_SOON = 2.0
"""Milliseconds within which no provider answers."""
_MOST_EXPIRED = 8
"""The waits in a row whose time passes while the recorded order doesn't continue, if something else might: without a
bound, a thread that polls in the background would do so forever in a program that has changed."""


def timer(key: Key) -> bool:
    """Return whether an arrival is a time that has passed."""
    return key.base.endswith("~")


class AsTheyCome:
    """Admits the first offer: a recording, or a run that has no order to keep. The others decide otherwise.

    A recording without an order has no timer that came beside something else. So a replay admits timers last: on a
    busy machine, they are due sooner than the program continues.
    """

    is_led = False
    """True while there is an order to keep: then time passes when it did in that order."""
    observed: ByTime | None = None
    """The strategy itself, if a run is replayed that was only observed."""
    has_threads = False
    """True if its order has threads, so that even one of a library may be next."""

    def pick(self, turn: Turn) -> Key | None:
        """Return the arrival to admit, here the one that was offered first; `None` to wait for another one."""
        late: Key | None = None
        for key, entry in turn.ready.items():
            if entry.is_free:
                if turn.log is not None or not key.base.endswith("~"):  # as `timer`, without a call
                    return key
                late = late or key
        return late if turn.log is not None or turn.is_settled() else None

    def took(self, key: Key) -> None:
        """Note that an arrival was admitted."""

    def unstick(self, turn: Turn) -> bool:
        """Continue although the next arrival can't come; return false if nothing can continue at all."""
        if self._ends_wait(turn):
            return True
        turn.disregard()  # else each timer would wait for them again
        return any(entry.is_free for entry in turn.ready.values())

    def _ends_wait(self, turn: Turn) -> bool:
        """Let a call that waits to be cancelled again wait no more; or let time pass, where that may cancel it."""
        if any(resort.passes_time() for resort in turn.last_resorts):
            return True
        if turn.last_resorts:
            turn.last_resorts.pop(0).end()
            return True
        return False

    def diverge(self) -> None:
        """Keep no order from now on: the run isn't the recorded one."""

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
        self._expired = 0
        """The waits that have expired since the order last continued."""
        self._most_expired = _MOST_EXPIRED
        """The most of them: half as many after each time that they were in vain, as each of them takes a while."""
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
        if head not in turn.ready:
            for clock in turn.clocks:
                if clock.passes_to(head) if timer(head) else clock.seeks(head):
                    break
        entry = turn.ready.get(head)
        return head if entry is not None and entry.is_free else None

    def took(self, key: Key) -> None:
        """Note that an arrival was admitted."""
        self._passed.add(key)
        self._inside.pop(key, None)
        if key in self._places:
            self._expired = 0

    def is_offered(self, key: Key) -> None:
        """Note that something may continue once it is admitted."""
        if "|" in key.base and key not in self._places:
            self._inside[key] = None

    def unstick(self, turn: Turn) -> bool:
        """Skip arrivals that don't come, up to the ones that are there."""
        head = self.head
        free = [key for key, entry in turn.ready.items() if entry.is_free]
        listed = [key for key in free if self._places.get(key, -1) >= self._at and key not in self._passed]
        if head is None:
            return super().unstick(turn)
        is_only_wait = not (free or turn.last_resorts)
        if any(clock.seeks_again(head) for clock in turn.clocks) or self._lets_expire(turn, is_only_wait=is_only_wait):
            return True
        if listed:
            first = min(listed, key=self._places.__getitem__)
            self._skip_to(self._places[first])
            return True
        if turn.last_resorts and (self._lets_come(free) or self._ends_wait(turn)):
            return True
        if free:
            self._tell(f"{free[0].base} came where the recording has {head.base}")
            self.diverge()
            return True
        return False

    def _lets_expire(self, turn: Turn, *, is_only_wait: bool) -> bool:
        """Let the time pass of a wait that the recording doesn't have, as nothing else continues."""
        expired = turn.expire() if is_only_wait or self._expired < self._most_expired else None
        if expired is not None:
            self._expired += 1
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
        if self._expired:
            self._most_expired = max(1, self._most_expired // 2)
        self._tell(f"{missing[0].base} did not come before {self._order[place].base}, as it did in the recording")
        self._at = place

    def diverge(self) -> None:
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
        """Return an arrival without an order, or the next answer of its group."""
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
        if self._ends_wait(turn):
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

    def diverge(self) -> None:
        """Keep no order."""
        self._group.clear()


def _in_order(schedule: Scheduled, last: Callable[[str], int]) -> tuple[list[tuple[Key, int | None]], Collection[Key]]:
    """Return what came, each with the rounds since the one before; and ends of streams that a handler saw late.

    The handlers of some frameworks see the end of a stream some rounds later, as those of LangChain's agents. It came
    with the last chunk then; where the loop has rested in between, it isn't known when it came.

    Args:
        schedule: The calls.
        last: Returns the number of the last arrival of a call, by its address.
    """
    deliveries = schedule.deliveries()
    counts = Counter(each.which for each in deliveries if each.sender == "call")
    numbers = {which: last(schedule.calls[which]) - count for which, count in counts.items()}
    found: list[tuple[Key, int | None]] = []
    unknown: set[Key] = set()
    came: dict[str, int] = {}
    """The rounds in which something last came of each call, since the loop last rested."""
    rounds = moved = 0
    is_told_late = False
    for each in deliveries:
        address, after = schedule.calls[each.which], each.after
        if each.sender == "call":
            numbers[each.which] += 1
        key = Key(address, numbers[each.which] if each.sender == "call" else _BEGINNING)
        is_end = key.number > 1 and key.number == last(address)
        rounds += after or 0
        if after is None:
            came = {}
        if is_end and after is not None and rounds - came.get(address, rounds) >= _HOPS:
            is_told_late = True
            chunk = next(place for place in reversed(range(len(found))) if found[place][0].base == address)
            found.insert(chunk + 1, (key, 0))
            moved += after
        else:
            found.append((key, after + moved if after is not None else None))
            moved = 0
            unknown.update([key] if is_end and address not in came else [])
        came[address] = rounds
    return found, unknown if is_told_late else ()


class _Observed:
    """The calls of an event loop, as an observer saw them: how they began and were answered, and how far apart.

    An answer that came while the program went on comes so many rounds of the loop after the same beginning or answer
    again, or once the program rests. So what is done between two answers comes in its order. Where it may not, that is
    said: what was observed comes in another order, an answer isn't there in time, or it came so soon that the steps of
    its round aren't known which it came before.

    Args:
        schedule: The calls.
        last: Returns the number of the last arrival of a call, by its address.
        soon: Returns whether a call was answered so soon that it may not have waited for anything.
        unseen: Called where the order may be another one.
    """

    def __init__(
        self,
        schedule: Scheduled,
        last: Callable[[str], int],
        soon: Callable[[str], bool],
        unseen: Callable[[], object],
    ) -> None:
        came, ends = _in_order(schedule, last)
        keys = [key for key, _ in came]
        self._unseen = unseen
        self._round = 0
        self._left = dict.fromkeys(keys)
        """All that has not reached the program yet, in the recorded order."""
        self._waiting = dict.fromkeys(key for key in keys if key.number != _BEGINNING)
        """The answers that are not admitted yet."""
        self._followers: dict[Key, list[tuple[Key, int]]] = {}
        """The answers that came a number of rounds after something else, by that."""
        self._due: dict[Key, int] = {}
        """The rounds in which answers come."""
        self._picked: Key | None = None
        self._kept: set[Key] = set()
        """The answers that came as many rounds after something else as in the recording."""
        self._late: set[Key] = set()
        """Beginnings that such an answer came before: a handler saw them some rounds before a replay does."""
        self._own: set[Key] = set()
        """The arrivals that follow another one of their call: they come once the program asks for them."""
        self._doubtful: set[Key] = set()
        """Answers of which it isn't known which steps of the program they came before."""
        begun: set[str] = set()
        for place, (key, after) in enumerate(came):
            if after is None:
                begun = set()
            elif key.number != _BEGINNING:
                self._follow(came, place, ends)
            if key.number == 1 and key.base in begun and soon(key.base):
                self._doubtful.add(key)
            begun.add(key.base)

    def _follow(self, came: Sequence[tuple[Key, int | None]], place: int, ends: Collection[Key]) -> None:
        """Find the predecessor of an answer: the last answer before it, or else a beginning in an earlier round.

        A handler may be told of a beginning some rounds before a replay is asked.
        """
        key, found, rounds, base = came[place][0], None, 0, place
        while (after := came[base][1]) is not None and base:
            rounds += after
            base -= 1
            earlier = came[base][0]
            if earlier.base != key.base and earlier in self._own:
                continue
            if earlier.number != _BEGINNING or (found is None and rounds):
                found = earlier, rounds
            if earlier.number != _BEGINNING:
                break
        if found is None:
            return
        if found[0].base == key.base:
            self._own.add(key)
        elif found[0] in ends:
            self._doubtful.add(key)
        self._followers.setdefault(found[0], []).append((key, found[1]))

    @property
    def to_begin(self) -> list[str]:
        """The addresses of the calls that are still to begin."""
        return [key.base for key in self._left if key.number == _BEGINNING]

    @property
    def next_to_begin(self) -> list[str]:
        """The address of the call that begins next, if an answer doesn't come before."""
        first = next(iter(self._left), None)
        return [first.base] if first is not None and first.number == _BEGINNING else []

    def goes_on(self) -> None:
        """Count a round."""
        self._round += 1

    def came(self, key: Key) -> None:
        """Note that a call begins, or that its answer is admitted."""
        is_at_rest = key.number != _BEGINNING and key != self._picked  # it reaches the program a round later
        for follower, rounds in self._followers.get(key, ()):
            self._due[follower] = self._round + rounds + is_at_rest
        if key.number == _BEGINNING:
            self.reached(key)
            return
        if key != self._picked and self._late:  # the program rests
            self._late.clear()
            self._unseen()
        if key in self._waiting:
            del self._waiting[key]
            due = self._due.pop(key, None)
            if due == self._round:
                self._kept.add(key)
            if key in self._doubtful or (due is not None and due < self._round and key not in self._own):
                self._unseen()

    def reached(self, key: Key) -> None:
        """Note that a call begins, or that its answer has reached the program."""
        if key not in self._left:
            return
        earlier = [each for each in takewhile(key.__ne__, self._left) if each not in self._late]
        if key in self._kept and all(each.number == _BEGINNING for each in earlier):
            self._late.update(earlier)
        elif earlier:
            self._unseen()
        self._late.discard(key)
        del self._left[key]

    def ended(self, key: Key) -> None:
        """Note that a call was cancelled."""
        self.came(key)
        self.reached(key)

    def pick(self, turn: Turn) -> Key | None:
        """Return the answer that comes in this round."""
        head = next((key for key in self._waiting if key in turn.ready or key not in self._own), None)
        self._picked = head if head in turn.ready and self._is_due(head) else None
        return self._picked

    def came_at_once(self, key: Key) -> bool:
        """Return whether a chunk was there when the program asked for it, which it does now."""
        is_next = key == next(iter(self._waiting), None) and self._is_due(key)
        self._picked = key if is_next else self._picked
        return is_next

    def _is_due(self, key: Key) -> bool:
        return self._due.get(key, self._round + 1) <= self._round


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
        self,
        times: Callable[[], Mapping[str, Timing]],
        groups: Sequence[Sequence[str]],
        schedule: Sequence[Scheduled],
        unseen: Callable[[], object],
    ) -> None:
        self._read = times
        self._groups = groups
        self._schedule = schedule
        self._reached: Counter[str] = Counter()
        self._has_turns = len(groups) > len(schedule)
        self._unseen = unseen
        self._now = 0.0
        """The moment of the recording, in milliseconds."""
        self._due: dict[Key, float] = {}
        """The moments at which timers are due."""
        self._passing: Key | None = None
        """The timer that a clock passes to."""

    @property
    def observed(self) -> ByTime:  # type: ignore[override]
        """Itself: an answer may come while the program goes on."""
        return self

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

    @cached_property
    def _observed(self) -> Sequence[_Observed]:
        return [_Observed(one, self._last, self._is_soon, self._unseen) for one in self._schedule if "b" in one.order]

    def _last(self, address: str) -> int:
        timing = self._times.get(address)
        return len(timing.offsets_ms) + 1 if timing is not None else 1

    def _is_soon(self, address: str) -> bool:
        timing = self._times.get(address)
        return timing is not None and (timing.offsets_ms or [timing.duration_ms])[0] < _SOON

    def goes_on(self) -> None:
        """Note that a loop makes another round."""
        for one in self._observed:
            one.goes_on()

    def pick_amid(self, turn: Turn) -> Key | None:
        """Return an answer that came amid the steps of the program."""
        return next((key for one in self._observed if (key := one.pick(turn)) is not None), None)

    def came_at_once(self, key: Key) -> bool:
        """Return whether a chunk was there when the program asked for it, which it does now."""
        return key.number > 1 and any(one.came_at_once(key) for one in self._observed)

    def reached(self, base: str) -> None:
        """Note that an arrival of a call has reached the program."""
        self._reached[base] += 1
        for one in self._observed:
            one.reached(Key(base, self._reached[base]))

    def is_offered(self, key: Key) -> None:
        """Note that a call begins, or may continue."""
        if key.number == 1:
            for one in self._observed:
                one.came(Key(key.base.removesuffix("<"), _BEGINNING))

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
        coming = self._coming(turn, free)
        if not coming:
            return None
        first: Key
        moment, _, first = min(coming)
        if first in turn.ready:
            return first
        self._passing = first
        for clock in turn.clocks:
            if clock.passes_to(first):
                break
        self._now = max(self._now, moment)
        return None

    def _coming(self, turn: Turn, free: Iterable[Key]) -> list[tuple[float, int, Key]]:
        """Return the answers and timers of which the first comes next, with their moments."""
        calls = [(*self._answer(key), key) for key in free if key.base in self._times]
        timers = [(self._due.get(key, self._now), -1, key) for clock in turn.clocks for key in clock.live_timers()]
        timers += [(self._due.get(key, self._now), -1, key) for key in free if timer(key)]
        if not calls:
            return timers
        if len(calls) > 1 and not self._is_seen(turn, [key for *_, key in calls]):
            self._unseen()
        if timers and self._is_of_next(min(timers)[0]):
            return timers
        came = min(calls)[0]
        return calls + [each for each in timers if not self._is_of_later(each[0], came)]

    def _is_of_next(self, due: float) -> bool:
        """Return whether a call begins next, which a timer may let begin that is due then."""
        return any(due <= start + _JUST for one in self._observed for start in self._starts(one.next_to_begin))

    def _is_of_later(self, due: float, moment: float) -> bool:
        """Return whether a call began after a moment, which a timer may have let begin that was due before."""
        starts = (start for one in self._observed for start in self._starts(one.to_begin))
        return any(start > moment and 0 <= start - due <= _JUST for start in starts)

    def _starts(self, addresses: Iterable[str]) -> Iterator[float]:
        """Yield when calls began, in the recording."""
        for address in addresses:
            timing = self._times.get(address)
            if timing is not None and timing.start_ms is not None:
                yield timing.start_ms

    def _is_seen(self, turn: Turn, calls: Iterable[Key]) -> bool:
        """Return whether it is known what the program did between answers: those of one event loop."""
        entries = [turn.ready[key] for key in calls]
        return not self._has_turns and all(each.of_loop and each.owner is entries[0].owner for each in entries)

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
        for one in self._observed:
            one.came(key)
            if key.base.endswith("$"):  # a call that was cancelled has ended
                one.ended(Key(key.base[:-1], self._last(key.base[:-1])))
        if key.base in self._times:
            self._now = max(self._now, self._answer(key)[0])
        self._now = max(self._now, self._due.pop(key, self._now))

    def unstick(self, turn: Turn) -> bool:
        """Go on with whatever there is."""
        if self._ends_wait(turn):
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
        if self._is_over:
            return super().pick(turn)
        free = [key for key, entry in turn.ready.items() if entry.is_free]
        steps = [key for key in free if key.base not in self._numbers and not timer(key)]
        if steps and turn.is_beginning():  # the threads of a pool come in any order
            return None
        if steps:
            return min(steps, key=lambda key: turn.ready[key].owner.number)
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
        if self._ends_wait(turn):
            return True
        if any(entry.is_free for entry in turn.ready.values()):
            self._choices.is_held = False
            self._tell("a thread waits where it can't be observed")
            turn.disregard()
            return True
        return False

    def diverge(self) -> None:
        """Impose no order from now on."""
        self._is_over = True

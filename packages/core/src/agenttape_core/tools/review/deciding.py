"""Accept and reject waiting recordings: together with dependent calls, and each file replaced whole or not at all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from agenttape_core.errors import CassetteError
from agenttape_core.schema import Header, Interaction, Step, StepTiming, Timing
from agenttape_core.storage import Cassette, pending_path, real_location, write_cassette
from agenttape_core.storage.lock import locked
from agenttape_core.storage.pending import remove_pending, snapshots_of
from agenttape_core.tools.compare import Compared
from agenttape_core.tools.review.pending import Pending, PendingCall, digest_of
from agenttape_core.tools.update import are_parallel

# -- A cassette made of two: some of its calls as they were, others as they are in a new recording.


Record = Interaction | Step


def mixed(
    compared: Sequence[Compared], before: Cassette, now: Cassette, taken: Collection[Compared]
) -> tuple[Header, list[Record]]:
    """Return the header and the records of a cassette with some calls of a new recording.

    The header comes from the new recording: a call with an unchanged request doesn't depend on it. `taken` are the
    changed calls that are taken from the new recording.
    """
    governed = _Governed(compared, {id(one) for one in taken})
    places: list[tuple[Compared, bool]] = []
    for one in compared:
        if one.what != "header":
            is_new = governed.takes(one)
            if (one.other if is_new else one.first) is not None:
                places.append((one, is_new))
    numbers = _numbers(places)
    records = [_record(one, before, now, numbers, is_new=is_new) for one, is_new in places]
    return _header(places, before.header, now.header), records


class _Governed:
    """The side that each record is taken from.

    A step has no request, so no replay needs it. It goes with the changed calls below it, all of them; without any,
    with the last one before it.
    """

    def __init__(self, compared: Sequence[Compared], taken: Collection[int]) -> None:
        self._taken = taken
        self._below: defaultdict[str, list[bool]] = defaultdict(list)
        self._last: Compared | None = None
        for one in compared:
            if one.what == "interaction" and one.state != "same":
                parts = _address(one).split("/")
                for count in range(1, len(parts)):
                    self._below["/".join(parts[:count])].append(id(one) in taken)

    def takes(self, one: Compared) -> bool:
        """Return whether a record is taken from the new recording; called for each, in the order of the run."""
        if one.what == "interaction":
            if one.state != "same":
                self._last = one
            return id(one) in self._taken
        if one.state == "same":
            return False
        below = self._below.get(_address(one))
        if below is not None:
            return all(below)
        last = self._last
        return last is not None and id(last) in self._taken and not are_parallel(_address(last), _address(one))


def _address(one: Compared) -> str:
    return one.other_address or one.address


_Numbers = dict[tuple[str, bool, int], int]
"""The new number of a record, by its kind, whether it comes from the new recording, and its number there."""


def _numbers(places: Sequence[tuple[Compared, bool]]) -> _Numbers:
    numbers: _Numbers = {}
    count = {"interaction": 0, "step": 0}
    for one, _ in places:
        count[one.what] += 1
        for is_new, number in ((False, one.first), (True, one.other)):
            if number is not None:
                numbers[one.what, is_new, number] = count[one.what]
    return numbers


def _record(one: Compared, before: Cassette, now: Cassette, numbers: _Numbers, *, is_new: bool) -> Record:
    cassette, number = (now, one.other) if is_new else (before, one.first)
    assert number is not None
    if one.what == "step":
        return cassette.step(number).model_copy(update={"number": numbers["step", is_new, number]})
    item = cassette.interaction(number)
    parent = numbers.get(("interaction", is_new, item.parent)) if item.parent is not None else None
    return item.model_copy(update={"number": numbers["interaction", is_new, number], "parent": parent})


def _header(places: Sequence[tuple[Compared, bool]], before: Header, now: Header) -> Header:
    """Return the header of the new recording, with the times of the records that it has."""
    timings: dict[int, Timing] = {}
    steps: dict[int, StepTiming] = {}
    counts = {"interaction": 0, "step": 0}
    for one, is_new in places:
        counts[one.what] += 1
        number = one.other if is_new else one.first
        assert number is not None
        volatile = (now if is_new else before).volatile
        if one.what == "step":
            if is_new and (lasted := volatile.steps.get(number)) is not None:
                steps[counts["step"]] = lasted
        elif (timing := volatile.timings.get(number)) is not None:
            # The clock of another recording says nothing about the start in this one.
            timings[counts["interaction"]] = timing if is_new else timing.model_copy(update={"start_ms": None})
    volatile = now.volatile.model_copy(update={"timings": timings, "steps": steps})
    return now.model_copy(update={"volatile": volatile})


@dataclass(frozen=True, slots=True)
class Decided:
    """The fate of a recording that waited for review."""

    path: str  # the cassette as messages name it
    accepted: tuple[str, ...] = ()  # the keys of the calls that were accepted
    rejected: tuple[str, ...] = ()  # the keys of those that were rejected
    along: tuple[str, ...] = ()  # the keys of calls that weren't named and depend on the others
    # The keys of calls that still wait, and that have to be accepted so that the program replays that recorded this.
    needs: tuple[str, ...] = ()
    left: int = 0  # the number of calls that still wait

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)


def accept(pending: Pending, keys: Collection[str] | None = None) -> Decided:
    """Let calls of a new recording take the place of the recorded ones, with all that hangs together with them.

    Without `keys`, all are accepted. Raises `CassetteError` if a file has changed since it was read, is being recorded,
    or can't be written; no file changed.
    """
    return decide(pending, accepted=[call.key for call in pending.calls] if keys is None else keys)


def reject(pending: Pending, keys: Collection[str] | None = None) -> Decided:
    """Keep the recorded calls, and drop those that wait, with all that hangs together with them. As `accept`."""
    return decide(pending, rejected=[call.key for call in pending.calls] if keys is None else keys)


def decide(pending: Pending, accepted: Collection[str] = (), rejected: Collection[str] = ()) -> Decided:
    """Accept calls, and reject others; a group is rejected if any of it is. Raises as `accept` does."""
    dropped = pending.with_dependents([key for key in rejected if key in pending.dependents])
    taken = [
        call
        for call in pending.with_dependents([key for key in accepted if key in pending.dependents])
        if call not in dropped
    ]
    left = [call for call in pending.calls if call not in taken and call not in dropped]
    if taken or dropped or pending.is_same:
        with _locked(pending):
            _write(pending, taken, left)
    return Decided(
        path=pending.shown,
        accepted=_keys(taken),
        rejected=_keys(dropped),
        along=tuple(key for key in _keys([*taken, *dropped]) if key not in {*accepted, *rejected}),
        needs=_keys(call for call in pending.needs(taken) if call in left) if taken else (),
        left=len(left),
    )


def _keys(calls: Sequence[PendingCall] | Iterator[PendingCall]) -> tuple[str, ...]:
    return tuple(call.key for call in calls)


def _write(pending: Pending, taken: Sequence[PendingCall], left: Sequence[PendingCall]) -> None:
    """Replace the cassette first: a crash after that leaves accepted calls waiting that are there already."""
    path, now = pending.path, pending.now
    target = real_location(path)
    is_whole = len(taken) == len(pending.calls)
    if is_whole:
        write_cassette(target, now.header, list(now.records()))
        for snapshot, place in list(snapshots_of(path)):
            snapshot.replace(place)
    elif taken:
        write_cassette(target, *_mixed(pending, taken))
    if not left:
        remove_pending(path)
    elif len(taken) + len(left) < len(pending.calls):  # some were rejected: they are no longer what waits
        write_cassette(real_location(pending_path(path)), *_mixed(pending, [*taken, *left]))


def _mixed(pending: Pending, taken: Sequence[PendingCall]) -> Any:
    return mixed(pending.compared, pending.before, pending.now, [call.compared for call in taken])


@contextmanager
def _locked(pending: Pending) -> Iterator[None]:
    """Keep others out of both files, if they're unchanged since they were read."""
    with ExitStack() as locks:
        for path in (pending.path, pending_path(pending.path)):
            locks.enter_context(locked(real_location(path), "review"))
        if digest_of(pending.path) != pending.digest:
            raise CassetteError(
                pending.shown,
                "it, or what waits beside it, has changed since it was read; nothing was done",
                remedy="look at it again:  agenttape review",
            )
        yield

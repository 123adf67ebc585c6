"""A cassette made of two: some of its calls as they were, others as they are in a new recording."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

from agenttape_core.schema import Header, Interaction, Step, StepTiming, Timing
from agenttape_core.storage import Cassette
from agenttape_core.tools.compare.comparison import Compared
from agenttape_core.tools.update.dependents import are_parallel

Record = Interaction | Step


def mixed(
    compared: Sequence[Compared], before: Cassette, now: Cassette, taken: Collection[Compared]
) -> tuple[Header, list[Record]]:
    """Return the header and the records of a cassette with some calls of a new recording.

    The header is that of the new recording: a call that asks for the same as before does not depend on it.

    Args:
        compared: All that was compared of the two, steps too.
        before: The cassette.
        now: The new recording.
        taken: The changed calls that are taken from it.
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
"""The new number of a record, by what it is, whether it is that of the new recording, and its number there."""


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

"""The order in which the calls of a replay are answered, where it's chosen: by a variation, or by an exploration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agenttape_core.engine import Policy
from agenttape_core.errors import ConfigurationError
from agenttape_core.lifecycle.running_test import this_test
from agenttape_core.scheduling import Choices, parsed_order, ranks_of
from agenttape_core.schema import Header, IndexRow

if TYPE_CHECKING:
    from agenttape_core.redaction import Redactor


Order = str | Sequence[int | str]  # numbers of recorded calls in a text, such as `5,3`, or numbers and addresses


Pick = Callable[[Sequence[int]], int]  # returns one of several numbers of calls


def recorded_first(waiting: Sequence[int]) -> int:
    """Return the call that the recording answers first of those that wait."""
    return waiting[0]


class Imposing:
    """An order that is imposed on the first session that is opened with it.

    `order` is empty to answer calls in the recorded one; `pick` returns the call that is answered next of those that no
    order names, by default the recorded one. With `holds_threads`, it includes calls of threads; with `is_recorded`,
    the session keeps the recorded order in all, and is only looked at.
    """

    def __init__(
        self, order: Order, pick: Pick = recorded_first, *, holds_threads: bool = True, is_recorded: bool = False
    ) -> None:
        self.order = order
        self.pick = pick
        self.holds_threads = holds_threads
        self.is_recorded = is_recorded
        self.choices: Choices | None = None  # the choices of the session, once one is open
        self.rows: Sequence[IndexRow] = ()  # the recordings of that session
        self.redactor: Redactor | None = None  # hides what that session hides


def cassette_and_order(text: str) -> tuple[str, str]:
    """Return the name of a cassette, empty for any, and the order of its calls, of a text such as `desk:5,3`."""
    name, _, order = text.rpartition(":")
    return name, order


def choices_of(
    order: Order | Imposing | None,
    path: str,
    header: Header,
    rows: Sequence[IndexRow],
    *,
    policy: Policy,
    redactor: Redactor,
) -> Choices | None:
    """Return the choices of a session; `None` if it keeps the recorded order.

    Raises `ConfigurationError` if the order contains a call that isn't in the cassette, or the session isn't a strict
    replay.
    """
    test = this_test()
    if order is None and test is not None and test.order is not None and policy.offline:
        name, text = cassette_and_order(test.order)
        order = text if name in {"", Path(path).name.partition(".")[0]} else None
    if order is None:
        return None
    if not isinstance(order, Imposing):
        if not policy.offline:
            raise ConfigurationError(
                f"order={order!r}: only the calls of a strict replay can be answered in an order that is chosen\n"
                "  leave out `live` and `candidate`, and replay with mode='replay'"
            )
        return Choices(parsed_order(order, rows), _ranks(header, rows))
    if order.redactor is not None or not policy.offline:
        return None
    order.redactor, order.rows = redactor, rows
    if not order.is_recorded:
        ranks = _ranks(header, rows)
        named = parsed_order(order.order, rows)
        order.choices = Choices(named, ranks, order.pick, holds_threads=order.holds_threads)
    return order.choices


def _ranks(header: Header, rows: Sequence[IndexRow]) -> dict[int, tuple[int, int]]:
    numbers = [row.number for row in rows]
    timings = {number: header.volatile.timings[number] for number in numbers if number in header.volatile.timings}
    ends = {
        number: timing.start_ms + timing.duration_ms
        for number, timing in timings.items()
        if timing.start_ms is not None
    }
    return ranks_of(header.volatile.answers(), {row.address: row.number for row in rows}, ends)

"""The order in which the calls of a replay are answered, where somebody chooses it: `order=`, or an exploration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from agenttape_core.engine import Policy
from agenttape_core.errors import ConfigurationError
from agenttape_core.lifecycle.imposing import Imposing, Order
from agenttape_core.lifecycle.running_test import this_test
from agenttape_core.redaction import Redactor
from agenttape_core.scheduling import Choices, parsed_order, ranks_of
from agenttape_core.schema import Header, IndexRow

_cassette: ContextVar[str | None] = ContextVar("agenttape_order_of", default=None)
_imposed: ContextVar[Imposing | None] = ContextVar("agenttape_order", default=None)


@contextmanager
def imposing(imposed: Imposing) -> Iterator[Imposing]:
    """Let the first replay that is opened inside answer its calls in an order, whoever opens it.

    Args:
        imposed: The order.
    """
    test = this_test()
    token = _imposed.set(imposed)
    if test is not None:
        test.imposed.append(imposed)
    try:
        yield imposed
    finally:
        _imposed.reset(token)
        if test is not None:
            test.imposed.remove(imposed)


@contextmanager
def on_cassette(path: str) -> Iterator[None]:
    """Let an order that is imposed hold for the replays of one cassette only, of several that are opened inside."""
    token = _cassette.set(path)
    try:
        yield
    finally:
        _cassette.reset(token)


def cassette_and_order(text: str) -> tuple[str, str]:
    """Return the name of a cassette, empty for any, and the order of its calls, of a text such as `desk:5,3`."""
    name, _, order = text.rpartition(":")
    return name, order


def choices_of(
    order: Order | None,
    path: str,
    header: Header,
    rows: Sequence[IndexRow],
    *,
    policy: Policy,
    redactor: Redactor,
) -> Choices | None:
    """Return the choices of a session; `None` if it keeps the recorded order.

    Args:
        order: The order that it was given.
        path: Its cassette.
        header: The header of its cassette.
        rows: The recordings.
        policy: The permissions of the session.
        redactor: Hides its secrets.

    Raises:
        ConfigurationError: If the order names no call of the cassette, or the session is no strict replay.
    """
    test, imposed = this_test(), _imposed_on(path)
    if order is None and test is not None and test.order is not None and policy.offline:
        name, text = cassette_and_order(test.order)
        order = text if name in {"", Path(path).name.partition(".")[0]} else None
    if order is not None:
        if not policy.offline:
            raise ConfigurationError(
                f"order={order!r}: only the calls of a strict replay can be answered in an order that is chosen\n"
                "  leave out `live` and `candidate`, and replay with mode='replay'"
            )
        return Choices(parsed_order(order, rows), _ranks(header, rows))
    if imposed is None or imposed.redactor is not None or not policy.offline:
        return None
    imposed.redactor, imposed.rows = redactor, rows
    if not imposed.is_recorded:
        ranks = _ranks(header, rows)
        named = parsed_order(imposed.order, rows)
        imposed.choices = Choices(named, ranks, imposed.pick, holds_threads=imposed.holds_threads)
    return imposed.choices


def _imposed_on(path: str) -> Imposing | None:
    imposed = _imposed.get()
    if imposed is None and (test := this_test()) is not None and test.imposed:
        imposed = test.imposed[-1]  # the test runs in a context of its own
    return imposed if _cassette.get() in {None, path} else None


def _ranks(header: Header, rows: Sequence[IndexRow]) -> dict[int, tuple[int, int]]:
    numbers = [row.number for row in rows]
    timings = {number: header.volatile.timings[number] for number in numbers if number in header.volatile.timings}
    ends = {
        number: timing.start_ms + timing.duration_ms
        for number, timing in timings.items()
        if timing.start_ms is not None
    }
    return ranks_of(header.volatile.scheduled(), {row.address: row.number for row in rows}, ends)

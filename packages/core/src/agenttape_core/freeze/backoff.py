"""Sleeps of frameworks between two attempts, which a replay skips: it has no service to spare.

A sleep belongs to the code that sleeps. So the frameworks' own sleeps are listed by module and function, and no others
are skipped: sleeps in the user's code are part of the program.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from contextlib import AbstractContextManager, nullcontext

from agenttape_core.freeze.callers import calling_frame
from agenttape_core.named_tuples import NamedTuple

_RETRYING = frozenset({"tenacity", "tenacity._utils", "tenacity.nap", "tenacity.asyncio"})
"""A library of retries: whose the sleep is, is decided by who uses it."""
_PASSING = _RETRYING | {
    "agenttape_core.freeze.backoff",
    "agenttape_core.freeze.clock",
    "agenttape_core.freeze.sleeping",
    "agenttape_core.freeze.frozen_function",
    "agenttape_core.freeze.references",
    "anyio._backends._asyncio",
    "anyio._core._eventloop",
    "asyncio.tasks",
}
_places: dict[str, frozenset[str]] = {}


def register_backoff(module: str, functions: Collection[str]) -> None:
    """Name functions of a framework that sleep between two attempts; the sleeps in them are skipped in a replay.

    The frozen clock passes by as much as they would have slept.

    Args:
        module: The full name of the module, which is never imported for this.
        functions: The names of the functions or methods.
    """
    _places[module] = frozenset(functions)


class OrderedSleeps(NamedTuple):
    """Functions that can look up the recorded orders of event loops."""

    is_ordered: Callable[[], bool]
    """Returns true if a sleep that starts here is part of a recorded order."""
    passing: Callable[[float], Awaitable[None] | None]
    """Returns what passes the time of a sleep that is skipped here, in its turn; `None` if it has none."""
    holding_up: Callable[[float], AbstractContextManager[None]]
    """Lets a sleep that isn't awaited, inside, take its time for the event loop that it holds up."""


_ordered = OrderedSleeps(lambda: False, lambda _: None, lambda _: nullcontext())


def register_ordered_sleeps(ordered: OrderedSleeps) -> None:
    """Register the functions that can look up the recorded orders of event loops."""
    global _ordered  # noqa: PLW0603 - there is one scheduler
    _ordered = ordered


def ordered_sleeps() -> OrderedSleeps:
    """Return the functions that can look up the recorded orders of event loops."""
    return _ordered


def is_sleep_ordered() -> bool:
    """Return True if a sleep that starts here, in an event loop, is part of a recorded order."""
    return _ordered.is_ordered()


def is_backing_off() -> bool:
    """Return True if a sleep that starts here is a framework's, between two attempts."""
    frame = calling_frame(_PASSING)
    return frame is not None and frame.f_code.co_name in _places.get(str(frame.f_globals.get("__name__")), ())

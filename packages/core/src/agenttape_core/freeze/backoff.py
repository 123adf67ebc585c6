"""Sleeps of frameworks between two attempts, which a replay skips: it has no service to spare.

A sleep belongs to the code that sleeps. So the frameworks' own sleeps are listed by module and function, and no others
are skipped: sleeps in the user's code are part of the program.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from contextlib import AbstractContextManager, ExitStack

from agenttape_core.freeze.callers import calling_frame

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


_ordered: list[Callable[[], bool]] = []
_passers: list[Callable[[float], Awaitable[None] | None]] = []
_holders: list[Callable[[float], AbstractContextManager[None]]] = []


def register_ordered_sleeps(
    is_sleep_ordered: Callable[[], bool],
    passing: Callable[[float], Awaitable[None] | None],
    holding_up: Callable[[float], AbstractContextManager[None]],
) -> None:
    """Register the functions that can look up the recorded orders of event loops.

    `is_sleep_ordered` returns true if a sleep that starts here is part of a recorded order; `passing` returns the
    function that lets the time of that sleep pass, in its turn and without a real wait, or `None`. A sleep that isn't
    awaited holds up the loop that runs, inside of `holding_up`.
    """
    _ordered.append(is_sleep_ordered)
    _passers.append(passing)
    _holders.append(holding_up)


def is_sleep_ordered() -> bool:
    """Return True if a sleep that starts here, in an event loop, is part of a recorded order."""
    return any(knows() for knows in _ordered)


def passing(seconds: float) -> Awaitable[None] | None:
    """Return what passes the time of a sleep that is skipped here, in its turn; `None` if it has none."""
    found = (passes(seconds) for passes in _passers)
    return next((each for each in found if each is not None), None)


def holding_up(seconds: float) -> AbstractContextManager[object]:
    """Let a sleep that isn't awaited, inside, take its time for the event loop that it holds up."""
    held = ExitStack()
    for holds in _holders:
        held.enter_context(holds(seconds))
    return held


def is_backing_off() -> bool:
    """Return True if a sleep that starts here is a framework's, between two attempts."""
    frame = calling_frame(_PASSING)
    return frame is not None and frame.f_code.co_name in _places.get(str(frame.f_globals.get("__name__")), ())

"""The timers that a program sets in one event loop while something is awaited there, by their numbers."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterator
from typing import Any
from weakref import ref

from agenttape_core.schema import Sender

_WAKE_FROM_SLEEP = getattr(asyncio.futures, "_set_result_unless_cancelled", None)


class ProgramTimers:
    """The timers of a program that may still fire."""

    def __init__(self) -> None:
        self.made = 0
        """The number of timers that were set so far."""
        self._made_by_itself = 0
        self._numbers: dict[int, tuple[int, int, ref[Any]]] = {}
        self._timers: dict[int, ref[Any]] = {}
        self._sleeps: dict[int, ref[Any]] = {}

    def add(self, timer: Any, *, is_own: bool) -> None:
        """Note a timer that has just been set.

        Args:
            timer: The timer.
            is_own: Whether the program itself has set it, outside of its calls.
        """
        self.made += 1
        self._made_by_itself += is_own
        key, number = id(timer), self.made
        weak = ref(timer, lambda _: self._forget(key))
        self._numbers[key] = number, self._made_by_itself, weak
        self._timers[number] = weak
        if timer._callback is _WAKE_FROM_SLEEP:  # noqa: SLF001 - no public name tells it
            self._sleeps[number] = weak

    def forget(self, timer: Any) -> None:
        """Note that the loop has called a callback, which may be a timer."""
        if id(timer) in self._numbers:
            self._forget(id(timer))

    def _forget(self, key: int) -> None:
        number, _, _ = self._numbers.pop(key, (0, 0, None))
        self._timers.pop(number, None)
        self._sleeps.pop(number, None)

    def number_of(self, handle: Any) -> int | None:
        """Return the number of a callback; `None` if it is no timer of the program."""
        number, _, weak = self._numbers.get(id(handle), (0, 0, None))
        return number if weak is not None and weak() is handle else None

    def own_number_of(self, handle: Any) -> int:
        """Return the number of a timer of the program among those that it has set itself, outside of its calls."""
        return self._numbers[id(handle)][1]

    def to_come(self, number: int) -> Any:
        """Return a timer that has not fired yet; `None` if it has, or was cancelled."""
        weak = self._timers.get(number)
        timer = weak() if weak is not None else None
        return timer if timer is not None and not timer.cancelled() and _is_to_come(timer) else None

    def sleeps(self) -> Iterator[Any]:
        """Yield the timers of tasks that sleep."""
        for number, weak in tuple(self._sleeps.items()) if self._sleeps else ():
            timer = weak()
            if timer is not None and not timer.cancelled():
                yield timer
            else:
                self._sleeps.pop(number, None)

    def is_sleeping(self, but: Container[tuple[Sender, int]]) -> bool:
        """Return True if a task sleeps.

        Args:
            but: The timers that do not count.
        """
        for number, weak in tuple(self._sleeps.items()) if self._sleeps else ():
            timer = weak()
            if timer is None or timer.cancelled():
                self._sleeps.pop(number, None)
            elif ("timer", number) not in but:
                return True
        return False


def _is_to_come(timer: Any) -> bool:
    """Return True unless a timer has fired while nobody looked; the program may still hold it then."""
    ready = timer._loop._ready  # noqa: SLF001 - no public name tells it
    return timer._scheduled or any(other is timer for other in tuple(ready))  # noqa: SLF001

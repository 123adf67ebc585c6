"""Event loops whose callbacks can't be looked at, as those of uvloop: the program's are counted as it gives them.

Such a loop has no selector that could be asked when it blocks. It's idle when the last callback of the program that was
ready has run. Its clock can't be put forward; so a timer that comes next in a replay is offered before it's due.
"""

from __future__ import annotations

from asyncio import Handle
from collections.abc import Callable
from contextvars import Context, copy_context
from types import SimpleNamespace
from typing import Any

from agenttape_core.scheduling.executing import is_outside_program
from agenttape_core.scheduling.handles import PROGRAM, owner_of
from agenttape_core.scheduling.loops import Room, is_cancelled
from agenttape_core.scheduling.scopes import SCOPES
from agenttape_core.scheduling.turn import Key


class _Step:
    """A callback of the program that is ready.

    Args:
        room: The loop, as its session sees it.
        callback: The callback.
    """

    __slots__ = ("_callback", "_room", "handle")

    def __init__(self, room: UnseenRoom, callback: Callable[..., Any]) -> None:
        self._room = room
        self._callback = callback
        self.handle: Any = None
        """The handle that the loop has returned for it."""

    def __call__(self, *args: Any) -> Any:
        """Call it, and let others have the turn if nothing else is ready."""
        self._room.steps.pop(self, None)
        try:
            return self._callback(*args)
        finally:
            self._room.looks()


class UnseenRoom(Room):
    """Such a loop, as one session sees it; see `Room`."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.steps: dict[_Step, None] = {}
        """The callbacks of the program that are ready."""
        self._looks_later = False

    def has_steps(self, *, of_calls: bool = True) -> bool:  # noqa: ARG002
        """Return whether any of them has still to be called; those of calls can't be told apart."""
        for step in list(self.steps):
            if step.handle is None or not step.handle.cancelled():
                return True
            del self.steps[step]
        return False

    def is_step(self, callback: Any, context: Context) -> bool:
        """Return whether a callback is a step of the session's program."""
        owner = owner_of(SimpleNamespace(_callback=callback, _context=context, _loop=self.loop), self.session())
        if owner is None or owner is PROGRAM or not is_outside_program(owner):
            return owner is not None
        return self.turn.running is self.owner and is_cancelled(callback)

    def gives(self, real: Callable[..., Any], callback: Callable[..., Any], args: Any, context: Context | None) -> Any:
        """Give a step to the loop, by its real method."""
        step = _Step(self, callback)
        self.steps[step] = None
        step.handle = real(self.loop, step, *args, context=context)
        return step.handle

    def put(self, handle: Handle) -> None:
        """See `Room`."""
        step = _Step(self, handle._run)  # noqa: SLF001 - it has the context in which the callback is called
        self.steps[step] = None
        step.handle = _real(self.loop).call_soon_threadsafe(self.loop, step, context=Context())

    def rests(self) -> None:
        """Let others have the turn, and look after it as long as something is expected."""
        super().rests()
        if self.owner.rests and not self._looks_later and (pause := self.turn.pause()) is not None:
            self._looks_later = True
            _real(self.loop).call_later(self.loop, pause, self._look, context=Context())

    def _look(self) -> None:
        self._looks_later = False
        if not self.turn.is_over and self.owner.rests:
            self.turn.look()
            if self.owner.rests:
                self.rests()

    def passes_to(self, key: Key) -> bool:
        """Offer a timer before it's due, if that is what comes next."""
        timer = self.timers.get(key)
        if timer is None or not self.owner.rests:
            return timer is not None
        if not timer.cancelled():
            due = self.dues[key]
            timer.cancel()
            due(is_early=True)
        return True


def _real(loop: Any) -> Any:
    """Return the class of a loop that is written in C: that in Python, on it, has our methods."""
    return type(loop).__mro__[1]


def counting(real: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the method by which such a loop is given what it calls next."""

    def call_soon(self: Any, callback: Callable[..., Any], *args: Any, context: Any = None) -> Any:
        held = context if context is not None else copy_context()
        membership = SCOPES.of_program(held)
        session = membership.innermost() if membership is not None else None
        rooms: Any = session.scheduler.loops if session is not None else None
        room = rooms.room(self) if hasattr(rooms, "room") else None
        if not isinstance(room, UnseenRoom) or not room.is_step(callback, held):
            return real(self, callback, *args, context=context)
        return room.gives(real, callback, args, context)

    return call_soon

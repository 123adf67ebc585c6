"""The places of Python's own at which event loops get what is offered, in place while sessions are open."""

from __future__ import annotations

import asyncio
import threading
from asyncio import Handle
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, copy_context
from typing import Any

from agenttape_core.freeze import collecting
from agenttape_core.freeze.backoff import register_ordered_sleeps
from agenttape_core.locks import Lock
from agenttape_core.scheduling import futures_in_order, overdue
from agenttape_core.scheduling.admission.loops import Admitted, Room, Rooms
from agenttape_core.scheduling.executing import runs_outside_program
from agenttape_core.scheduling.finalizers import is_in_finalizer
from agenttape_core.scheduling.futures_in_order import number
from agenttape_core.scheduling.giving_up import awaited_by_loop, current_work
from agenttape_core.scheduling.handles import are_timers_ours
from agenttape_core.scheduling.lent_callbacks import lent
from agenttape_core.scheduling.lent_contexts import lend
from agenttape_core.scheduling.scopes import SCOPES
from agenttape_core.scheduling.skipped_waits import pass_to_end
from agenttape_core.scheduling.strands import HERE
from agenttape_core.scheduling.unread import UNREAD

_Loop: Any = asyncio.BaseEventLoop


def room_here(loop: Any, *, is_needed: bool = True) -> Room | None:
    """Return a loop as the session sees it whose program runs here; `None` outside of the programs of sessions.

    Args:
        loop: The loop.
        is_needed: Whether something arrives there; else it's only followed beside other participants.
    """
    membership = SCOPES.variable.get()
    if membership is None and (origin := SCOPES.origin()) is not None and origin.crossing is None:
        membership = origin.membership
    session = membership.innermost() if membership is not None else None
    if session is None or runs_outside_program():
        return None
    rooms: Any = session.scheduler.loops
    if not isinstance(rooms, Rooms) or not (is_needed or session.scheduler.turn.is_on):
        return None
    return rooms.room(loop)


def _is_timer_led() -> bool:
    """Return whether a sleep that is asked for here has its place in a recorded order: then it sets its timer."""
    room = room_here(asyncio.get_running_loop())
    return room is not None and room.turn.strategy.is_led


def _passing(seconds: float) -> Awaitable[None] | None:
    """Return what passes the time of a sleep that is skipped in a replay without an order, as its timer comes."""
    loop = asyncio.get_running_loop()
    room = room_here(loop)
    if room is None or room.turn.strategy.is_led or room.turn.log is not None:
        return None
    return pass_to_end(loop, seconds, room.works)


register_ordered_sleeps(_is_timer_led, _passing)


def _at(self: Any, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
    room = room_here(self) if not are_timers_ours() else None
    callback = callback if context is None else lent(callback, context)
    if room is None:
        return _real_at(self, when, callback, *args, context=context)
    self._check_closed()
    return room.sets_timer(_real_at, when, callback, args, context)


def _post(self: Any, callback: Any, *args: Any, context: Any = None) -> Any:
    callback = callback if context is None else lent(callback, context)
    if getattr(self, "_thread_id", None) in (None, threading.get_ident()):
        return _real_post(self, callback, *args, context=context)
    strand, work = HERE.strand, current_work()
    if strand is None or strand.is_out or (work is not None and work.is_inside):
        return _real_post(self, callback, *args, context=context)
    participants: Any = strand.strands
    rooms = getattr(participants, "rooms", None)
    room = rooms.room(self) if rooms is not None else None
    if room is None or participants.has_ended:
        return _real_post(self, callback, *args, context=context)
    self._check_closed()
    handle = Handle(Admitted(room, callback), args, self, context or copy_context())
    room.offer(f"{participants._base(strand)}>{room.name}", handle)  # noqa: SLF001
    return handle


def _soon(self: Any, callback: Callable[..., Any], *args: Any, context: Any = None) -> Any:
    if context is not None and context.get(SCOPES.variable) is None:
        callback = lent(callback, context)
    return _real_soon(self, callback, *args, context=context)


def _in_executor(self: Any, executor: Any, func: Any, *args: Any) -> Any:
    room = room_here(self)
    if room is None:
        return _real_in_executor(self, executor, func, *args)
    with awaited_by_loop(None, None):
        return number(_real_in_executor(self, executor, func, *args))


def _create_task(self: Any, *args: Any, **kwargs: Any) -> Any:
    if is_in_finalizer():  # a client that closes its connections makes no step of the program
        return number(_real_create(self, *args, **{**kwargs, "context": Context()}))
    if SCOPES.variable.get() is not None:
        room_here(self, is_needed=False)
    if UNREAD:
        kwargs["context"] = context = kwargs.get("context") or copy_context()
        SCOPES.hand_on(context)
    given = kwargs.get("context")
    take_back = lend(given) if given is not None else None
    task = number(_real_create(self, *args, **kwargs))
    if take_back is not None:
        task.add_done_callback(take_back, context=Context())
    return task


_real_at = _Loop.call_at
_real_post = _Loop.call_soon_threadsafe
_real_soon = _Loop.call_soon
_real_in_executor = _Loop.run_in_executor
_real_create = _Loop.create_task
_SEAMS: tuple[tuple[type, str, Any, Any], ...] = (
    (_Loop, "call_at", _real_at, _at),
    (_Loop, "call_soon_threadsafe", _real_post, _post),
    (_Loop, "call_soon", _real_soon, _soon),
    (_Loop, "run_in_executor", _real_in_executor, _in_executor),
    (_Loop, "create_task", _real_create, _create_task),
    *overdue.SEAMS,
)
_lock = Lock()
_uses: list[None] = []


@contextmanager
def following_loops() -> Iterator[None]:
    """Follow the event loops of the process while inside."""
    with _lock:
        _uses.append(None)
        if len(_uses) == 1:
            collecting.swap_in("loops")
            futures_in_order.swap_in()
            for owner, name, real, seam in _SEAMS:
                if vars(owner)[name] is real:
                    setattr(owner, name, seam)
    try:
        yield
    finally:
        with _lock:
            _uses.pop()
            if not _uses:
                collecting.swap_out("loops")
                futures_in_order.swap_out()
                for owner, name, real, seam in _SEAMS:
                    if vars(owner)[name] is seam:
                        setattr(owner, name, real)

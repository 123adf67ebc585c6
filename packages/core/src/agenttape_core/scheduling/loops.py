"""The seams by which sessions follow Python's own event loops, in place while any session is open.

A loop calls each of its callbacks through `Handle._run`, a method written in Python; so its steps can be counted, and a
callback can be held until its turn. Other loops (uvloop) have callbacks of their own: there, the order of answers is
kept, and the number of steps between them is not.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from asyncio import events
from asyncio.selector_events import BaseSelectorEventLoop
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, copy_context
from typing import Any

from agenttape_core.freeze import collecting
from agenttape_core.freeze.backoff import register_ordered_sleeps
from agenttape_core.locks import Lock
from agenttape_core.scheduling import abandoned, futures_in_order, overdue, stopping
from agenttape_core.scheduling.executing import EXECUTING, is_outside_program
from agenttape_core.scheduling.finalizers import is_in_finalizer
from agenttape_core.scheduling.futures_in_order import number
from agenttape_core.scheduling.giving_up import awaited_by_loop, current_work
from agenttape_core.scheduling.handing_over import HANDED, HandedOver, settle
from agenttape_core.scheduling.handles import ACTIVE, TIMED, Posted, are_timers_ours, context_of
from agenttape_core.scheduling.lent_callbacks import lent
from agenttape_core.scheduling.lent_contexts import lend
from agenttape_core.scheduling.line import Line
from agenttape_core.scheduling.scopes import SCOPES
from agenttape_core.scheduling.signals import watched
from agenttape_core.scheduling.skipped_waits import pass_to_end
from agenttape_core.scheduling.strands import Strand, in_loop
from agenttape_core.scheduling.unread import UNREAD
from agenttape_core.scheduling.virtual_time import VIRTUAL
from agenttape_core.scheduling.visiting import VISITS, let_rest

_Loop = asyncio.BaseEventLoop
_Timer: Any = asyncio.TimerHandle
_real_run = events.Handle._run  # noqa: SLF001 - the loop calls it, and nothing that is public
_real_timer = events.TimerHandle.__init__
_real_post = _Loop.call_soon_threadsafe
_real_in_executor = _Loop.run_in_executor
_real_create = _Loop.create_task
_real_soon = _Loop.call_soon
_real_at = _Loop.call_at
_AsyncGens: Any = _Loop
_real_begins = _AsyncGens._asyncgen_firstiter_hook  # noqa: SLF001 - no public name tells of generators one by one
_real_found = _AsyncGens._asyncgen_finalizer_hook  # noqa: SLF001 - as above
_real_shut_down = _Loop.shutdown_asyncgens


def _run(self: Any) -> None:
    lines = ACTIVE.get(self._loop) if ACTIVE else None  # this is done for every callback of every loop
    if lines is None:
        if TIMED and type(self) is _Timer and _is_early(self):
            self._loop._ready.append(self)  # noqa: SLF001 - no public name puts a timer there
            return
        if type(self._callback) is Posted:
            _is_put_alone(self)
        _call(self)
        if not ACTIVE and not HANDED and not VISITS:
            return
    else:
        _call_in_turn(self, tuple(lines))
    lines = ACTIVE.get(self._loop)
    if lines is not None:
        for line in tuple(lines):
            line.advance()
    if HANDED:
        settle(self._loop)
    if self._loop in VISITS:
        let_rest(self._loop)


def _call_in_turn(handle: Any, lines: tuple[Line, ...]) -> None:
    """Let a loop call a callback, unless that has to wait for its turn."""
    if any([line.holds(handle) for line in lines]):  # noqa: C419 - each line has to see it
        return
    owners = [line.owner_of(handle) for line in lines]
    _call(handle)
    for line, owner in zip(lines, owners, strict=True):
        line.has_run(handle, owner)


def _call(handle: Any) -> None:
    _real_run(handle)
    if type(handle._callback) is Posted and handle._callback.handed is not None:  # noqa: SLF001 - no public name tells it
        handle._callback.handed.is_called = True  # noqa: SLF001


def _timer_has_turn() -> bool:
    """Return whether the loop that runs here has virtual time, or an order in which timers are to come."""
    line, _ = line_of_program(None, asyncio.get_running_loop())
    return line is not None and line.expects_timers()


def _passing(seconds: float) -> Awaitable[None] | None:
    """Return what passes a time that is not waited for in the loop that runs here; `None` where nothing does."""
    loop = asyncio.get_running_loop()
    line, _ = line_of_program(None, loop)
    return pass_to_end(loop, seconds, line.works) if line is not None and line.passes_waits else None


register_ordered_sleeps(_timer_has_turn, _passing)


def _is_early(timer: Any) -> bool:
    """Return whether a timer of a program is due while nothing is awaited from outside, and the program goes on."""
    return any([line.defers(timer) for line in TIMED.get(timer._loop, ())])  # noqa: C419, SLF001 - each line has to see it


def _is_put_alone(handle: Any) -> None:
    """Take the turn for what a thread has put into a loop that awaits nothing; note it if other things go on there."""
    post, loop = handle._callback, handle._loop  # noqa: SLF001 - no public name tells it
    post.looks(handle._args)  # noqa: SLF001 - as above
    strand = post.strand if not post.is_inside else None
    if strand is None:
        return
    for other in tuple(loop._ready) if loop not in VISITS else ():  # noqa: SLF001 - as above
        line, _ = line_of_program(context_of(other), loop)
        if line is not None and line.is_recorded_beside(strand):
            strand.strands.is_loose(strand)
            return
    if post.line is not None:
        post.line.is_posted(post)


def line_of_program(context: Any, loop: Any) -> tuple[Line | None, Any]:
    """Return the line of a loop in the session of a context, and the call that is executed there; `None` for none.

    There is no line inside of what executes outside of the program. A tool that is recorded may belong to it.
    """
    membership = SCOPES.variable.get() if context is None else context.get(SCOPES.variable)
    session = membership.innermost() if membership is not None else None
    if session is None:
        return None, None
    crossing = EXECUTING.get() if context is None else context.get(EXECUTING)
    owner = crossing if crossing is not None and crossing.session is session else None
    if owner is not None and is_outside_program(owner):
        return None, None
    return session.scheduler.loops.line(loop), owner


def _timer(self: Any, *args: Any, **kwargs: Any) -> None:
    _real_timer(self, *args, **kwargs)
    if not are_timers_ours():
        line, owner = line_of_program(context_of(self), self._loop)
        if line is not None:
            line.makes_timer(self, owner)


def _soon(self: Any, callback: Callable[..., Any], *args: Any, context: Any = None) -> Any:
    if context is not None and context.get(SCOPES.variable) is None:
        callback = lent(callback, context)
    return _real_soon(self, callback, *args, context=context)


def _at(self: Any, when: float, callback: Callable[..., Any], *args: Any, context: Any = None) -> Any:
    return _real_at(self, when, callback if context is None else lent(callback, context), *args, context=context)


def _post(self: Any, callback: Callable[..., Any], *args: Any, context: Any = None) -> Any:
    callback = callback if context is None else lent(callback, context)
    result_of = _work_of(args)  # the work may have ended before anybody waits for it: then this is the loop's thread
    is_of_thread = getattr(self, "_thread_id", None) not in (None, threading.get_ident())
    if is_of_thread and result_of is None:
        result_of = _answered(callback, args)
    if result_of is not None or is_of_thread:
        work = result_of or current_work()
        callback = Posted(callback, work, is_result=result_of is not None)
        callback.looks(args)
        strand = callback.strand
        if strand is not None and is_of_thread and result_of is None and not callback.is_inside:
            callback.line = _line_of_thread(self, strand, work)
        if strand is not None and is_of_thread and result_of is None and _hands_over(self, callback, strand):
            handle = _real_post(self, callback, *args, context=context)
            strand.strands.hand_over(strand, callback.handed)
            return handle
        if not callback.is_inside and (work is None or work.line is None):
            _posts_beside(self, work, is_strand=callback.strand is not None)
    return _real_post(self, callback, *args, context=context)


def _hands_over(loop: Any, post: Posted, strand: Strand) -> bool:
    """Return whether a strand waits until a loop has come to what it puts there, and note that it does."""
    if post.is_inside or not strand.strands.hands_over(strand):
        return False
    if in_loop() and _line_that_awaits(loop, post.work) is None:
        return False  # two loops may wait for each other
    session = post.line.session() if post.line is not None else None
    if session is None:
        return False
    post.handed = HandedOver(post.line, session)
    return True


def _line_of_thread(loop: Any, strand: Strand, work: Any) -> Line | None:
    """Return the line of a loop in the session of a strand, into which the strand puts something; `None` for none.

    A thread without a context of the session has none if it was begun in the thread of a job that the loop awaits.
    """
    line, _ = line_of_program(None, loop)
    origin = SCOPES.origin() if SCOPES.variable.get() is None else None
    if origin is not None and origin.crossing is None and _line_that_awaits(loop, work) is None:
        session = origin.membership.innermost()
        line = session.scheduler.loops.line(loop) if session is not None else None
    session = line.session() if line is not None else None
    return line if session is not None and session.scheduler.threads is strand.strands else None


def _posts_beside(loop: Any, work: Any, *, is_strand: bool) -> None:
    """Note that a thread puts something into a loop that does not wait for it: perhaps it does for another thread."""
    if not is_strand:
        for line in ACTIVE.get(loop, ()):
            line.is_posted_to_by_stranger()
        return
    if (line := _line_that_awaits(loop, work)) is not None:
        line.is_posted_to_beside()


def _line_that_awaits(loop: Any, work: Any) -> Line | None:
    """Return the line of a loop that waits for some work, or for work that this is part of."""
    for outer in work.outwards() if work is not None else ():
        line: Line | None = outer.line
        if line is not None and line.loop is loop:
            return line
    return None


def _answered(callback: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Return the work of a thread that answers a future of the loop: see `queued_futures`."""
    for future in (getattr(callback, "__self__", None), *args[:1]):
        work = getattr(future, "_agenttape_work", None)
        if getattr(work, "sort", "") == "answer":
            return work
    return None


def _work_of(args: tuple[Any, ...]) -> Any:
    """Return the work whose result a thread hands over: `_chain_future` passes the future of the work along."""
    source = args[1] if len(args) > 1 else None
    return getattr(source, "_agenttape_work", None)


def _in_executor(self: Any, executor: Any, func: Any, *args: Any) -> Any:
    line, owner = line_of_program(None, self)
    if line is None:
        return _real_in_executor(self, executor, func, *args)
    with awaited_by_loop(line, owner):
        return number(_real_in_executor(self, executor, func, *args))


def _create_task(self: Any, *args: Any, **kwargs: Any) -> Any:
    if VIRTUAL:
        line_of_program(None, self)  # time stands still from the first task on
    if is_in_finalizer():  # a client that closes its connections makes no step of the program
        return number(_real_create(self, *args, **{**kwargs, "context": Context()}))
    if UNREAD:
        kwargs["context"] = context = kwargs.get("context") or copy_context()
        SCOPES.hand_on(context)
    given = kwargs.get("context")
    take_back = lend(given) if given is not None else None
    task = number(_real_create(self, *args, **kwargs))
    if take_back is not None:
        task.add_done_callback(take_back, context=Context())
    return task


def _begins(self: Any, generator: Any) -> None:
    _real_begins(self, generator)
    line, owner = line_of_program(None, self)
    abandoned.begins(self, generator, line if owner is None else None)


def _found(self: Any, generator: Any) -> None:
    is_certain = not collecting.is_collecting()
    one = abandoned.found(self, generator)
    if one is None and not is_certain and self in ACTIVE:
        Context().run(_real_found, self, generator)  # not in that of the program, of which it may be no step
    elif one is not None and not one.number and not is_certain:
        return  # whoever reads it has been found, too, and closes it
    elif one is None or not one.number or not one.line.keeps(one, is_certain=is_certain):
        _real_found(self, generator)


async def _shut_down(self: Any) -> None:
    lines = tuple(ACTIVE.get(self, ()))
    generators = {*self._asyncgens, *(one.generator for line in lines for one in line.takes_abandoned())}
    self._asyncgens = abandoned.InOrder(self, generators)
    for line in lines:
        line.leaves_open()
    await _real_shut_down(self)


class _Watcher:
    """A function that a loop calls when a file or a socket is ready: the order of calls says nothing of when that is.

    Args:
        loop: The loop.
        function: The function.
    """

    __slots__ = ("_function", "_loop")

    def __init__(self, loop: Any, function: Callable[..., Any]) -> None:
        self._loop = loop
        self._function = function

    def __call__(self, *args: Any) -> Any:
        line, _ = line_of_program(None, self._loop)
        if line is not None:
            line.has_ready_file()
        return self._function(*args)


def _watching(real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def add(self: Any, fd: Any, callback: Callable[..., Any], *args: Any) -> Any:
        return real(self, fd, _Watcher(self, callback), *args)

    return add


def _signalled(real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def add_signal_handler(self: Any, sig: int, callback: Callable[..., Any], *args: Any) -> Any:
        return real(self, sig, watched(callback), *args)

    return add_signal_handler


_SIGNALS = tuple(
    (owner, "add_signal_handler", vars(owner)["add_signal_handler"], _signalled(vars(owner)["add_signal_handler"]))
    for owner in (_Loop, BaseSelectorEventLoop, asyncio.SelectorEventLoop)
    if "add_signal_handler" in vars(owner)
)
_SEAMS: tuple[tuple[type, str, Any, Any], ...] = (
    (events.Handle, "_run", _real_run, _run),
    (events.TimerHandle, "__init__", _real_timer, _timer),
    (_Loop, "call_soon", _real_soon, _soon),
    (_Loop, "call_at", _real_at, _at),
    (_Loop, "call_soon_threadsafe", _real_post, _post),
    (_Loop, "run_in_executor", _real_in_executor, _in_executor),
    (_Loop, "create_task", _real_create, _create_task),
    (_Loop, "_asyncgen_firstiter_hook", _real_begins, _begins),
    (_Loop, "_asyncgen_finalizer_hook", _real_found, _found),
    (_Loop, "shutdown_asyncgens", _real_shut_down, _shut_down),
    (
        BaseSelectorEventLoop,
        "add_reader",
        BaseSelectorEventLoop.add_reader,
        _watching(BaseSelectorEventLoop.add_reader),
    ),
    (
        BaseSelectorEventLoop,
        "add_writer",
        BaseSelectorEventLoop.add_writer,
        _watching(BaseSelectorEventLoop.add_writer),
    ),
    *overdue.SEAMS,
    *stopping.SEAMS,
    *_SIGNALS,
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
    abandoned.follow_running(_real_found)
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

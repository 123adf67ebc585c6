"""Everything around an open session: freeze, guard and the integrations of the frameworks that are imported."""

from __future__ import annotations

import atexit
import functools
import gc
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from weakref import WeakSet

from agenttape_core.errors import AgentTapeError, AgentTapeHalt, ConfigurationError, NetworkBlockedError
from agenttape_core.freeze import (
    Frozen,
    drawer,
    freezing,
    is_collecting,
    is_drawn_by_program,
    is_drawn_for_run,
    register_real_draws,
)
from agenttape_core.guard import Guard, guarding, in_telemetry, tracer_hosts, warn_of_late
from agenttape_core.lifecycle.children import carrying_halts, inherited
from agenttape_core.lifecycle.entry_points import http_clients, integrations, watch_broken
from agenttape_core.lifecycle.failures_of_children import FAILURES, watch_draws
from agenttape_core.lifecycle.presence import PRESENCE
from agenttape_core.lifecycle.start_session import Opened
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.scheduling import PASSED_ON, SCOPES, UNREAD, session_of_bare_thread
from agenttape_core.session import Session, context_session
from agenttape_core.session.context import executing_of, frozen_of_bare_thread, owning_session
from agenttape_core.session.side_effects import recording_side_effects
from agenttape_core.session.thread_pools import REMEMBERED_WORK

# -- Names the real values that a replay draws, which differ each time.


_DRAWN = {"clock": "times", "numpy": "random numbers of numpy", "random": "random numbers", "uuid": "ids"}
_REAL = {
    "noise": "what `secrets`, `os.urandom` and `random.SystemRandom` give the program is real",
    "spans": "what `time.monotonic`, `perf_counter` and their like tell the program is real",
}
_BARE = "{drawn} in a thread without a context are real (begin it with `contextvars.copy_context().run`)"
_GARBAGE = "{drawn} drawn by what the garbage collector deletes are real (it does that at any time)"
_UNSEEN = "{drawn} that {who} draws are other ones"


def _is_drawn(kind: str) -> None:
    """Name a draw: of a real value, in a thread without a context, by garbage, or in a run that was only observed."""
    bare = session_of_bare_thread()
    session = bare or context_session()
    if session is None or not session.is_replay or session.frozen is None:
        return
    if PASSED_ON.get() or session.scheduler.answered.get() is not None:
        return
    if kind in _REAL:
        if not executing_of(session):
            session.report.add_entropy(_REAL[kind])
    elif session.frozen.was_observed:
        _is_unseen(session, kind)
    elif kind in session.frozen.kinds and (is_drawn_by_program() if is_collecting() else bare and is_drawn_for_run()):
        line = (_GARBAGE if is_collecting() else _BARE).format(drawn=_DRAWN[kind])
        session.report.add_entropy(line, moves_calls=True)


def _is_unseen(session: Session, kind: str) -> None:
    who = drawer(kind)
    if who and session.frozen is not None and not session.frozen.is_importing():
        session.report.add_unobserved(_UNSEEN.format(drawn=_DRAWN[kind], who=who))


register_real_draws(_is_drawn)


class SessionStack:
    """Everything around a session while it's open, ended in the reverse of the order in which it began."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self._around = ExitStack()
        self._lasting = ExitStack()  # the part that applies to everything a replay has started, even after its end
        self._guard: Guard | None = None
        self._membership: Callable[[], object] = lambda: None

    def enter(self) -> None:
        """Make the session the current one, with everything around it. If that fails, all of it is undone."""
        try:
            self._enter()
        except BaseException:
            self._around.close()
            raise

    def _enter(self) -> None:
        session, around, lasting = self._opened.session, self._around, self._lasting
        if _ended:
            _release()
        if session.frozen is not None:
            session.frozen.begin()
            if self._opened.prepared.request.is_of_process:
                around.enter_context(_being_of_process(session))
            around.callback(session.frozen.end)
            around.enter_context(freezing(_frozen_here, self._opened.prepared.header.freeze.kinds))
        around.callback(self._end)
        taped = (integrations, http_clients) if session.setup.tapes_http is not None else (integrations,)
        for connected in taped:
            connected.connect()
            lasting.callback(connected.disconnect)
        lasting.enter_context(REMEMBERED_WORK)
        for followed in session.scheduler.followed:
            lasting.enter_context(followed)
        lasting.enter_context(carrying_halts)
        presence = session.extension(PRESENCE)
        self._membership = presence.enter()
        around.callback(presence.leave)
        if session.is_replay:
            failures = session.extension(FAILURES)
            watch_draws(session, is_new=False)
            session.latch.on_first.append(failures.note)
            around.callback(failures.fail, session)
            self._guard = _guard(self._opened)
            lasting.enter_context(inherited(self._opened))
            _guard_of[session] = self._guard
            exempt = functools.partial(_is_of_another, weakref.ref(session))
            lasting.enter_context(guarding(self._guard, exempt, _answering))
        if not session.policy.offline:
            self._record_side_effects()

    def _end(self) -> None:
        """End what surrounded the session, or leave it to what outlives a replay until that has ended."""
        if self._is_outlived() and not self._opened.session.has_aftermath:
            gc.collect(1)  # what is garbage only holds on to it
        membership = self._membership()
        if membership is None or not self._is_outlived():
            self._lasting.close()
            return
        if self._guard is not None:
            self._guard.is_over = True
        stack = self._lasting.pop_all()
        _new.append(id(stack))
        ended = weakref.finalize(membership, _ended.append, stack)
        ended.atexit = False
        _outlived[id(stack)] = stack

    def _is_outlived(self) -> bool:
        """Return whether work that a replay has started continues, or a session has made a stream to be read."""
        membership = self._membership()
        return membership is not None and (self._guard is not None or UNREAD.holds(membership))

    def open_up(self) -> None:
        """Let the run wait between attempts from now on as it really would, because some are made for real."""
        self._record_side_effects()
        if self._opened.session.frozen is not None:
            self._opened.session.frozen.wait_between_attempts()

    def _record_side_effects(self) -> None:
        if not self._opened.session.watches_side_effects:
            settings = self._opened.prepared.settings
            besides = tracer_hosts() if settings.traces else ()
            as_replayed = Guard(name="", allow_hosts=settings.hosts, besides=besides, owns_caller=lambda: True)
            self._around.enter_context(recording_side_effects(self._opened.session, as_replayed))

    def close(self) -> None:
        """End the session: no more calls are answered or made."""
        self._around.close()


def _fail_open_sessions(error: BaseException) -> None:
    """Let all open sessions fail for an integration that cannot be connected: the program may catch its error."""
    failure = error if isinstance(error, AgentTapeError | AgentTapeHalt) else ConfigurationError(str(error))
    for session in SCOPES.open():
        session.latch.keep(failure)


watch_broken(_fail_open_sessions)


def _guard(opened: Opened) -> Guard:
    """Return the guard of a session. It must not keep the session alive: it may last for as long as that is."""
    settings, tracers, weak = opened.prepared.settings, tracer_hosts(), weakref.ref(opened.session)
    is_of_process = opened.prepared.request.is_of_process  # what a command serves comes from its clients

    def blocked(error: NetworkBlockedError) -> None:
        session = weak()
        if session is None:
            return
        attempt = str(error).partition("\n")[0]
        session.report.add_failure(blocked=attempt)
        if session.events is not None:
            session.events.tell("network.blocked", attempt=attempt)
        if session.closed:
            warn_of_late(error)
        elif owning_session() in (None, session) and not in_telemetry():
            session.latch.keep(error)

    def is_live() -> bool:
        session = weak()
        return session is not None and executing_of(session)

    return Guard(
        name=str(opened.prepared.shown),
        allow_hosts=settings.hosts,
        besides=tracers if settings.traces else (),
        on_block=blocked,
        background=tracers,
        in_background=lambda: context_session() is None,
        is_live=is_live,
        has_live=opened.prepared.has_live,
        owns_caller=lambda: not is_of_process and owning_session() is weak(),
    )


_guard_of: weakref.WeakKeyDictionary[Session, Guard] = weakref.WeakKeyDictionary()


def _answering() -> Guard | None:
    """Return the guard of the replay for whose live call the caller runs: `_is_of_another` is true of all others."""
    owner = owning_session()
    return _guard_of.get(owner) if owner is not None and owner.is_replay and executing_of(owner) else None


def _is_of_another(weak: weakref.ref[Session]) -> bool:
    """Return whether the guard of a session leaves the caller alone.

    A session that records may reach the outside, and live calls in another replay are up to that one. After its
    end, a session is only responsible for work it has started.
    """
    session, owner = weak(), owning_session()
    if session is None or session.closed:
        _release()
        return session is None or owner is not session
    if owner is None or owner is session:
        return False
    return not owner.is_replay or executing_of(owner)


_ended: deque[ExitStack] = deque()
"""The session stacks of replays without surviving work. Where objects are finalised, no lock may be taken."""


_new: list[int] = []  # the replays that were outlived since `let_go`, by their stacks


def let_go() -> None:
    """Remove the session stacks of replays without surviving work.

    For a test runner, between two tests: a traceback holds the failed objects until then. Once it's garbage, it
    is mostly young; to look through all objects of a process with a large framework takes longer than most tests.
    """
    _release()
    for generation in (1, 2):
        if _outlived.keys().isdisjoint(_new):
            break
        gc.collect(generation)
        _release()
    _new.clear()


_outlived: dict[int, ExitStack] = {}  # the stacks of replays that something outlives, or has outlived


def _release() -> None:
    while _ended:
        _close(_ended.popleft())


def _close(stack: ExitStack) -> None:
    if _outlived.pop(id(stack), None) is not None:
        stack.close()


@atexit.register
def let_all_go() -> None:
    """Take down what surrounds replays, whatever outlives them: when Python ends, it clears its modules next."""
    for stack in reversed(list(_outlived.values())):
        _close(stack)


class _OfProcess(NamedTuple):
    """A session of a whole process, as for a command: everything that begins in the process belongs to the session."""

    session: Session
    # The threads that stay real: those that were there before, except the main one, and those of telemetry.
    apart: WeakSet[threading.Thread]
    within: WeakSet[threading.Thread]  # the threads that are not

    def has(self, thread: threading.Thread) -> bool:
        if thread in self.within:
            return True
        if thread in self.apart:
            return False
        (self.apart if in_telemetry() else self.within).add(thread)
        return thread in self.within


_of_process: list[_OfProcess] = []


@contextmanager
def _being_of_process(session: Session) -> Iterator[None]:
    older = [thread for thread in threading.enumerate() if thread is not threading.main_thread()]
    mine = _OfProcess(session, WeakSet(older), WeakSet())
    _of_process.append(mine)
    try:
        yield
    finally:
        _of_process.remove(mine)


def _frozen_here() -> Frozen | None:
    """Return the frozen values for the caller.

    A thread without a context that the program has begun in the session has its own scope to draw from. In older ones,
    time and ids are real: a server that the test runs beside the agent must not draw from the agent's ids. If the
    session belongs to the process, such as a command's, there is no other work next to it: the threads of a server
    belong to it.
    """
    session = context_session()
    if session is None and (frozen := frozen_of_bare_thread()) is not None:
        return frozen
    if session is None and _of_process and _of_process[-1].has(threading.current_thread()):
        session = _of_process[-1].session
    return session.frozen_here() if session is not None else None

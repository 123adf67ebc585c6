"""The call, or the session, that something done outside the process belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from agenttape_core.guard import SUBPROCESS, Guard
from agenttape_core.session.context import current_session, is_passed_on, owning_session
from agenttape_core.session.executed_call import WATCHED, executing
from agenttape_core.session.session import Session
from agenttape_core.session.slot import Slot
from agenttape_core.side_effects import SideEffectEvent, SourceLine, watching_side_effects


@contextmanager
def attributing_side_effects() -> Iterator[None]:
    """During the block, give each thing that is done outside the process to the call that does it.

    It belongs to the innermost call that is executing there; in a thread without a context, to the call that such a
    thread most likely works for. A connection outside of every call goes into the report of the session, if it records.
    """
    with watching_side_effects(_attribute):
        yield


@contextmanager
def recording_side_effects(session: Session, guard: Guard) -> Iterator[None]:
    """During the block, record the side effects of a session's calls, and its connections outside of calls.

    Hosts that the guard, which is like the one of a replay, allows aren't reported.
    """
    session.extend(_GUARD, guard)
    session.watches_side_effects = True
    with attributing_side_effects():
        yield


def note_side_effect(what: str) -> None:
    """Give something that is done outside, and that no hook sees where it is done, to the call that is executed here.

    Args:
        what: The words for it, such as "asked weather.py".
    """
    _attribute(SideEffectEvent(what, SourceLine(inside="", anywhere=""), "change"))


_GUARD: Slot[Guard] = Slot(lambda _: Guard(name=""))


def _attribute(event: SideEffectEvent) -> None:
    session_call = executing()
    session = session_call.session if session_call is not None else current_session()
    if isinstance(session, Session) and session_call is None:
        session_call = session.around()
    if session_call is not None and not session_call.side_effects.has_ended:
        if session_call.boundary.is_watched:
            session_call.side_effects.add(event, session_call.code)
            if session_call.side_effects:
                session_call.arrivals.reaches_outside()
    elif isinstance(session, Session) and event.kind == "reach" and _is_missing(session, event):
        watched = WATCHED.get()
        if watched is not None and watched.session is session and not watched.side_effects.has_ended:
            watched.side_effects.add(event, watched.code)
            return
        session.report.add_uncovered(f"{event.what} at {event.place.anywhere or 'an unknown line'}")


def _is_missing(session: Session, event: SideEffectEvent) -> bool:
    """Return True if a connection belongs to a recording session, and no call covers it, so a replay will refuse it.

    It belongs to it by the context or the origin of its thread. If only taped objects take part, other connections
    don't count.
    """
    if not session.watches_side_effects or not session.policy.records or session.closed or is_passed_on():
        return False
    if owning_session() is not session or not session.auto:
        return False
    guard = session.extension(_GUARD)
    if event.handover is not None:
        return event.handover.is_older(guard.age) and not guard.allows_word(SUBPROCESS)
    return bool(event.to) and not any(guard.allows_host(host, event.port) for host in event.to)

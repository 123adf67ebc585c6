"""The call, or the session, that something done outside the process belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from agenttape_core.acts import Deed, Place, watching_deeds
from agenttape_core.guard import SUBPROCESS, Guard
from agenttape_core.session.context import current_session, is_passed_on, owning_session
from agenttape_core.session.executed_call import WATCHED, executing
from agenttape_core.session.session import Session
from agenttape_core.session.slot import Slot


@contextmanager
def watching_acts() -> Iterator[None]:
    """During the block, give each thing that is done outside the process to the call that does it.

    It is an act of the innermost call that is executing there; in a thread without a context, of the call that such a
    thread most likely works for. A connection outside of every call goes into the report of the session, if it records.
    """
    with watching_deeds(_attribute):
        yield


@contextmanager
def recording_acts(session: Session, guard: Guard) -> Iterator[None]:
    """During the block, record what the calls of a session do outside the process, and what it reaches beside them.

    Args:
        session: The session.
        guard: A guard as a replay has one: what it allows is not named.
    """
    session.extend(_GUARD, guard)
    session.watches_acts = True
    with watching_acts():
        yield


def note_act(what: str) -> None:
    """Give something that is done outside, and that no hook sees where it is done, to the call that is executed here.

    Args:
        what: The words for it, such as "asked weather.py".
    """
    _attribute(Deed(what, Place(inside="", anywhere=""), "change"))


_GUARD: Slot[Guard] = Slot(lambda _: Guard(name=""))


def _attribute(deed: Deed) -> None:
    crossing = executing()
    session = crossing.session if crossing is not None else current_session()
    if isinstance(session, Session) and crossing is None:
        crossing = session.around()
    if crossing is not None and not crossing.acted.has_ended:
        if crossing.boundary.is_watched:
            crossing.acted.add(deed, crossing.code)
            if crossing.acted:
                crossing.arrivals.acts()
    elif isinstance(session, Session) and deed.kind == "reach" and _is_missing(session, deed):
        watched = WATCHED.get()
        if watched is not None and watched.session is session and not watched.acted.has_ended:
            watched.acted.add(deed, watched.code)
            return
        session.report.add_outside(f"{deed.what} at {deed.place.anywhere or 'an unknown line'}")


def _is_missing(session: Session, deed: Deed) -> bool:
    """Return True if a connection belongs to a session that records, and a replay will refuse it for want of a call.

    It belongs to it by the context or the origin of its thread. Where only taped objects take part, nothing else does.
    """
    if not session.watches_acts or not session.policy.records or session.closed or is_passed_on():
        return False
    if owning_session() is not session or not session.auto:
        return False
    guard = session.extension(_GUARD)
    if deed.handover is not None:
        return deed.handover.is_older(guard.age) and not guard.allows_word(SUBPROCESS)
    return bool(deed.to) and not any(guard.allows_host(host, deed.port) for host in deed.to)

"""The recording that answers a call: one that is left, or, in some cases, one that has answered already."""

from __future__ import annotations

from agenttape_core.matching import STRICT, Candidate, CanonicalRequest, RecordingIndex
from agenttape_core.session.base_session import BaseSession
from agenttape_core.session.sources import ATTEMPTS, Edited


def found_for(
    session: BaseSession, recordings: RecordingIndex, request: CanonicalRequest, address: str
) -> Candidate | None:
    """Return the recording that answers a call; `None` if there is none.

    Once a change has landed, a program may make calls again that were served already: all those of a node that is tried
    again, for example. Their last recording answers them if nothing may be executed, though not for ever.

    Args:
        session: The session.
        recordings: Its recordings.
        request: The request of the call.
        address: Where it is made.
    """
    policy = session.policy
    if session.report.has_landed and policy.offline:
        strict = tuple(way for way in policy.match_on if way in STRICT)
        others = tuple(way for way in policy.match_on if way not in STRICT)
        found = recordings.find(request, address, ways=strict) or _once_more(session, recordings, request)
        return found or recordings.find(request, address, policy.exhausted, ways=others)
    found = recordings.find(request, address, policy.exhausted)
    if found is None and request.kind in policy.repeats:
        return recordings.again(request, lambda number: _has_returned(session, number))
    return found


def _once_more(session: BaseSession, recordings: RecordingIndex, request: CanonicalRequest) -> Candidate | None:
    found, source = recordings.again(request, lambda number: _has_returned(session, number)), session.source
    if found is None or request.kind in session.policy.repeats:
        return found
    is_changed = isinstance(source, Edited) and source.change_of(found.number) is not None
    return None if is_changed or found.repeats >= ATTEMPTS else found


def _has_returned(session: BaseSession, number: int) -> bool:
    return session.source.outcome(number).status in {"returned", "streamed"}

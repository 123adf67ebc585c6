"""Requests of which an observer saw less than a session does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agenttape_core.session import Boundary, Session, Slot, runs

_WAS_OBSERVED: Slot[bool] = Slot(lambda session: session.source.has_step("gap"))


def was_observed(session: Session) -> bool:
    """Return True if a session replays an observer's recording, which is never complete.

    Args:
        session: The session.
    """
    return session.extension(_WAS_OBSERVED)


def as_recorded(
    session: Session, boundary: Boundary, body: Mapping[str, Any], seen: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the request of a call, or an observer's view of it if only that was recorded.

    Args:
        session: The session.
        boundary: The family of the call.
        body: The request.
        seen: The part of it that callbacks receive.
    """
    if body == seen or session.policy.replaces or runs.times_recorded(session, boundary, body):
        return body
    return seen if was_observed(session) and runs.times_recorded(session, boundary, seen) else body

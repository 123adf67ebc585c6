"""Decide whether to replay a call, step into it, execute it or refuse it."""

from __future__ import annotations

from typing import NamedTuple

from agenttape_core.engine.policy import Policy
from agenttape_core.matching import Candidate
from agenttape_core.schema import PURE_KINDS


class Replay(NamedTuple):
    """Answer from the cassette."""

    found: Candidate


class StepInto(NamedTuple):
    """Run the code of the call; the calls that it makes are decided on one by one, and replayed."""

    found: Candidate


class Execute(NamedTuple):
    """Call the real thing."""

    live: bool  # true if it is executed because it is named as live, not because it is being recorded


class Refuse(NamedTuple):
    """Neither: it is a miss."""

    found: Candidate | None  # the recording that may not be replayed because it is lossy, if there is one


Decision = Replay | StepInto | Execute | Refuse


def decide(
    policy: Policy,
    kind: str,
    name: str,
    candidate: Candidate | None,
    *,
    address: str = "",
    is_tried: bool = False,
    is_idempotent: bool = False,
) -> Decision:
    """Decide what happens on a call. Pure: to use up the recording that answers it is the session's business."""
    if (is_tried and not policy.is_replay_only(kind, name, address)) or not policy.may_replay(kind, name, address):
        return Execute(live=is_tried or policy.is_live(kind, name, address))
    if candidate is None:
        return _unrecorded(policy, kind, name, address, is_idempotent=is_idempotent)
    if policy.steps_into(kind, name, candidate, address):
        return StepInto(candidate)
    return Replay(candidate) if policy.accepts_lossy or not candidate.lossy else Refuse(candidate)


def _unrecorded(policy: Policy, kind: str, name: str, address: str, *, is_idempotent: bool) -> Decision:
    """Decide what happens on a call that has no recording."""
    if policy.is_replay_only(kind, name, address):
        return Refuse(None)
    if policy.records:
        return Execute(live=False)
    may_run = kind in policy.unrecorded or ((is_idempotent or kind in PURE_KINDS) and policy.runs_idempotent)
    return Execute(live=True) if may_run else Refuse(None)

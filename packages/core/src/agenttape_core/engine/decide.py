"""The one decision: is this call served from the cassette, run through, executed for real, or refused?"""

from __future__ import annotations

from dataclasses import dataclass

from agenttape_core.engine.policy import Policy
from agenttape_core.matching import Candidate


@dataclass(frozen=True, slots=True)
class Serve:
    """Answer from the cassette."""

    found: Candidate


@dataclass(frozen=True, slots=True)
class RunThrough:
    """Run the code of the call; the calls that it makes are decided on one by one, and served."""

    found: Candidate


@dataclass(frozen=True, slots=True)
class Execute:
    """Call the real thing."""

    live: bool
    """True if it is executed because it is named as live, not because it is being recorded."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """Neither: it is a miss."""

    found: Candidate | None
    """The recording that may not be served because it is lossy, if there is one."""


Decision = Serve | RunThrough | Execute | Refuse


def decide(policy: Policy, kind: str, name: str, candidate: Candidate | None) -> Decision:
    """Decide what happens on a call. Pure: to use up the recording that serves it is the session's business.

    Args:
        policy: The permissions of the session.
        kind: The kind of boundary.
        name: The name of the boundary.
        candidate: The recording that would answer the call, if there is one.
    """
    if not policy.may_serve(kind, name):
        return Execute(live=policy.is_live(kind, name))
    if candidate is not None and policy.runs_through(kind, name, candidate):
        return RunThrough(candidate)
    if candidate is not None:
        return Serve(candidate) if policy.lossy == "serve" or not candidate.lossy else Refuse(candidate)
    if policy.records and not policy.is_frozen(kind, name):
        return Execute(live=False)
    return Refuse(None)

"""Comparison of what the graphs, nodes and steps of a replay have written with what its recording says of that.

Replays may ask for the same calls, agree with each other, and still not be the run that was recorded: what an agent
does within a tool is left out, or a message has another id. A recording holds more than calls; the sessions of a
verification keep the same of a replay.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import islice

from agenttape_core.experiments.verify.comparison import TAG
from agenttape_core.matching import ABSENT, differing_leaves, is_identical
from agenttape_core.schema import GAP, Plain, Step
from agenttape_core.session import Session
from agenttape_core.session.shared_texts import REFERENCE

_MOST = 5
"""Places that are reported of one session: those after them mostly differ because of them."""
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{4,}\b")
_COMMAND = "$command"
"""The tag of an input that answers questions, by ids that differ in each recording."""
_SCRIPT = "__main__"

Pairs = dict[str, list[str]]
"""The recorded and the present state of each place, by its name."""


def written_otherwise(session: Session) -> Pairs:
    """Return the steps of the recording that a replay has not taken, or that have written something else in it.

    A handler that observes sees other steps than a session; a replay that leaves recordings unused is that of another
    program. Neither is compared.

    Args:
        session: The session of the replay, which has remembered its steps.
    """
    if session.report.unused or session.source.has_step(GAP):
        return {}
    served = tuple(f"{address}/" for address in _served_whole(session))
    recorded = _by_place(
        step
        for step in session.source.steps()
        if step.status != "open" and step.fidelity == "exact" and not step.address.startswith(served)
    )
    now = _by_place(step for _, step in session.ledger.watched())
    return dict(islice(_differences(recorded, now), _MOST))


def _served_whole(session: Session) -> Iterator[str]:
    """Yield the addresses of recorded calls that were served, and whose code is rightly not run.

    The code of a tool is run if it has done nothing outside by itself and makes calls that are recorded.
    """
    addresses = [row.address for row in session.source.entries]
    for served in session.report.replayed:
        recorded = session.source.interaction(served.number)
        calls = any(address.startswith(f"{recorded.address}/") for address in addresses)
        may_run = session.policy.may_step_into(recorded.kind, recorded.name, recorded.address)
        if not (recorded.kind == "tool" and recorded.acts == [] and calls and may_run):
            yield recorded.address


def _by_place(steps: Iterable[Step]) -> dict[str, list[Step]]:
    found: dict[str, list[Step]] = {}
    for step in steps:
        found.setdefault(f"{step.kind} {step.name} at {step.address}", []).append(step)
    return found


def _differences(recorded: dict[str, list[Step]], now: dict[str, list[Step]]) -> Iterator[tuple[str, list[str]]]:
    for place, steps in recorded.items():
        left = [_facts(step) for step in now.get(place, ())]
        for facts in map(_facts, steps):
            same = next((which for which, other in enumerate(left) if not _leaves(facts, other)), None)
            other = left.pop(same or 0) if left else None
            if other is None:
                yield f"step {place}", [_shown(facts), ""]
            elif same is None:
                for at, old, new in _leaves(facts, other):
                    yield f"{TAG.sub('', at)} of {place}", [_shown(old), _shown(new)]


def _facts(step: Step) -> Plain:
    """Return what must be the same of a step. Errors hold ids of their recording; types tell them apart."""
    facts = {"status": step.status, "output": step.output, "data": step.data}
    if not (isinstance(step.input, dict) and _COMMAND in step.input):
        facts["input"] = step.input
    return {**facts, "error": step.error.type if step.error is not None else None}


def _leaves(recorded: Plain, now: Plain) -> list[tuple[str, Plain, Plain]]:
    """Return the differing leaves of a step."""
    if is_identical(recorded, now):
        return []
    return [leaf for leaf in differing_leaves(recorded, now) if not _is_same(*leaf[1:])]


def _is_same(recorded: Plain, now: Plain) -> bool:
    """Return whether a leaf says the same: without memory addresses, or of a module that was run as a script."""
    if not isinstance(now, str):
        return False
    if isinstance(recorded, dict):
        reference = recorded.get(REFERENCE)
        return isinstance(reference, dict) and reference.get("chars") == len(now)
    if not isinstance(recorded, str):
        return False
    if recorded.startswith(_SCRIPT):
        return now.endswith(recorded.removeprefix(_SCRIPT))
    return _ADDRESS.sub("", recorded) == _ADDRESS.sub("", now)


def _shown(value: Plain) -> str:
    if value is ABSENT:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

"""Record, in a derived cassette, a call that was answered and not executed: refused, or answered by a fake."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

from agenttape_core.schema import Interaction, Outcome, Timing
from agenttape_core.session.boundary import AnsweredCrossing


def keep_answer(
    crossing: AnsweredCrossing, number: int, parent: int | None, outcome: Outcome, tags: Sequence[str] = ()
) -> None:
    """Hand a call that was answered to the sink of its session.

    Args:
        crossing: The call.
        number: Its number in this run.
        parent: The number of the call that was executing around it.
        outcome: What it was answered with.
        tags: Words for its record.
    """
    session, request = crossing.session, crossing.request
    if not (session.is_replay and session.ledger.writes):
        return
    interaction = Interaction.model_construct(
        number=number,
        kind=request.kind,
        name=request.name,
        address=crossing.position.address,
        fingerprint=request.fingerprint,
        parent=parent,
        ids=[*request.ids_in_it, *request.own_ids],
        tags=list(tags),
        metadata={},
        fidelity="exact",
        fidelity_note="",
        acts=None,
        request=request.body,
        outcome=outcome,
    )
    start = (perf_counter() - session.began) * 1000 if session.is_one_run else None
    session.ledger.keep(interaction, Timing(start_ms=start, duration_ms=0.0), crossing.position.order)

"""The record of a call that has ended: what of it is kept, redacted, and handed to the ledger of its session."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

from agenttape_core.matching import CanonicalRequest, ids_held
from agenttape_core.schema import Effect, Interaction, Outcome, Timing
from agenttape_core.session.call import Call

if TYPE_CHECKING:
    from agenttape_core.redaction import Redactor


def interaction_of(call: Call, outcome: Outcome, parent: int | None, **kept: Any) -> Interaction:
    """Return the record of a call.

    `parent` is the number of the call that it was made inside of; `kept` are other fields to keep, instead of empty
    ones.
    """
    request = call.request
    nothing: dict[str, Any] = {"ids": [*request.ids_in_it, *request.own_ids], "tags": [], "metadata": {}, "acts": None}
    facts = {"kind": request.kind, "name": request.name, "address": call.position.address, "request": request.body}
    return Interaction.model_construct(
        number=call.number,
        fingerprint=request.fingerprint,
        parent=parent,
        outcome=outcome,
        **{**nothing, "fidelity": "exact", "fidelity_note": "", **facts, **kept},
    )


def keep_answer(call: Call, parent: int | None, outcome: Outcome, tags: Sequence[str] = ()) -> None:
    """Keep, in a derived cassette, a call that was answered and not executed: refused, or answered by a fake.

    `parent` is the number of the call that was executing around it; `tags` are words for its record.
    """
    session = call.session
    if session.is_replay and session.ledger.writes:
        start = (perf_counter() - session.began) * 1000 if session.is_one_run else None
        timing = Timing(start_ms=start, duration_ms=0.0)
        session.ledger.keep(interaction_of(call, outcome, parent, tags=list(tags)), timing, call.position.order)


def response_ids(request: CanonicalRequest, outcome: Outcome, *, drops_ids: bool) -> list[str]:
    """Return the ids to record.

    Ids are found again by their place, so one that is dropped leaves an empty text behind. Those of the request are
    never dropped. Those around the call are recorded all or none. With `drops_ids`, an empty text is recorded for ids
    that the call made and that aren't in the outcome.
    """
    around = request.ids_around
    if not around and not (drops_ids and request.extra):
        return list(request.ids)
    error = [dict(outcome.error)] if outcome.error is not None else []
    values = [outcome.value, *error, *(effect.value for effect in outcome.effects), outcome.arguments]

    def held(ids: Sequence[str]) -> list[str]:
        return ids_held(ids, values, outcome.chunks or ())

    seen = held(around)
    own = held(request.own_ids) if drops_ids else request.own_ids
    return [*request.ids_in_it, *(seen if any(seen) else ()), *own]


def redacted_effects(effects: Sequence[Effect], redactor: Redactor) -> list[Effect]:
    """Return effects redacted; what one writes after the other may be a text in pieces, as chunks are."""
    values = redactor.chunks([effect.value for effect in effects])
    return [  # and each alone: a secret after another text's end may hide in the whole
        Effect.model_construct(value=redactor.value(value), after=effect.after)
        for value, effect in zip(values, effects, strict=True)
    ]

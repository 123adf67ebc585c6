"""Parts of what is kept of a call: its effects, and the ids that differ in each recording."""

from __future__ import annotations

from collections.abc import Sequence

from agenttape_core.matching import CanonicalRequest, ids_held
from agenttape_core.redaction import Redactor
from agenttape_core.schema import Effect, Outcome


def kept_ids(request: CanonicalRequest, outcome: Outcome, *, drops_ids: bool) -> list[str]:
    """Return the ids to record.

    Ids are found again by their place, so one that is dropped leaves an empty text behind. Those of the request
    are never dropped. Those around the call are recorded all or none.

    Args:
        request: The request of the call.
        outcome: How it ended.
        drops_ids: Whether to record an empty text for those of its own ids that the outcome does not hold.
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

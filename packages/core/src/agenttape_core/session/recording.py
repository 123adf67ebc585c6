"""The record of a call that has ended: what of it is kept, redacted, and handed to the ledger of its session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

from agenttape_core.matching import CanonicalRequest, ids_held
from agenttape_core.schema import Effect, Interaction, Outcome, SideEffect, Timing
from agenttape_core.session.call import Call
from agenttape_core.side_effects import SideEffectEvent, UnwatchedCode, line_of

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


# -- The side effects of one call, while it runs.

_MOST = 20


class SideEffectsOfCall:
    """The side effects of the code of a call outside the process. Thread-safe."""

    __slots__ = ("_found", "_opened_database", "has_ended", "on_side_effect")

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], None] = {}
        self._opened_database = False
        self.has_ended = False  # true if the call has ended: what happens now is not recorded with it
        self.on_side_effect: Callable[[SideEffect], object] | None = None
        """Called before each of them; it is not done if this raises."""

    def __bool__(self) -> bool:
        """Return True if there are any so far."""
        return bool(self._found)

    def add(self, event: SideEffectEvent, code: Any) -> None:
        """Note something that the call is about to do."""
        if event.kind == "private":
            self._opened_database = True
            return
        at = event.place.inside or _line_of(code) or event.place.anywhere
        if self.on_side_effect is not None:
            self.on_side_effect(SideEffect(what=event.what, at=at))
        self._found[event.what, at] = None

    def ended(
        self, code: Any, unseen: UnwatchedCode, given: tuple[Any, ...] = (), *, is_automatic: bool
    ) -> list[SideEffect]:
        """End the call, and return the side effects to record: up to `_MOST`, and the number of the others.

        `unseen` finds side effects that may have gone unobserved; `given` are arguments that the request does not hold;
        with `is_automatic`, untaped objects are boundaries as well.
        """
        self.has_ended = True
        found = [SideEffect(what=what, at=at) for what, at in list(self._found)]
        if not found:
            what = unseen.by(code, given, opened_database=self._opened_database, is_automatic=is_automatic)
            return [SideEffect(what=what, at=_line_of(code))] if what else []
        more = len(found) - _MOST
        return [*found[:_MOST], SideEffect(what=f"and {more} more")] if more > 0 else found


def _line_of(code: Any) -> str:
    """Return where the code of a call begins, as far as that is known."""
    return line_of(code) if code is not None else ""

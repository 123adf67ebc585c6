"""Put the run-specific ids of this run into a replayed recording, in place of the recorded ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agenttape_core.matching import CanonicalRequest, IdMap, Ignored, recorded_request
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import Interaction, Outcome


class Asked(NamedTuple):
    """The request of this run that a recording has answered."""

    request: CanonicalRequest
    is_same: bool  # whether it is the recorded one


def counterparts(asked: Asked, recorded: Sequence[str]) -> list[str]:
    """Return the recorded ids of a call, replaced by those that this run uses; an empty one stays empty.

    Two different requests have their ids in different places, so of another request than the recorded one
    (`match_on="address"`) only the ids of the call itself have a counterpart: they stand last. The ids around the
    call have one only where there are as many as there were.
    """
    request = asked.request
    own = max(len(recorded) - request.extra, 0)
    if not asked.is_same:
        now = [*recorded[:own], *request.own_ids]
    elif not request.around or len(recorded) == len(request.ids):
        now = list(request.ids)
    else:
        now = [*request.ids_in_it, *recorded[len(request.ids_in_it) : own], *request.own_ids]
    now += recorded[len(now) :]
    return [new if old else "" for old, new in zip(recorded, now, strict=False)]


def id_map(asked: Asked, recorded: Sequence[str]) -> IdMap:
    """Return the map from the recorded ids of a call to the ids of this run."""
    return IdMap(recorded, counterparts(asked, recorded))


def as_asked(item: Interaction, asked: Asked, ignored: Ignored) -> Interaction:
    """Return a recording as it would have been made of the call that it has answered: with the ids of this run."""
    own = counterparts(asked, item.ids)
    changed: dict[str, Any] = {"ids": own, "outcome": _with_ids(item.outcome, IdMap(item.ids, own))}
    if asked.is_same and asked.request.ids_in_it:  # those that no answer holds are not among the recorded ones
        inside = recorded_request(item.kind, item.name, item.request, ignored).ids
        changed["request"] = IdMap(inside, asked.request.ids_in_it).value(item.request)
    return item.model_copy(update=changed)


def _with_ids(outcome: Outcome, ids: IdMap) -> Outcome:
    def mapped(record: Any) -> Any:
        return record and record.model_copy(update=ids.value(dict(record)))

    changed = {"value": ids.value(outcome.value), "error": mapped(outcome.error)}
    if outcome.chunks is not None:
        changed["chunks"] = list(ids.chunks(outcome.chunks))
    return outcome.model_copy(update={**changed, "effects": list(map(mapped, outcome.effects))})

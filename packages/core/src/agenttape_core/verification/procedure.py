"""The steps of a verification: replay, compare, and experiment if there is a difference."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from agenttape_core.redaction import Redactor, Rule, new_key
from agenttape_core.verification.comparison import Place, places, printable
from agenttape_core.verification.experiments import causes_of
from agenttape_core.verification.produced import Produced
from agenttape_core.verification.replays import Replays
from agenttape_core.verification.surroundings import Surroundings, available, plan
from agenttape_core.verification.verification import Run, RunDifference, Verification


def verified(replays: Replays, *, times: int, vary: Collection[str]) -> Verification:
    """Verify a job that can be replayed; see `agenttape_core.verify`."""
    choices = available(vary, times)
    surroundings = plan(times, choices)
    with replays:
        produced = replays.each(surroundings)
        redactor = _redactor(produced)
        differences = _differences(produced, surroundings, redactor, replays)
    first = produced[0]
    outcomes = [redactor.text(printable(one.outcome)) for one in produced]
    return Verification(
        function=str(replays.job.target),
        runs=[
            Run(number, around, outcome, same=not places(first, one, redactor))
            for number, (one, around, outcome) in enumerate(zip(produced, surroundings, outcomes, strict=True), start=1)
        ],
        differences=differences,
        failure=outcomes[0] if first.failed else None,
        varied={factor: tuple(values[:times]) for factor, values in choices.items()},
    )


def _redactor(produced: Sequence[Produced]) -> Redactor:
    """Return one that follows the rules of the sessions too, with a key that nobody knows."""
    rules = {
        rule["name"]: Rule(rule["name"], rule["pattern"], tuple(rule["keys"]), rule["literal"])
        for one in produced
        for rule in one.rules
    }
    return Redactor(new_key(), rules=tuple(rules.values()))


def _differences(
    produced: Sequence[Produced], surroundings: Sequence[Surroundings], redactor: Redactor, replays: Replays
) -> list[RunDifference]:
    """Return how the first replay that differs from run 1 does so, and why."""
    for number, other in enumerate(produced[1:], start=2):
        found = places(produced[0], other, redactor)
        if found:

            def differing(around: Surroundings) -> list[Place]:
                return places(produced[0], replays.once(around), redactor)

            causes = causes_of(found, surroundings[0], surroundings[number - 1], differing)
            return [
                RunDifference(place.what, place.first, place.other, (1, number), causes[place.what]) for place in found
            ]
    return []

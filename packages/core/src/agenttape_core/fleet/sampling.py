"""The samples of another model in a fleet: the runs it's tried on, and the bill beforehand.

Runs with the same calls are a class. A few of each class are tried, and each of them represents its share of the class.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from itertools import count, islice
from typing import Any

from agenttape_core.engine import Mode
from agenttape_core.errors import ConfigurationError, counted
from agenttape_core.experiments.strategies.sampling import planned as planned_trial
from agenttape_core.experiments.strategies.trials import TrialPlan, total_of
from agenttape_core.fleet.items import Item, Recording, hash_of
from agenttape_core.fleet.outcomes import Outcome
from agenttape_core.fleet.report import of_classes
from agenttape_core.lifecycle.candidates import asked_in, candidates_of
from agenttape_core.lifecycle.project import project_settings
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import OWN
from agenttape_core.settings import models_by_place
from agenttape_core.storage import location_of, open_cassette
from agenttape_core.tools.reading.prices import how_to_price, load_prices
from agenttape_core.tools.reading.provider_calls import calls_in

_SURE = 0.05  # the least uncertainty of a class, so that more samples of it are still drawn


def sampled(
    runs: Iterable[Recording],
    pairs: int | None,
    common: Mapping[str, Any],
    before: Mapping[str, Item],
    outcomes: Mapping[str, Outcome],
) -> list[Item]:
    """Return the items of a trial of a model: earlier ones, and new pairs of samples of it and of the program's own.

    Each class gets a pair, and then the more, the more runs it has and the less is known about it. Within a class, runs
    are drawn in the order of their hashes, which is the same each time.

    Damaged runs are left out, and so are earlier items of another trial. `pairs` is the number of new ones, or `None`
    for one of each run; `common` are the fields that all items have. Raises `ConfigurationError` if no recording can be
    read.
    """
    classes: dict[str, list[Recording]] = {}
    for run in sorted(runs, key=lambda one: hash_of([one.content, one.name])):
        if run.trajectory:
            classes.setdefault(run.trajectory, []).append(run)
    total = sum(map(len, classes.values()))
    pairs = total if pairs is None else pairs
    models = (OWN, common["candidate"])
    if not total:
        raise ConfigurationError("no recording to plan with can be read")
    there = {(run.name, run.content) for each in classes.values() for run in each}
    known = [one for one in before.values() if _is_same(one, common, models) and (one.cassette, one.content) in there]
    used = {(one.cassette, one.sample) for one in known}
    unsure = {
        one.trajectory: max((one.difference[1] - one.difference[0]) / 2, _SURE) for one in of_classes(known, outcomes)
    }
    shares = _shares({name: len(each) * unsure.get(name, 1.0) for name, each in classes.items()}, pairs)
    # Both rounds represent all runs, so each gets the part of the weight that its number of pairs is.
    part = pairs / (pairs + len(used))
    items = [replace(one, weight=one.weight * (1 - part)) for one in known]
    for name, share in shares.items():
        each, weight = classes[name], len(classes[name]) / share * part
        turns = ((run, sample) for sample in count(1) for run in each if (run.name, sample) not in used)
        for run, sample in islice(turns, share):
            about = {"sample": sample, "seconds": run.seconds, "weight": weight, "trajectory": name}
            items += [Item(run.name, run.content, **{**common, "candidate": model, **about}) for model in models]
    return items


def _is_same(item: Item, common: Mapping[str, Any], models: Collection[str]) -> bool:
    fixed = (getattr(item, name) == value for name, value in common.items() if name != "candidate")
    return all(fixed) and item.candidate in models


def _shares(sizes: Mapping[str, float], pairs: int) -> dict[str, int]:
    """Return how many pairs each class gets: one each, the largest first, and then in proportion to their sizes."""
    order = sorted(sizes, key=lambda name: (-sizes[name], name))
    shares = dict.fromkeys(order[:pairs], 1)
    waiting = [(-sizes[name] / 3, name) for name in shares]  # by Webster's method: the divisors are 1, 3, 5, …
    heapq.heapify(waiting)
    for _ in range(pairs - len(shares)):
        _, name = waiting[0]
        shares[name] += 1
        heapq.heapreplace(waiting, (-sizes[name] / (2 * shares[name] + 1), name))
    return shares


# -- The bill.


class Bill(NamedTuple):
    """The most that samples take, if each makes the calls of its recording."""

    plan: TrialPlan  # all their calls, with the cost
    tokens: int  # the tokens that these calls read and write, as far as they were counted

    def lines(self) -> list[str]:
        """Return it as text."""
        calls = counted(self.plan.baseline + self.plan.calls, "call")
        return [f"at most {calls} of models, about {self.tokens:,} tokens, {self.plan.price}"]


def bill_of(items: Iterable[Item]) -> Bill:
    """Return the bill of samples. Raises `ConfigurationError` if a candidate can't be tried."""
    prices, plans, tokens = load_prices(project_settings().prices), list[TrialPlan](), 0
    taken: dict[str, Counter[str]] = {}
    for item in items:
        taken.setdefault(item.cassette, Counter())[item.candidate] += 1
    for name, numbers in taken.items():
        location = location_of(name)
        cassette = open_cassette(location)
        asked = {row.number for row in asked_in(cassette)}
        if not asked:
            continue
        for candidate in numbers - Counter({OWN: numbers[OWN]}) or (OWN,):
            chosen = candidates_of(models_by_place(candidate), location, cassette, Mode.REPLAY)
            samples = {"samples": numbers[candidate] if candidate != OWN else 0, "baseline": numbers[OWN]}
            plans.append(planned_trial(name, cassette, (candidate, chosen), **samples, prices=prices))
        for usage in (call.outcome.usage for call in calls_in(cassette) if call.number in asked):
            if usage is not None:
                tokens += numbers.total() * ((usage.input_tokens or 0) + (usage.output_tokens or 0))
    return Bill(total_of(plans), tokens)


def refuse_unpriced(items: Iterable[Item], dollars: float) -> None:
    """Refuse a limit that can't be kept, with `ConfigurationError`, before anything is paid."""
    unpriced = bill_of(items).plan.unpriced
    if unpriced:
        how = how_to_price(unpriced, load_prices(project_settings().prices))
        names = ", ".join(unpriced)
        raise ConfigurationError(f"the cost of {names} isn't known, so ${dollars:g} can't be kept\n  {how}")

"""The plan of a trial: the calls and the money that it would take, as far as the recording says it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agenttape_core.errors import ConfigurationError, counted
from agenttape_core.lifecycle.project import project_settings
from agenttape_core.schema import MODEL_KINDS, Interaction
from agenttape_core.session import Candidates
from agenttape_core.storage import Cassette
from agenttape_core.tools.reading.prices import Prices, how_to_price, load_prices
from agenttape_core.tools.reading.summary import cost_of, model_of, tried_with


@dataclass(frozen=True, slots=True)
class TrialPlan:
    """The calls and the money that the trial of a candidate would take, if each sample asks what the recording did.

    Args:
        name: The test, or the command.
        candidate: The model that would be tried.
        baseline: How many calls of the program's own models would be made.
        calls: How many calls of the candidate would be made.
        dollars: What they would cost, in US dollars, as far as that is known.
        unpriced: The models whose price, or the tokens of a recorded call, are not known.
    """

    name: str
    candidate: str
    baseline: int
    calls: int
    dollars: float
    unpriced: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "name": self.name,
            "candidate": self.candidate,
            "calls": {"baseline": self.baseline, "candidate": self.calls},
            "dollars": round(self.dollars, 6),
            "all_priced": not self.unpriced,
        }

    @property
    def price(self) -> str:
        """The cost in words."""
        if not self.unpriced:
            return f"about ${self.dollars:.4f}"
        return f"about ${self.dollars:.4f} and more" if self.dollars else "at an unknown price"


def planned(
    name: str, cassette: Cassette, candidate: tuple[str, Candidates], *, samples: int, baseline: int, prices: Prices
) -> TrialPlan:
    """Return what the trial of a candidate on a recording would take.

    Args:
        name: The test, or the command.
        cassette: Its recording.
        candidate: The model in words, and for the places at which it is tried.
        samples: How often it would be tried.
        baseline: How often the program's own models would be asked again.
        prices: The prices of tokens.
    """
    label, chosen = candidate
    own, other, dollars = 0, 0, 0.0
    unpriced: dict[str, None] = {}

    def add(item: Interaction, times: int) -> None:
        nonlocal dollars
        cost = cost_of(item, prices)
        dollars += (cost or 0.0) * times
        if cost is None and times:
            unpriced[model_of(item) or item.name] = None

    for item in (item for item in cassette.interactions() if item.kind in MODEL_KINDS):
        own += 1
        add(item, baseline)
        if (tried := chosen.at(item.kind, item.name, item.address)) is not None:
            other += 1
            add(tried_with(item, tried.label), samples)
    return TrialPlan(name, label, own * baseline, other * samples, dollars, tuple(unpriced))


def refuse_unpriced(plan: TrialPlan, max_usd: float) -> None:
    """Refuse a limit that cannot be kept.

    Raises:
        ConfigurationError: If the price of a model is not known.
    """
    if plan.unpriced:
        raise ConfigurationError(
            f"the cost of {', '.join(plan.unpriced)} is not known, so ${max_usd:g} cannot be kept; nothing was asked\n"
            f"  {how_to_price(plan.unpriced, load_prices(project_settings().prices))}"
        )


def plan_lines(plans: Sequence[TrialPlan]) -> list[str]:
    """Return a line for each plan, and one for all of them."""
    width = max((len(plan.name) for plan in plans), default=0)
    models = max((len(plan.candidate) for plan in plans), default=0)
    lines = [
        f"{plan.name:<{width}}  {plan.candidate:<{models}}  {counted(plan.baseline + plan.calls, 'call')}, {plan.price}"
        for plan in plans
    ]
    total = TrialPlan(
        "",
        "",
        sum(plan.baseline for plan in plans),
        sum(plan.calls for plan in plans),
        sum(plan.dollars for plan in plans),
        tuple(dict.fromkeys(name for plan in plans for name in plan.unpriced)),
    )
    calls = f"{counted(total.baseline + total.calls, 'call')} of models at most"
    return [*lines, f"{calls}, {total.price}, if each sample asks what the recording did"]

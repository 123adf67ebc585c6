"""Take samples of a candidate in turn with the program's own model, in any number of cases."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Any

from agenttape_core.checks.check_file import CheckFile
from agenttape_core.checks.gate import judge
from agenttape_core.checks.sources import run_of_cassette
from agenttape_core.errors import CassetteError, ConfigurationError, counted, shown_path
from agenttape_core.experiments.strategies.trials.judging import LOST, NO_CALL, Lane, Sample, Trial, parts_at
from agenttape_core.lifecycle.project import project_settings
from agenttape_core.schema import MODEL_KINDS, OWN, Interaction
from agenttape_core.session import Candidates
from agenttape_core.storage import Cassette, Location, open_cassette
from agenttape_core.tools.reading.answer import last_answer
from agenttape_core.tools.reading.prices import Prices, how_to_price, load_prices
from agenttape_core.tools.reading.summary import cost_of, model_of, tried_with
from agenttape_core.tools.report.trajectory import Trajectory, path_of

Take = Callable[[Lane, str, int], Sample]
"""Takes a sample: gets the lane, the model and the number in the lane."""


class Case:
    """A recording on which a candidate is tried.

    Args:
        name: Its name in the table.
        candidate: The model.
        recorded: The path of the recording.
        take: Takes a sample.
        known: Samples that were taken before, by lane and number.
    """

    def __init__(
        self,
        name: str,
        candidate: str,
        recorded: Trajectory,
        take: Take,
        known: Mapping[tuple[Lane, int], Sample] | None = None,
    ) -> None:
        self.name = name
        self._candidate = candidate
        self._recorded = recorded
        self._take = take
        self._known = known or {}
        self._samples: dict[tuple[int, Lane], Sample] = {}

    @property
    def trial(self) -> Trial:
        """The trial so far."""
        return Trial(self.name, self._candidate, self._recorded, tuple(one for _, one in sorted(self._samples.items())))

    def add(self, lane: Lane, number: int) -> None:
        """Take a sample, unless it's known."""
        model = OWN if lane == "baseline" else self._candidate
        self._samples[number, lane] = self._known.get((lane, number)) or self._take(lane, model, number)


def take_samples(
    cases: Sequence[Case],
    *,
    samples: int,
    baseline: int,
    family: int,
    jobs: int = 1,
    keep: Callable[[Sequence[Trial]], object] = len,
) -> list[Trial]:
    """Take samples of each case until there's a verdict on it, or until the last one that is wanted.

    Each case gets its first pair of samples before any gets its second one.

    Args:
        cases: The cases.
        samples: The most samples of the candidate in a case.
        baseline: The most samples of the program's own model in a case.
        family: The number of trials that are judged together.
        jobs: The number of pairs that are taken in parallel.
        keep: Called with the trials so far after each sample.
    """
    lock, is_over = Lock(), False

    def take_pair(case: Case, number: int) -> None:
        lanes: tuple[tuple[Lane, int], ...] = (("baseline", baseline), ("candidate", samples))
        for lane, most in lanes:
            with lock:
                if is_over or (lane == lanes[0][0] and case.trial.is_settled(family)):
                    return
            if number <= most:
                case.add(lane, number)
                with lock:
                    keep([one.trial for one in cases])

    pairs = [(case, number) for number in range(1, max(samples, baseline) + 1) for case in cases]
    if jobs == 1:
        for case, number in pairs:
            take_pair(case, number)
    else:
        with ThreadPoolExecutor(jobs) as pool:
            try:
                for _ in pool.map(lambda pair: take_pair(*pair), pairs):
                    pass
            except BaseException:
                is_over = True
                pool.shutdown(cancel_futures=True)
                raise
    return [case.trial for case in cases]


# -- Read what a sample was from the derived cassette that it has left.


_NO_CALL = "it asked no model, and the recording did"
_OF_AN_ENDPOINT = re.compile(
    r"(?i)connect|timeout|ratelimit|throttl|unavailable|overload|exhausted|server|protocol|auth|permission|notfound"
)
"""Names of errors of an endpoint or a key, and not of the model behind it."""


def sample_of(
    lane: Lane,
    number: int,
    derived: Location | None,
    recorded: Trajectory,
    prices: Prices,
    *,
    passed: bool,
    unrecorded: Sequence[dict[str, Any]] = (),
    problem: str = "",
    run_id: str = "",
    checks: Sequence[CheckFile] = (),
    differences: tuple[str, ...] = (),
) -> Sample:
    """Return a sample.

    Args:
        lane: Its lane.
        number: Its number in the lane.
        derived: The derived cassette; `None` if the run has left none.
        recorded: The path of the recording.
        prices: The prices of tokens.
        passed: Whether the run ended well.
        unrecorded: The calls that left the recorded world, as plain data.
        problem: The first line of what ended the run, if it did not end well.
        run_id: The id of the run.
        checks: Checks that it must pass.
        differences: The lines in which the answer of a server differed.
    """
    if derived is None:
        return _nothing_of(lane, number, unrecorded, problem or _NO_CALL)
    try:
        cassette = open_cassette(derived)
        made = list(cassette.interactions())
    except CassetteError as error:
        return _nothing_of(
            lane, number, unrecorded, problem or f"its cassette cannot be read: {error}".partition("\n")[0]
        )
    if passed and checks:
        problem = _problem_of(derived, cassette, checks, prices)
        passed = not problem
    path = path_of(made, prices)
    timings = cassette.header.volatile.timings
    asked = [item for item in made if item.kind in MODEL_KINDS]
    unseen = _unseen_in(asked, passed=passed)
    if recorded.calls and not asked:
        passed, problem = False, problem or _NO_CALL
    return Sample(
        lane,
        number,
        passed,
        tuple(unrecorded),
        path,
        round(sum(timings[one.number].duration_ms for one in asked if one.number in timings) / 1000, 3),
        parts_at(recorded, path),
        last_answer(made) or "",
        run_id,
        shown_path(derived),
        problem,
        unseen,
        differences,
    )


def _problem_of(derived: Location, cassette: Cassette, checks: Sequence[CheckFile], prices: Prices) -> str:
    """Return the first line of the findings of checks in a sample; empty if it passes."""
    reading = [(str(derived), lambda: run_of_cassette(cassette, prices))]
    failed = [one for found in judge(reading, checks, lambda _: ()) for one in found.findings if one.level == "error"]
    return str(failed[0]).partition("\n")[0] if failed else ""


def unrecorded_inside(line: str) -> dict[str, Any]:
    """Return the failure of a session that the program opened itself, as one of its unrecorded calls."""
    return {"kind": "session", "name": line.partition(": ")[0], "reason": line}


def _nothing_of(lane: Lane, number: int, unrecorded: Sequence[dict[str, Any]], problem: str) -> Sample:
    """Return a sample of which no call is known. It never passes: the recording, which is tried, holds some."""
    return Sample(lane, number, False, tuple(unrecorded), problem=problem, unseen=NO_CALL)


def _unseen_in(asked: Sequence[Interaction], *, passed: bool) -> str:
    """Return the reason why a sample isn't evidence about its model; empty if it is."""
    if not asked:
        return NO_CALL
    error = asked[-1].outcome.error
    lost = not passed and error is not None and _OF_AN_ENDPOINT.search(error.type.rpartition(".")[2])
    is_answered = any(item.outcome.status in {"returned", "streamed"} for item in asked)
    return LOST if lost or not is_answered else ""


# -- The plan of a trial: the calls and the money that it would take, as far as the recording says it.


@dataclass(frozen=True, slots=True)
class TrialPlan:
    """The calls and the cost of the trial of a candidate, if each sample makes the calls of the recording.

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
    """Return the calls and the cost of the trial of a candidate on a recording.

    Args:
        name: The test, or the command.
        cassette: Its recording.
        candidate: The model in words, and for the places at which it is tried.
        samples: How often it would be tried.
        baseline: How often the program's own models would be called.
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

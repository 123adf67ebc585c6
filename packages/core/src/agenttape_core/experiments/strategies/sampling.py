"""Take samples of a candidate in turn with the program's own model, in any number of cases."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence
from http import HTTPStatus
from pathlib import Path
from threading import Lock
from typing import Any

from agenttape_core.checks.check_file import CheckFile, judge, read_checks
from agenttape_core.checks.sources import run_of_cassette
from agenttape_core.errors import BudgetExceededError, CassetteError, ConfigurationError, shown_path
from agenttape_core.experiments.engine import Jobs
from agenttape_core.experiments.program import Run
from agenttape_core.experiments.strategies.trials import (
    LOST,
    NO_CALL,
    Group,
    Sample,
    Trial,
    TrialPlan,
    Trials,
    diverges_at,
    samples_before,
)
from agenttape_core.lifecycle.candidates import asked_in
from agenttape_core.lifecycle.project import project_settings
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import OWN, Interaction
from agenttape_core.session.candidates import HTTP, Candidates
from agenttape_core.storage import Cassette, open_cassette
from agenttape_core.tools.reading.messages import last_answer
from agenttape_core.tools.reading.prices import Prices, how_to_price, load_prices
from agenttape_core.tools.reading.provider_calls import calls_in, is_refused, model_call, response_of
from agenttape_core.tools.reading.summary import cost_of, model_of, tried_with
from agenttape_core.tools.report import Trajectory, path_of


class Taken(NamedTuple):
    """One run of a trial, as it ended."""

    derived: Path | None = None  # its derived cassette; `None` if there's none
    passed: bool = False  # whether it ended well
    unrecorded: Sequence[dict[str, Any]] = ()  # the calls that left the recorded world, as plain data
    problem: str = ""  # the first line of what ended it, if it didn't end well
    differences: tuple[str, ...] = ()  # the lines in which the answer of a server differed
    run_id: str = ""
    spent: float = 0.0  # its cost in US dollars, if it ran in another process
    is_over: bool = False  # whether a call wasn't made there, as the limit was reached


def taken_of(ended: Run, more: Sequence[str] = (), **facts: Any) -> Taken:
    """Return a run of a program as one of a trial."""
    report = ended.session.report
    unrecorded = [one.to_dict() for one in report.unrecorded] + [*map(unrecorded_inside, (*more, *ended.failed))]
    known = {"passed": ended.error is None, "problem": ended.problem, "run_id": report.run_id}
    return Taken(unrecorded=unrecorded, **{**known, **facts})


class Case(NamedTuple):
    """A recording on which a candidate is tried."""

    name: str  # its name in the table
    candidate: str
    recorded: Trajectory  # the path of the recording
    take: Callable[[Group, int, float | None], Taken]
    """Runs it in a group, with a number and what may be spent; `None` for any amount."""


class Most(NamedTuple):
    """The limits of a trial."""

    samples: int  # the most samples of the candidate in a case
    baseline: int  # the most samples of the program's own model in a case
    family: int  # the number of trials that are judged together
    max_usd: float | None = None  # the most that calls may cost, in US dollars; `None` for any amount
    jobs: int = 1  # the number of pairs that are taken in parallel
    checks: Sequence[str | Path] = ()  # files of checks that each sample must pass


def take_samples(
    cases: Sequence[Case],
    most: Most,
    plans: Sequence[TrialPlan],
    known: Sequence[Trial] = (),
    *,
    begin: Callable[[], object] = bool,
    on_sample: Callable[[], object] | None = None,
) -> Trials:
    """Take samples of each case until there's a verdict on it, or until the last one that is wanted.

    Each case gets its first pair of samples before any gets a second; samples of `known` trials aren't taken again.
    A limit of the cost that can't be kept is refused first. An interruption by the keyboard ends it, and so does a call
    that would cost more than is left.
    """
    for plan in plans if most.max_usd is not None else ():
        if plan.unpriced:
            said = f"the cost of {', '.join(plan.unpriced)} is not known, so ${most.max_usd:g} cannot be kept"
            how = how_to_price(plan.unpriced, load_prices(project_settings().prices))
            raise ConfigurationError(f"{said}; nothing was asked\n  {how}")
    taking = _Taking(cases, most, known, on_sample)
    numbers = range(1, max(most.samples, most.baseline) + 1)
    stopped, is_whole = "", True
    try:
        begin()
        with Jobs(most.jobs) as pool:
            try:
                deque(pool.each(taking.pair, [(number, place) for number in numbers for place in range(len(cases))]), 0)
            finally:
                taking.is_over = True
    except BudgetExceededError as error:
        stopped = str(error).partition("\n")[0]
    except KeyboardInterrupt:
        is_whole = False
    return Trials(tuple(taking.trials()), is_whole=is_whole, stopped=stopped)


class _Taking:
    """Takes pairs of samples, in several threads. Takes what `take_samples` does."""

    def __init__(
        self, cases: Sequence[Case], most: Most, known: Sequence[Trial], on_sample: Callable[[], object] | None
    ) -> None:
        self._cases, self._most, self._on_sample = cases, most, on_sample
        self._checks = [read_checks(file) for file in most.checks]
        self._known = [samples_before(known, one.name, one.candidate, one.recorded) for one in cases]
        self._taken: list[dict[tuple[int, Group], Sample]] = [{} for _ in cases]
        self._prices = load_prices(project_settings().prices)
        self._spent = 0.0
        self._shares: list[float] = []  # of the limit, for the samples that are being taken
        self._lock = Lock()
        self.is_over = False  # true once no more are taken

    def pair(self, which: tuple[int, int]) -> None:
        """Take a pair, by its number and the place of its case, unless there's a verdict on the case."""
        number, place = which
        groups: tuple[tuple[Group, int], ...] = (("baseline", self._most.baseline), ("candidate", self._most.samples))
        for group, last in groups:
            with self._lock:
                is_first = group == groups[0][0]
                if self.is_over or (is_first and self._trial(place).is_settled(self._most.family)):
                    return
            if number <= last:
                found = self._known[place].get((group, number)) or self._sample(self._cases[place], group, number)
                with self._lock:
                    self._taken[place][number, group] = found
                    if self._on_sample is not None:
                        self._on_sample()

    def trials(self) -> list[Trial]:
        """Return the trials of which there are samples."""
        return [self._trial(place) for place, taken in enumerate(self._taken) if taken]

    def _trial(self, place: int) -> Trial:
        one, taken = self._cases[place], self._taken[place]
        return Trial(one.name, one.candidate, one.recorded, tuple(each for _, each in sorted(taken.items())))

    def _sample(self, one: Case, group: Group, number: int) -> Sample:
        limit, share = self._most.max_usd, None
        if limit is not None:  # an equal part of what is left for each that may run now: together they keep the limit
            with self._lock:
                share = max(limit - self._spent - sum(self._shares), 0.0) / (self._most.jobs - len(self._shares))
                self._shares.append(share)
        try:
            ended = one.take(group, number, share)
        finally:
            if share is not None:
                with self._lock:
                    self._shares.remove(share)
        with self._lock:
            self._spent += ended.spent
        if ended.is_over:
            raise BudgetExceededError(limit or 0.0, self._spent, f"a call of {one.name}")
        return sample_of(group, number, ended, one.recorded, self._prices, self._checks)


_NO_CALL = "it asked no model, and the recording did"
_OF_AN_ENDPOINT = re.compile(
    r"(?i)connect|timeout|ratelimit|throttl|unavailable|overload|exhausted|server|protocol|auth|permission|notfound"
)
"""Names of errors of an endpoint or a key, and not of the model behind it."""
_STATUSES_OF_AN_ENDPOINT = frozenset({401, 403, 404, 408, 409, 429})  # the same of responses over HTTP


def sample_of(  # noqa: PLR0917 - the facts of one sample
    group: Group, number: int, taken: Taken, recorded: Trajectory, prices: Prices, checks: Sequence[CheckFile]
) -> Sample:
    """Return a run of a trial as a sample of a group, with its number there, compared with the path of the recording.

    It has passed if it ended well, and passes the `checks`.
    """
    passed, problem, unrecorded = taken.passed, taken.problem, tuple(taken.unrecorded)
    if taken.derived is None:
        return Sample(group, number, False, unrecorded, problem=problem or _NO_CALL, unseen=NO_CALL)
    try:
        cassette = open_cassette(taken.derived)
        made, numbers = list(calls_in(cassette)), {row.number for row in asked_in(cassette)}
    except CassetteError as error:
        problem = problem or f"its cassette cannot be read: {error}".partition("\n")[0]
        return Sample(group, number, False, unrecorded, problem=problem, unseen=NO_CALL)
    if passed and checks:
        problem = _problem_of(taken.derived, cassette, checks, prices)
        passed = not problem
    path, timings = path_of(made, prices), cassette.header.volatile.timings
    asked = [item for item in made if item.number in numbers]
    unseen = _unseen_in(asked, passed=passed)
    if recorded.calls and not asked:
        passed, problem = False, problem or _NO_CALL
    return Sample(
        group,
        number,
        passed,
        unrecorded,
        path,
        round(sum(timings[one.number].duration_ms for one in asked if one.number in timings) / 1000, 3),
        diverges_at(recorded, path),
        last_answer(made) or "",
        taken.run_id,
        shown_path(taken.derived),
        problem,
        unseen,
        taken.differences,
    )


def _problem_of(derived: Path, cassette: Cassette, checks: Sequence[CheckFile], prices: Prices) -> str:
    """Return the first line of the findings of checks in a sample; empty if it passes."""
    reading = [(str(derived), lambda: run_of_cassette(cassette, prices))]
    failed = [one for found in judge(reading, checks, lambda _: ()) for one in found.findings if one.level == "error"]
    return str(failed[0]).partition("\n")[0] if failed else ""


def unrecorded_inside(line: str) -> dict[str, Any]:
    """Return the failure of a session that the program opened itself, as one of its unrecorded calls."""
    return {"kind": "session", "name": line.partition(": ")[0], "reason": line}


def _unseen_in(asked: Sequence[Interaction], *, passed: bool) -> str:
    """Return the reason why a sample isn't evidence about its model; empty if it is."""
    if not asked:
        return NO_CALL
    error = asked[-1].outcome.error
    lost = error is not None and _OF_AN_ENDPOINT.search(error.type.rpartition(".")[2]) is not None
    if asked[-1].kind == HTTP and error is None:
        status = response_of(asked[-1].outcome)[0]
        lost = status in _STATUSES_OF_AN_ENDPOINT or status >= HTTPStatus.INTERNAL_SERVER_ERROR
    is_answered = any(item.outcome.status in {"returned", "streamed"} and not is_refused(item) for item in asked)
    return LOST if (lost and not passed) or not is_answered else ""


def planned(
    name: str, cassette: Cassette, candidate: tuple[str, Candidates], *, samples: int, baseline: int, prices: Prices
) -> TrialPlan:
    """Return the calls and the cost of the trial of a candidate on a recording."""
    label, chosen = candidate
    own, other, dollars = 0, 0, 0.0
    unpriced: dict[str, None] = {}

    def add(item: Interaction, tried: str, times: int) -> None:
        nonlocal dollars
        cost = 0.0 if is_refused(item) else cost_of(tried_with(model_call(item), tried), prices)
        dollars += (cost or 0.0) * times
        if cost is None and times:
            unpriced[model_of(tried_with(model_call(item), tried)) or item.name] = None

    for item in (cassette.interaction(row.number) for row in asked_in(cassette)):
        own += 1
        add(item, OWN, baseline)
        if (tried := chosen.at(item.kind, item.name, item.address)) is not None:
            other += 1
            add(item, tried.label, samples)
    return TrialPlan(name, label, own * baseline, other * samples, dollars, tuple(unpriced))

"""Try a candidate on a command that was recorded with `agenttape record`."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agenttape_core.engine import Mode
from agenttape_core.errors import BudgetExceededError, ConfigurationError
from agenttape_core.experiments.strategies.trials.judging import Lane, Sample, Trial
from agenttape_core.experiments.strategies.trials.planning import TrialPlan, planned, refuse_unpriced
from agenttape_core.experiments.strategies.trials.reading import drift_inside, sample_of
from agenttape_core.lifecycle.candidates import candidates_of, nothing_to_try
from agenttape_core.lifecycle.project import project_settings
from agenttape_core.schema import MODEL_KINDS, OWN
from agenttape_core.settings import models_by_place
from agenttape_core.storage import Cassette, stem_of
from agenttape_core.tools.processes.command import Command
from agenttape_core.tools.processes.report import Outcome
from agenttape_core.tools.processes.run import path_of, recorded_of, run
from agenttape_core.tools.processes.run_folder import cassette_of
from agenttape_core.tools.reading.prices import Prices, load_prices
from agenttape_core.tools.report.trajectory import Trajectory, trajectory_of

_INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class CommandTrial:
    """The trial of a candidate on a command.

    Args:
        command: The command.
        cassette: Its cassette, by name or path.
        candidate: The name of the model.
        samples: How often it is tried at most.
        baseline: How often at most the command's own model is asked again.
        to: The folder of the derived cassettes.
        options: More options of `use_cassette`.
        max_usd: The most that calls of models may cost, in US dollars; `None` for any amount.
        known: Samples of an earlier trial that are not taken again.
    """

    command: Command
    cassette: str | None
    candidate: str
    samples: int
    baseline: int
    to: Path
    options: Mapping[str, Any]
    max_usd: float | None = None
    known: Trial | None = None

    def plan(self) -> TrialPlan:
        """Return what it would take. Nothing is executed.

        Raises:
            ConfigurationError: If the candidate cannot be tried on the recording.
            CassetteError: If there is no recording, or it cannot be read.
        """
        prices = _prices()
        chosen = models_by_place(self.candidate)
        plans = []
        for address, cassette in self._with_models().items():
            candidates = candidates_of(chosen, cassette_of(self._path, address), cassette, Mode.REPLAY)
            plans.append(
                planned(
                    self.name,
                    cassette,
                    (self.candidate, candidates),
                    samples=self.samples,
                    baseline=self.baseline,
                    prices=prices,
                )
            )
        return TrialPlan(
            self.name,
            self.candidate,
            sum(plan.baseline for plan in plans),
            sum(plan.calls for plan in plans),
            sum(plan.dollars for plan in plans),
            tuple(dict.fromkeys(name for plan in plans for name in plan.unpriced)),
        )

    def samples_taken(self, *, apart: bool, keep: Callable[[Trial], object]) -> Trial:
        """Run the command with its own model and with the candidate in turn, while tools are held still.

        It ends with the pair of samples that gives a verdict, or with the last one that was wanted.

        Args:
            apart: Whether the standard output of the command goes to the standard error.
            keep: Called with the trial so far after each sample.

        Raises:
            ConfigurationError: If the candidate, an option or a setting is wrong, the limit cannot be kept, or the
                known samples are those of another candidate or recording.
            CassetteError: If there is nothing to replay, or it cannot be read.
            BudgetExceededError: If a call would cost more than is left.
            KeyboardInterrupt: If it was interrupted; what was kept is whole.
        """
        plan = self.plan()
        if self.max_usd is not None:
            refuse_unpriced(plan, self.max_usd)
        prices, spent = _prices(), 0.0
        main, cassette = next(iter(self._with_models().items()))  # that of the main process, if it asks one
        recorded = trajectory_of(cassette, prices)
        known = self._known(recorded)
        trial = Trial(self.name, self.candidate, recorded, ())
        for lane, model, number in self._order():
            if (sample := known.get((lane, number))) is None:
                ended = self._run(model, spent, apart=apart)
                sample = self._sample(ended, (lane, number, main), recorded, prices)
                spent += sum(report.spent for report in ended.reports)
                self._stop_if_over(ended, spent)
            trial = Trial(self.name, self.candidate, recorded, (*trial.samples, sample))
            keep(trial)
            if trial.is_settled(1):
                break
        return trial

    @property
    def name(self) -> str:
        """The command in words."""
        return " ".join(self.command.given)

    @property
    def _path(self) -> Path:
        return path_of(self.cassette or self.command.name)

    def _with_models(self) -> dict[str, Cassette]:
        """Return the cassettes in which a model is asked, by the addresses of their processes."""
        opened = recorded_of(self._path, self.command)
        found = {address: one for address, one in opened.items() if any(row.kind in MODEL_KINDS for row in one.entries)}
        if not found:
            raise nothing_to_try(self._path)
        return found

    def _order(self) -> Iterator[tuple[Lane, str, int]]:
        for number in range(1, max(self.baseline, self.samples) + 1):
            if number <= self.baseline:
                yield "baseline", OWN, number
            if number <= self.samples:
                yield "candidate", self.candidate, number

    def _known(self, recorded: Trajectory) -> dict[tuple[Lane, int], Sample]:
        if self.known is None:
            return {}
        if (self.known.recorded, self.known.candidate) != (recorded, self.candidate):
            now = "another recording" if self.known.candidate == self.candidate else self.known.candidate
            raise ConfigurationError(
                f"the trial of {self.name} cannot be resumed: its samples are of {now}, so each would be taken again\n"
                "  leave --resume out to begin anew, or name the result of this candidate"
            )
        return {(sample.lane, sample.number): sample for sample in self.known.samples}

    def _run(self, model: str, spent: float, *, apart: bool) -> Outcome:
        left = None if self.max_usd is None else max(self.max_usd - spent, 0.0)
        options = {**self.options, "candidate": models_by_place(model)}
        ended = run(self.command, mode="replay", cassette=self.cassette, options=options, apart=apart, max_usd=left)
        if ended.code == _INTERRUPTED:
            raise KeyboardInterrupt
        return ended

    def _sample(self, ended: Outcome, which: tuple[Lane, int, str], recorded: Trajectory, prices: Prices) -> Sample:
        lane, number, main = which
        kept = _kept(ended, self.to, f"{lane}.{number}", main)
        drift = [one for report in ended.reports for one in report.drifted]
        drift += [drift_inside(one.failed_blocks.partition("\n")[0]) for one in ended.reports if one.failed_blocks]
        problem = next(iter(ended.failures()), "").partition("\n")[0]
        passed = ended.code == 0 and not problem
        sample = sample_of(lane, number, kept, recorded, prices, passed=passed, drift=drift, problem=problem)
        return replace(sample, differences=tuple(ended.answered_otherwise))

    def _stop_if_over(self, ended: Outcome, spent: float) -> None:
        if self.max_usd is not None and any(report.is_over_budget for report in ended.reports):
            raise BudgetExceededError(self.max_usd, spent, f"a call of {self.name}")


def _prices() -> Prices:
    return load_prices(project_settings().prices)


def _kept(ended: Outcome, to: Path, name: str, main: str) -> Path | None:
    """Move the derived cassettes of a run to a folder, and return that of one of its processes."""
    found = None
    to.mkdir(parents=True, exist_ok=True)
    for made in ended.made:
        infix = f".{made.address.replace('/', '.')}" if made.address else ""
        layout = made.path.name.removeprefix(stem_of(made.path))  # a derived cassette has that of its source
        target = to / f"{name}{infix}{layout}"
        shutil.move(made.path, target)
        found = target if made.address == main else found
    return found

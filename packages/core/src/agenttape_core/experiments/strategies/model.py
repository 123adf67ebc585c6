"""Another model on recorded calls: samples in turn with the program's own model, in each recording, and verdicts."""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

from agenttape_core.asgi.client import Answered
from agenttape_core.checks.check_file import read_checks
from agenttape_core.engine import Mode
from agenttape_core.errors import BudgetExceededError, VerificationError, counted, shown_path
from agenttape_core.experiments.program import FunctionProgram, Program, Run, recorded, takes_tests
from agenttape_core.experiments.strategies.trials.judging import (
    Lane,
    Sample,
    Trial,
    judged,
    lines_of,
    plain_of,
    read_trials,
    samples_before,
)
from agenttape_core.experiments.strategies.trials.sampling import (
    Case,
    TrialPlan,
    plan_lines,
    planned,
    refuse_unpriced,
    sample_of,
    take_samples,
    unrecorded_inside,
)
from agenttape_core.lifecycle.candidates import candidates_of, nothing_to_try
from agenttape_core.lifecycle.project import project_settings
from agenttape_core.lifecycle.replay_source import finished, run_to_its_end
from agenttape_core.lifecycle.restarting import begin_of, source_of
from agenttape_core.lifecycle.variation import Variation
from agenttape_core.schema import MODEL_KINDS
from agenttape_core.settings import models_by_place
from agenttape_core.storage import Cassette, in_file_name, open_cassette, stem_of
from agenttape_core.tools.budget import Budget
from agenttape_core.tools.oracle.lookup import fakes_of
from agenttape_core.tools.processes.command import Command
from agenttape_core.tools.processes.run import path_of, recorded_of, run
from agenttape_core.tools.processes.run_folder import cassette_of
from agenttape_core.tools.reading.prices import Prices, load_prices
from agenttape_core.tools.report.trajectory import trajectory_of
from agenttape_core.tools.reporting.findings import Checked, Finding, Judged
from agenttape_core.tools.upkeep.verified import own_folder

_INTERRUPTED = 130
_SHOWN = 100
"""The most characters of an answer in a line."""


@dataclass(frozen=True, slots=True)
class Trials:
    """The trials of a candidate, which are judged together.

    Args:
        trials: A trial for each recording.
        wanted: The share of samples that must pass; `None` for as many as of the baseline.
        is_whole: Whether all samples were taken.
        plans: The calls that they would take, in a dry run.
    """

    trials: tuple[Trial, ...]
    wanted: float | None = None
    is_whole: bool = True
    plans: tuple[TrialPlan, ...] = ()

    @property
    def ok(self) -> bool:
        """True if the candidate fails with no recording."""
        return not self.failures

    @property
    def failures(self) -> list[str]:
        """The reasons why the candidate fails, a line for each recording with which it does."""
        family = len(self.trials)
        found = [(one.name, one.failure(family, self.wanted)) for one in self.trials]
        worse = {one.trial.name for one in judged(self.trials) if one.verdict == "WORSE"}
        return [f"{name}: {why or 'WORSE'}" for name, why in found if why or name in worse]

    def to_dict(self) -> dict[str, Any]:
        """Return them as plain data."""
        return {**plain_of(self.trials), "plans": [plan.to_dict() for plan in self.plans]}

    def to_checked(self) -> list[Checked]:
        """Return them for the reporters of checks: a check for each recording."""
        failed = {line.partition(": ")[0]: line for line in self.failures}
        return [Checked(one.name, "", "", (_judged(one, failed.get(one.name, "")),)) for one in self.trials]

    def __str__(self) -> str:
        if self.plans:
            return "\n".join(plan_lines(self.plans))
        lines = lines_of(judged(self.trials)) if self.trials else ["no sample was taken"]
        for trial in self.trials:
            lines += [f"{trial.name}: {_said(trial, sample)}" for sample in trial.samples]
            reasons = Counter(one.problem for one in trial.samples if not one.passed and one.problem)
            total = counted(len(trial.samples), "sample")
            lines += [f"{trial.name}: {count} of {total} failed: {why}" for why, count in reasons.items()]
        return "\n".join([*lines, *self.failures])


def _said(trial: Trial, sample: Sample) -> str:
    model = trial.candidate if sample.lane == "candidate" else "baseline"
    how = sample.left_out or ("passed" if sample.passed else "failed")
    answer = " ".join(sample.answer.split())
    shown = answer if len(answer) <= _SHOWN else f"{answer[:_SHOWN]}…"
    return "  ".join(filter(None, [f"{model} {sample.number}", how, sample.run_id[:12], shown]))


def _judged(trial: Trial, why: str) -> Judged:
    found = (
        (Finding(why, expected="as often as the baseline", found=why, rule="model", path=trial.name),) if why else ()
    )
    return Judged("model", f"{trial.candidate} on {trial.name}", found)


class Wanted(NamedTuple):
    """The options of a trial.

    Args:
        candidate: The model, as `provider:model` or `SELECTOR=MODEL,…`.
        samples: The most samples of it in each recording.
        baseline: The most samples of the program's own model; `None` for as many.
        jobs: The number of pairs of samples that are taken in parallel.
        max_usd: The most that calls of models may cost, in US dollars; `None` for any amount.
        to: The folder of the derived cassettes; by default one below `.agenttape`.
        oracle: A file or the URL of an oracle, which answers calls of tools without a recording.
        checks: Files of checks that each sample must pass.
        fail_under: The share of samples that must pass; `None` for as many as of the baseline.
        options: More options of `use_cassette`.
    """

    candidate: str
    samples: int = 10
    baseline: int | None = None
    jobs: int = 1
    max_usd: float | None = None
    to: str | Path | None = None
    oracle: str | None = None
    checks: Sequence[str | Path] = ()
    fail_under: float | None = None
    options: Mapping[str, Any] = {}

    @property
    def most(self) -> dict[str, int]:
        """The most samples of each lane."""
        return {"samples": self.samples, "baseline": self.samples if self.baseline is None else self.baseline}


@takes_tests
def model(
    target: Callable[[], Any] | str | Program | Command,
    candidate: str,
    cassette: str | Path | Sequence[str | Path] | None = None,
    *,
    dry_run: bool = False,
    resume: str | Path | None = None,
    keep: Callable[[Trials], object] = lambda _: None,
    **options: Any,
) -> Trials:
    """Try another model on recordings of a program: in turn with its own model, while its tools are replayed.

    A recording that the program doesn't replay is refused before anything is paid. An interruption by the keyboard ends
    it, and the result so far is returned.

    Args:
        target: A function without arguments, its name (`module:function`), a program, or a command.
        candidate: The model, as `provider:model`; by call as `SELECTOR=MODEL,…`.
        cassette: The recording, or several.
        dry_run: Whether only the cost of the samples is found out.
        resume: The report of an earlier run as JSON, whose samples aren't taken again.
        keep: Called with the trials so far after each sample.
        options: The fields of `Wanted`.

    Raises:
        ConfigurationError: If the candidate can't be tried, there's no recording, or the limit can't be kept.
        VerificationError: If the program doesn't replay a recording to begin with.
        BudgetExceededError: If a call would cost more than is left; the kept samples are complete.
    """
    several = [cassette] if cassette is None or isinstance(cassette, str | Path) else list(cassette)
    wanted = Wanted(candidate, **options)
    if isinstance(target, Command):
        commands = [CommandRun(target, path_of(str(each or target.name))) for each in several]
        return Trying(wanted, commands).found(dry_run=dry_run, resume=resume, keep=keep)
    fakes = fakes_of(wanted.oracle, several) if wanted.oracle else {}
    found = [recorded(target, each, fakes) for each in several]
    trying = Trying(wanted, [ProgramRun(program, path) for program, path in found])
    return trying.found(dry_run=dry_run, resume=resume, keep=keep)


def restarted(app: Any, path: Path, **options: Any) -> ProgramRun:
    """Return the run of a program that begins again from the input in its recording.

    Args:
        app: A graph, a chain, an agent, a workflow, a function, or an ASGI application.
        path: The recording.
        options: Options of `use_cassette`.

    Raises:
        ConfigurationError: If the recording has no input.
    """
    source = source_of(open_cassette(path))

    async def inside() -> Any:
        return await finished(begin_of(app, source))

    def around() -> Any:
        return run_to_its_end(begin_of(app, source), is_awaited=source.entry.awaited)

    return ProgramRun(FunctionProgram(inside if source.entry.inside else around, options=options), path)


class Taken(NamedTuple):
    """One run of a trial.

    Args:
        derived: Its derived cassette; `None` if there's none.
        passed: Whether it ended well.
        unrecorded: The calls that left the recorded world.
        problem: The first line of what ended it.
        differences: The lines in which the answer of a server differed.
        run_id: The id of the run.
    """

    derived: Path | None
    passed: bool
    unrecorded: Sequence[dict[str, Any]] = ()
    problem: str = ""
    differences: tuple[str, ...] = ()
    run_id: str = ""


class ProgramRun:
    """A recorded run of a program of this process.

    Args:
        program: The program.
        path: Its recording.
    """

    def __init__(self, program: Program, path: Path) -> None:
        self.path = path
        self.program = program

    def recordings(self) -> dict[str, Cassette]:
        """Return its recordings in which a model is called, by process."""
        cassette = open_cassette(self.path)
        if not any(row.kind in MODEL_KINDS for row in cassette.entries):
            raise nothing_to_try(self.path)
        return {"": cassette}

    def begin(self, options: Mapping[str, Any]) -> None:
        """Replay it offline first: a program that no longer replays its recording isn't worth paying for."""
        plain = {name: value for name, value in options.items() if name not in {"live", "fakes"}}
        ended = self.program.run(Variation(self.path, plain))
        if (why := ended.left) is not None:
            raise VerificationError(
                f"{self.program.name} doesn't replay {shown_path(self.path)} to begin with: {why}\n"
                "  see what has changed:  agenttape update --dry-run"
            )

    def taken(self, model: str, target: Path, wanted: Wanted, left: float | None) -> tuple[Taken, float]:
        """Run it with a model, and return how it ended; the limit is held elsewhere."""
        del left
        target.unlink(missing_ok=True)
        candidate, options = models_by_place(model), wanted.options
        live = tuple(options.get("live", ()))
        ended = self.program.run(Variation(self.path, options, write_to=target, live=live, candidate=candidate))
        if isinstance(ended.session.failure, BudgetExceededError):
            raise ended.session.failure
        unrecorded = [one.to_dict() for one in ended.session.report.unrecorded] + [
            unrecorded_inside(one) for one in ended.failed
        ]
        problem = "" if ended.error is None else f"{type(ended.error).__name__}: {ended.error}".partition("\n")[0]
        problem, differences = _of_server(ended) if isinstance(ended.result, Answered) else (problem, ())
        kept = target if target.is_file() else None
        return Taken(kept, not problem, unrecorded, problem, differences, ended.session.report.run_id), 0.0


def _of_server(ended: Run) -> tuple[str, tuple[str, ...]]:
    """Return why a server has failed, and the lines in which its answer differed, without secrets."""
    problem = "" if ended.error is None else str(ended.error).partition("\n")[0]
    if ended.result.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        problem = f"the server answered with {ended.result.status}"
    return problem, tuple(map(ended.session.redactor.text, ended.result.differences))


class CommandRun:
    """A recorded run of a command, each time in a separate process.

    Args:
        command: The command.
        path: The recording of its main process.
    """

    def __init__(self, command: Command, path: Path) -> None:
        self.path = path
        self._command = command

    def recordings(self) -> dict[str, Cassette]:
        """Return its recordings in which a model is called, by process."""
        opened = recorded_of(self.path, self._command)
        found = {address: one for address, one in opened.items() if any(row.kind in MODEL_KINDS for row in one.entries)}
        if not found:
            raise nothing_to_try(self.path)
        return found

    def begin(self, options: Mapping[str, Any]) -> None:
        """Don't run it: a command may take long."""

    def taken(self, model: str, target: Path, wanted: Wanted, left: float | None) -> tuple[Taken, float]:
        """Run it with a model, and return its end and its cost."""
        main, cassette = next(iter(self.recordings())), str(self.path)
        options = {"on_unrecorded": "report", **wanted.options, "candidate": models_by_place(model)}
        ended = run(
            self._command,
            mode="replay",
            cassette=cassette,
            options=options,
            apart=True,
            max_usd=left,
            oracle=wanted.oracle or "",
        )
        if ended.code == _INTERRUPTED:
            raise KeyboardInterrupt
        derived = None
        for made in ended.made:
            place = cassette_of(target, made.address)
            made.path.replace(place)
            derived = place if made.address == main else derived
        spent = sum(report.spent for report in ended.reports)
        if any(report.is_over_budget for report in ended.reports):
            raise BudgetExceededError(left or 0.0, spent, f"a call of {' '.join(self._command.given)}")
        unrecorded = [one for report in ended.reports for one in report.unrecorded_calls]
        unrecorded += [
            unrecorded_inside(one.failed_blocks.partition("\n")[0]) for one in ended.reports if one.failed_blocks
        ]
        problem = next(iter(ended.failures()), "").partition("\n")[0]
        passed = ended.code == 0 and not problem
        return Taken(derived, passed, unrecorded, problem, tuple(ended.answered_otherwise), ended.run_id), spent


class Trying:
    """A candidate, tried on recorded runs.

    Args:
        wanted: The options.
        runs: The runs.
    """

    def __init__(self, wanted: Wanted, runs: Sequence[ProgramRun | CommandRun]) -> None:
        self._wanted = wanted
        self._runs = runs
        self._prices: Prices = load_prices(project_settings().prices)
        self._checks = [read_checks(file) for file in wanted.checks]
        self._spent = 0.0
        self._lock = threading.Lock()

    def plan(self) -> list[TrialPlan]:
        """Return the most that it would take, without a call.

        Raises:
            ConfigurationError: If the candidate can't be tried on a recording.
        """
        name, most = self._wanted.candidate, self._wanted.most
        chosen, plans = models_by_place(name), []
        for one in self._runs:
            for address, cassette in one.recordings().items():
                candidates = candidates_of(chosen, cassette_of(one.path, address), cassette, Mode.REPLAY)
                plans.append(planned(shown_path(one.path), cassette, (name, candidates), **most, prices=self._prices))
        return plans

    def found(
        self, *, dry_run: bool, resume: str | Path | None, keep: Callable[[Trials], object] = lambda _: None
    ) -> Trials:
        """Take the samples. Takes and raises what `model` does."""
        wanted, known = self._wanted, read_trials(resume) if resume is not None else []
        so_far: list[Trial] = []
        plans = self.plan()
        if dry_run:
            return Trials((), wanted.fail_under, plans=tuple(plans))

        def kept(trials: Sequence[Trial]) -> None:
            so_far[:] = trials
            keep(Trials(tuple(trials), wanted.fail_under))

        for plan in plans if wanted.max_usd is not None else ():
            refuse_unpriced(plan, wanted.max_usd or 0.0)
        cases = [self._case(one, known) for one in self._runs]
        budget = Budget(wanted.max_usd, self._prices).held() if wanted.max_usd is not None else nullcontext()
        if wanted.to is None:
            own_folder(Path.cwd())  # which git ignores
        with _as_before(), budget:
            try:
                for one in self._runs:
                    one.begin(wanted.options)
                trials = take_samples(cases, **wanted.most, family=len(cases), jobs=wanted.jobs, keep=kept)
            except KeyboardInterrupt:
                return Trials(tuple(so_far), wanted.fail_under, is_whole=False)
        return Trials(tuple(trials), wanted.fail_under)

    def _case(self, one: ProgramRun | CommandRun, known: Sequence[Trial]) -> Case:
        """Return the case of a run, with the samples that are known of it.

        Raises:
            ConfigurationError: If those are of another recording.
        """
        name, candidate = shown_path(one.path), self._wanted.candidate
        trajectory = trajectory_of(next(iter(one.recordings().values())), self._prices)
        before = samples_before(known, name, candidate, trajectory)

        def take(lane: Lane, model: str, number: int) -> Sample:
            target = self._target(one.path, model, number)
            left = None if self._wanted.max_usd is None else max(self._wanted.max_usd - self._spent, 0.0)
            try:
                taken, spent = one.taken(model, target, self._wanted, left)
            except BudgetExceededError as error:
                raise BudgetExceededError(
                    self._wanted.max_usd or 0.0, self._spent + error.spent, f"a call of {name}"
                ) from None
            with self._lock:
                self._spent += spent
            return sample_of(
                lane,
                number,
                taken.derived,
                trajectory,
                self._prices,
                passed=taken.passed,
                unrecorded=taken.unrecorded,
                problem=taken.problem,
                run_id=taken.run_id,
                checks=self._checks,
                differences=taken.differences,
            )

        return Case(name, candidate, trajectory, take, before)

    def _target(self, path: Path, model: str, number: int) -> Path:
        """Return the file of a derived cassette: it names the recording and the model, in its format."""
        name = in_file_name(model)
        folder = Path(self._wanted.to) if self._wanted.to is not None else Path(".agenttape") / "candidates"
        folders = [one.path.absolute().parent for one in self._runs]
        inside = path.absolute().parent.relative_to(os.path.commonpath(folders))
        target = folder / inside / f"{stem_of(path)}.{name}.{number}{path.name.removeprefix(stem_of(path))}"
        target.parent.mkdir(parents=True, exist_ok=True)
        return target


@contextmanager
def _as_before() -> Iterator[None]:
    """Put back the filters of warnings, and `__main__`, which runs that overlap in threads put back in no order."""
    main = sys.modules["__main__"]
    with warnings.catch_warnings():
        try:
            yield
        finally:
            sys.modules["__main__"] = main

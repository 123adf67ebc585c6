"""Another model on recorded calls: samples in turn with the program's own model, in each recording, and verdicts."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

from agenttape_core.asgi.client import Answered
from agenttape_core.engine import Mode
from agenttape_core.errors import BudgetExceededError, VerificationError, shown_path
from agenttape_core.experiments.commands import command_in
from agenttape_core.experiments.program import Program, Run, is_command
from agenttape_core.experiments.strategies.sampling import (
    Case,
    Most,
    Taken,
    planned,
    take_samples,
    taken_of,
    unrecorded_inside,
)
from agenttape_core.experiments.strategies.trials import Group, Trial, TrialPlan, Trials, read_trials
from agenttape_core.experiments.targets import recorded, takes_tests
from agenttape_core.lifecycle.candidates import asked_in, candidates_of, nothing_to_try
from agenttape_core.lifecycle.project import project_settings
from agenttape_core.lifecycle.variation import Variation
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import OWN
from agenttape_core.settings import models_by_place
from agenttape_core.storage import Cassette, in_file_name, open_cassette, stem_of
from agenttape_core.tools.budget import Budget
from agenttape_core.tools.oracle import fakes_of
from agenttape_core.tools.processes.command import Command
from agenttape_core.tools.processes.run import path_of, recorded_of, run
from agenttape_core.tools.processes.run_folder import cassette_of
from agenttape_core.tools.reading.prices import Prices, load_prices
from agenttape_core.tools.report import trajectory_of
from agenttape_core.tools.upkeep.verified import own_folder

_INTERRUPTED = 130


class Wanted(NamedTuple):
    """The options of a trial."""

    candidate: str  # the model, as `provider:model` or `SELECTOR=MODEL,…`
    samples: int = 10  # the most samples of it in each recording
    baseline: int | None = None  # the most samples of the program's own model; `None` for as many
    jobs: int = 1  # the number of pairs of samples that are taken in parallel
    max_usd: float | None = None  # the most that calls of models may cost, in US dollars; `None` for any amount
    to: str | Path | None = None  # the folder of the derived cassettes; by default one below `.agenttape`
    oracle: str | None = None  # a file or the URL of an oracle, which answers calls of tools without a recording
    checks: Sequence[str | Path] = ()  # files of checks that each sample must pass
    fail_under: float | None = None  # the share of samples that must pass; `None` for as many as of the baseline
    options: Mapping[str, Any] = {}  # more options of `use_cassette`
    family: int | None = None  # the number of trials that are judged together; `None` if that's one for each recording

    @property
    def most(self) -> dict[str, int]:
        """The most samples of each group."""
        return {"samples": self.samples, "baseline": self.samples if self.baseline is None else self.baseline}


@takes_tests
def model(
    target: Callable[[], Any] | str | Program,
    candidate: str,
    cassette: str | Path | Sequence[str | Path] | None = None,
    *,
    dry_run: bool = False,
    resume: str | Path | None = None,
    on_run: Callable[[], object] | None = None,
    **options: Any,
) -> Trials:
    """Try another model on recordings of a program: in turn with its own model, while its tools are replayed.

    A recording that the program doesn't replay is refused before anything is paid. An interruption by the keyboard ends
    it, and so does a call that would cost more than is left; the result so far is returned.

    Args:
        target: A function without arguments, its name (`module:function`), a program, or a command: `-- python
            agent.py`.
        candidate: The model, as `provider:model`; by call as `SELECTOR=MODEL,…`.
        cassette: The recording, or several.
        dry_run: Whether only the cost of the samples is found out.
        resume: The report of an earlier run as JSON, whose samples aren't taken again.
        on_run: Called after each sample.
        options: The fields of `Wanted`.

    Raises:
        ConfigurationError: If the candidate can't be tried, there's no recording, or the limit can't be kept.
        VerificationError: If the program doesn't replay a recording to begin with.
    """
    several = [cassette] if cassette is None or isinstance(cassette, str | Path) else list(cassette)
    wanted = Wanted(candidate, **options)
    if isinstance(target, str) and is_command(target):
        command = command_in(target)
        commands = [CommandRun(command, path_of(str(each or command.name))) for each in several]
        return Trying(wanted, commands).found(dry_run=dry_run, resume=resume, on_run=on_run)
    fakes = fakes_of(wanted.oracle, several) if wanted.oracle else {}
    runs = [ProgramRun(*recorded(target, each, fakes)) for each in several]
    return Trying(wanted, runs).found(dry_run=dry_run, resume=resume, on_run=on_run)


class ProgramRun:
    """A recorded run of a program of this process; by default, the table and the samples have the recording's name."""

    def __init__(self, program: Program, path: Path, name: str = "", like: Path | None = None) -> None:
        self.path = path
        self.program = program
        self.name, self.like = name or shown_path(path), like or path

    def recordings(self) -> dict[str, Cassette]:
        """Return its recordings in which a model is called, by process."""
        cassette = open_cassette(self.path)
        if not asked_in(cassette):
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

    def taken(self, model: str, target: Path, wanted: Wanted, left: float | None) -> Taken:
        """Run it with a model, and return how it ended; the limit is held elsewhere."""
        del left
        target.unlink(missing_ok=True)
        candidate, options = models_by_place(model), wanted.options
        live = tuple(options.get("live", ()))
        ended = self.program.run(Variation(self.path, options, write_to=target, live=live, candidate=candidate))
        if isinstance(ended.session.failure, BudgetExceededError):
            raise ended.session.failure
        facts = _of_server(ended) if isinstance(ended.result, Answered) else {}
        return taken_of(ended, derived=target if target.is_file() else None, **facts)


def _of_server(ended: Run) -> dict[str, Any]:
    """Return why a server has failed, and the lines in which its answer differed, without secrets."""
    problem = "" if ended.error is None else str(ended.error).partition("\n")[0]
    if ended.result.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        problem = f"the server answered with {ended.result.status}"
    differences = tuple(map(ended.session.redactor.text, ended.result.differences))
    return {"passed": not problem, "problem": problem, "differences": differences}


class CommandRun:
    """A recorded run of a command, each time in a separate process."""

    def __init__(self, command: Command, path: Path) -> None:
        self.path = path
        self.name, self.like = shown_path(path), path
        self._command = command

    def recordings(self) -> dict[str, Cassette]:
        """Return its recordings in which a model is called, by process."""
        opened = recorded_of(self.path, self._command)
        found = {address: one for address, one in opened.items() if asked_in(one)}
        if not found:
            raise nothing_to_try(self.path)
        return found

    def begin(self, options: Mapping[str, Any]) -> None:
        """Don't run it: a command may take long."""

    def taken(self, model: str, target: Path, wanted: Wanted, left: float | None) -> Taken:
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
        is_over = any(report.is_over_budget for report in ended.reports)
        unrecorded = [one for report in ended.reports for one in report.unrecorded_calls]
        unrecorded += [
            unrecorded_inside(one.failed_blocks.partition("\n")[0]) for one in ended.reports if one.failed_blocks
        ]
        problem = next(iter(ended.failures()), "").partition("\n")[0]
        passed = ended.code == 0 and not problem
        otherwise = tuple(ended.answered_otherwise)
        return Taken(derived, passed, unrecorded, problem, otherwise, ended.run_id, spent, is_over)


class Trying:
    """A candidate, tried on recorded runs."""

    def __init__(self, wanted: Wanted, runs: Sequence[ProgramRun | CommandRun]) -> None:
        self._wanted = wanted
        self._runs = runs
        self._prices: Prices = load_prices(project_settings().prices)

    def plan(self) -> list[TrialPlan]:
        """Return the most that it would take, without a call."""
        name, most = self._wanted.candidate, self._wanted.most
        chosen, plans = models_by_place(name), []
        for one in self._runs:
            for address, cassette in one.recordings().items():
                candidates = candidates_of(chosen, cassette_of(one.path, address), cassette, Mode.REPLAY)
                plans.append(planned(one.name, cassette, (name, candidates), **most, prices=self._prices))
        return plans

    def found(
        self, *, dry_run: bool, resume: str | Path | Sequence[Trial] | None, on_run: Callable[[], object] | None = None
    ) -> Trials:
        """Take the samples. Takes and raises what `model` does; `resume` may also be the earlier trials."""
        known = read_trials(resume) if isinstance(resume, str | Path) else resume or ()
        wanted, plans = self._wanted, self.plan()
        if dry_run:
            return Trials((), wanted.fail_under, plans=tuple(plans))
        cases = [self._case(one) for one in self._runs]
        most = Most(
            wanted.samples,
            wanted.most["baseline"],
            wanted.family or len(cases),
            wanted.max_usd,
            wanted.jobs,
            wanted.checks,
        )
        budget = Budget(wanted.max_usd, self._prices).held() if wanted.max_usd is not None else nullcontext()
        if wanted.to is None:
            own_folder(Path.cwd())  # which git ignores

        def begin() -> None:
            for one in self._runs:
                one.begin(wanted.options)

        with _as_before(), budget:
            found = take_samples(cases, most, plans, known, begin=begin, on_sample=on_run)
        return replace(found, wanted=wanted.fail_under)

    def _case(self, one: ProgramRun | CommandRun) -> Case:
        candidate = self._wanted.candidate
        trajectory = trajectory_of(next(iter(one.recordings().values())), self._prices)

        def take(group: Group, number: int, left: float | None) -> Taken:
            model = OWN if group == "baseline" else candidate
            return one.taken(model, self._target(one, model, number), self._wanted, left)

        return Case(one.name, candidate, trajectory, take)

    def _target(self, one: ProgramRun | CommandRun, model: str, number: int) -> Path:
        """Return the file of a derived cassette: it names the recording and the model, in its format."""
        folder = Path(self._wanted.to) if self._wanted.to is not None else Path(".agenttape") / "candidates"
        folders = [each.like.absolute().parent for each in self._runs]
        inside = one.like.absolute().parent.relative_to(os.path.commonpath(folders))
        stem = stem_of(one.like)
        target = folder / inside / f"{stem}.{in_file_name(model)}.{number}{one.like.name.removeprefix(stem)}"
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

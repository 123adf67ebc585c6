"""The experiment of one item, and its outcome in names and places, without a byte of a message."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import lru_cache
from http import HTTPStatus
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeVar

from agenttape_core.asgi.client import Answered
from agenttape_core.checks.check_file import CheckFile, judge, parsed, turns_with_a_case
from agenttape_core.checks.run import Run as CheckedRun
from agenttape_core.checks.sources import run_of_cassette
from agenttape_core.errors import (
    BudgetExceededError,
    CassetteFormatError,
    CassetteMissError,
    CassetteVersionError,
    ConfigurationError,
    VerificationError,
)
from agenttape_core.experiments.commands import command_in
from agenttape_core.experiments.program import Program, Run, is_command, is_test, program_of
from agenttape_core.experiments.strategies.model import CommandRun, ProgramRun, Wanted
from agenttape_core.experiments.strategies.sampling import Taken, sample_of
from agenttape_core.experiments.strategies.trials import Group
from agenttape_core.experiments.targets import restarted, with_test
from agenttape_core.fleet.items import Item, hash_of, trajectory_of
from agenttape_core.fleet.outcomes import Outcome, Verdict
from agenttape_core.lifecycle.candidates import asked_in
from agenttape_core.lifecycle.project import project_settings
from agenttape_core.lifecycle.variation import Variation
from agenttape_core.locks import Lock
from agenttape_core.matching import bare_step, canonical_json
from agenttape_core.schema import OWN
from agenttape_core.storage import Cassette, Location, open_cassette
from agenttape_core.tools.reading.prices import Prices, load_prices
from agenttape_core.tools.reading.provider_calls import MODELS
from agenttape_core.tools.reading.summary import overview_of
from agenttape_core.tools.report import Trajectory
from agenttape_core.tools.report import trajectory_of as path_of_run
from agenttape_core.tools.target import load_program

Found = TypeVar("Found")

_NO_INPUT = "the run can't begin again from its recording"
APP = "--app "  # the beginning of a program that begins each run again from its recorded input
_SHOWN = 3  # the most parts of a request that are named
_DIGITS = 9
_NAME = re.compile(r"[A-Za-z_]\w{0,39}(?:\[\])*")
_one_test = Lock()  # held while a test runs: pytest runs one at a time in a process
_one_import = Lock()  # held while a program is loaded, which several threads need


def outcome_of(item: Item, location: Location, settings: Mapping[str, Any]) -> Outcome:
    """Return the outcome of an item, from its recording and the rules and options of its plan.

    A damaged recording has an outcome. Raises `BudgetExceededError` if a call would cost more than is left,
    `CassetteError` if the recording can't be fetched, and `ConfigurationError` if the program can't be found.
    """
    about = Outcome(item.id, item.cassette, item.experiment, "unreadable", item.candidate, item.sample, item.weight)
    try:
        cassette = open_cassette(location)
        about = replace(about, trajectory=trajectory_of(_calls(cassette)))
        rules = _rules(canonical_json(settings.get("checks", {})))
        if item.experiment == "check":
            return _judged(_with_figures(about, cassette), cassette, rules)
        if item.experiment == "replay":
            return _replayed(item, _with_figures(about, cassette), cassette, rules)
        return _sampled(item, about, cassette, rules, settings)
    except CassetteFormatError as error:
        where = "the recording is damaged" + (f" at line {error.line}" if error.line is not None else "")
    except CassetteVersionError:
        where = "the recording is of a format that this version of AgentTape doesn't read"
    return _with_cause(replace(about, verdict="unreadable"), where)


def _with_figures(about: Outcome, cassette: Cassette) -> Outcome:
    overview = overview_of(cassette, _prices())
    return replace(
        about,
        calls=overview.interactions,
        tokens=overview.input_tokens + overview.output_tokens,
        dollars=None if overview.unpriced else round(overview.dollars, _DIGITS),
        seconds=round(overview.seconds, _DIGITS),
    )


def _prices() -> Prices:
    file = project_settings().prices
    return _prices_in(None if file is None else Path(file).absolute())


_prices_in = lru_cache(4)(load_prices)


@lru_cache(4)
def _rules(files: str) -> Sequence[CheckFile]:
    return [parsed(text, name) for name, text in json.loads(files).items()]


def _judged(about: Outcome, cassette: Cassette, rules: Sequence[CheckFile]) -> Outcome:
    """Return an outcome with the rules that a run breaks."""
    runs: list[CheckedRun] = []  # the run, if it can be read

    def read() -> CheckedRun:
        runs.append(run_of_cassette(cassette, _prices(), about.cassette))
        return runs[-1]

    # Cases that have no run come after the run: only the report on the whole fleet can tell.
    judged = next(judge([(about.cassette, read)], rules, lambda _: ())).judged if rules else ()
    broken = tuple(sorted({each.text for each in judged if each.has_failed}))
    prompts = {case.prompt: case for file in rules for case in file.cases}
    found = {prompt for run in runs for _, prompt in turns_with_a_case(run, prompts)}
    cases = tuple(sorted(case.place for file in rules for case in file.cases if case.prompt in found))
    return replace(about, rules=broken, cases=cases, verdict="broken" if broken else "same")


# -- Strict replays.


def _replayed(item: Item, about: Outcome, cassette: Cassette, rules: Sequence[CheckFile]) -> Outcome:
    def run(program: Program) -> Run:
        return program.run(Variation(_place(item, cassette), {"on_unused": "fail"}))

    try:
        ended = _with_program(item, cassette, run)
    except _NoInputError:
        return _with_cause(replace(about, verdict="failed"), _NO_INPUT)
    for error in (ended.error, ended.session.failure):
        if isinstance(error, CassetteFormatError):
            raise error
    verdict, where = _end_of(ended)
    if where:
        return _with_cause(replace(about, verdict=verdict), where)
    return _judged(about, cassette, rules)


def _end_of(ended: Run) -> tuple[Verdict, str]:
    """Return the verdict on a replay, and the place where it isn't as recorded; an empty one if it is."""
    answer = ended.result
    if isinstance(ended.error, ConfigurationError):
        return "failed", _NO_INPUT
    if ended.left is not None:
        return "changed", _left(ended)
    if ended.failure is not None:
        return "failed", f"{ended.failure.name} at {ended.failure.place}"
    if isinstance(answer, Answered) and answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return "failed", f"the server answers with {answer.status}"
    if isinstance(answer, Answered) and answer.differences:
        return "changed", "the server's answer differs from the recorded one"
    return "same", ""


def _left(ended: Run) -> str:
    """Return how a run left the recorded world: its first call without a recording, or the first it didn't make."""
    report = ended.session.report
    for error in (ended.session.failure, ended.error):
        if isinstance(error, CassetteMissError):
            paths = dict.fromkeys(_part(path) for path, _, _ in error.differences)
            parts = ", ".join([*paths][:_SHOWN]) + (", …" if len(paths) > _SHOWN else "")
            return f"{_call(error)}: {f'new {parts}' if parts else 'no recording'}"
    if report.missed or report.unrecorded:
        return "a call that has no recording"
    if report.blocked:
        return "a connection that isn't recorded"
    if report.judged:
        return f"{_call(report.judged[0])}: not called"
    return "a session inside the run fails" if ended.failed else "the replay differs from the recording"


def _call(one: Any) -> str:
    """Return the kind, the name and the place of a call. The place has no ordinals, so that like calls are grouped."""
    place = "/".join(map(bare_step, one.address.split("/")))
    return f"{one.kind} {one.name}" + (f" at {place}" if place != one.name else "")


def _part(path: str) -> str:
    """Return a part of a request by names of fields. A longer path may hold a key of the data, which isn't shown."""
    names = re.sub(r"\[\d+\]", "[]", path).split(".")
    most = 2 if names[0] == "arguments" else 3
    return ".".join(name if _NAME.fullmatch(name) else "*" for name in names[:most])


# -- Other models.


class _Recorded:
    """A recording of which samples are taken in this process: all of them need one replay, and read it once."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.has_begun = False  # true if the program has replayed it
        self.path: Trajectory | None = None


@lru_cache(8)  # a plan has the samples of a recording one after another
def _recorded(*_: str) -> _Recorded:
    return _Recorded()


def _sampled(
    item: Item, about: Outcome, cassette: Cassette, rules: Sequence[CheckFile], settings: Mapping[str, Any]
) -> Outcome:
    """Take a sample of a candidate, or of the program's own model, unless the program doesn't replay the recording."""
    if not asked_in(cassette):
        return _with_cause(replace(about, verdict="same"), "no model is called")
    path, wanted = _place(item, cassette), Wanted(item.candidate, options=settings.get("options", {}))
    recorded = _recorded(item.cassette, item.content, item.program, item.settings)
    with tempfile.TemporaryDirectory(prefix="agenttape-") as folder:
        target = Path(folder) / path.name

        def take(one: ProgramRun | CommandRun) -> Taken:
            with recorded.lock:
                recorded.path = recorded.path or path_of_run(cassette, _prices())  # also finds damaged records
                # A replay also finds out whether a coroutine function opens its session in the event loop.
                is_undecided = isinstance(one, ProgramRun) and getattr(one.program, "is_undecided", False)
                if is_undecided or not recorded.has_begun:
                    one.begin(wanted.options)
                recorded.has_begun = True
            return one.taken(item.candidate, target, wanted, None)

        try:
            if is_command(item.program):
                taken = take(CommandRun(command_in(item.program), path))
            else:
                taken = _with_program(item, cassette, lambda program: take(ProgramRun(program, path)))
        except _NoInputError:
            return _with_cause(replace(about, verdict="failed"), _NO_INPUT)
        except VerificationError:
            return _with_cause(replace(about, verdict="failed"), "the program doesn't replay the recording")
        if taken.is_over:
            raise BudgetExceededError(0.0, taken.spent, f"a call of {item.cassette}")
        return _of_sample(item, about, cassette, rules, taken, recorded.path or Trajectory())


def _of_sample(  # noqa: PLR0917 - the facts of one sample
    item: Item, about: Outcome, cassette: Cassette, rules: Sequence[CheckFile], taken: Taken, path: Trajectory
) -> Outcome:
    group: Group = "baseline" if item.candidate == OWN else "candidate"
    sample = sample_of(group, item.sample, taken, path, _prices(), ())
    made = open_cassette(taken.derived) if taken.derived is not None else None
    about = replace(about, dollars=0.0) if made is None else _with_figures(about, made)
    passed = None if sample.left_out else sample.passed
    about = replace(about, verdict="same", passed=passed, seconds=round(sample.seconds, _DIGITS))
    if sample.unrecorded:
        unrecorded = sample.unrecorded[0]
        return _with_cause(
            replace(about, verdict="changed"), f"{unrecorded['kind']} {unrecorded['name']}: no recording"
        )
    if sample.left_out:
        return _with_cause(replace(about, verdict="failed"), f"not evidence: the sample {sample.left_out}")
    if not sample.passed or made is None:
        return _with_cause(replace(about, verdict="failed"), "the program fails")
    judged = _judged(about, made, rules)
    if judged.rules:
        return replace(judged, passed=False)
    if sample.diverges_at:
        return _with_cause(replace(judged, verdict="changed"), _parting(_calls(cassette), _calls(made)))
    return judged


def _calls(cassette: Cassette) -> list[tuple[str, str]]:
    return [(row.kind, row.name) for row in cassette.entries]


def _parting(recorded: Iterable[tuple[str, str]], made: Iterable[tuple[str, str]]) -> str:
    """Return the first call, except of models, that is another one."""
    tools = ([" ".join(call) for call in calls if call[0] not in MODELS] for calls in (recorded, made))
    for before, now in zip_longest(*tools, fillvalue="the end"):
        if before != now:
            return f"{now} in place of {before}"
    return "a call with other arguments"


# -- Programs.


class _NoInputError(Exception):
    """A recording doesn't hold the input that its run could begin again with."""


def _place(item: Item, cassette: Cassette) -> Any:
    """Return the file of a recording, or its URL, which a session takes as well."""
    if is_command(item.program) and not isinstance(cassette.path, Path):
        raise ConfigurationError(f"{cassette.path}: a command is replayed from local files\n  download the recordings")
    return cassette.path


def _with_program(item: Item, cassette: Cassette, do: Callable[[Program], Found]) -> Found:
    """Do something with the program of an item. It's made for each, so that no item depends on those before it."""
    if is_test(item.program):
        with _one_test:
            return with_test(item.program, do)
    with _one_import:
        app = _loaded(item.program, Path.cwd())
    if not item.program.startswith(APP):
        return do(copy(app))
    try:
        program = restarted(app, cassette, {})
    except ConfigurationError:
        raise _NoInputError from None
    return do(program)


@lru_cache(4)
def _loaded(program: str, _: Path) -> Any:
    """Return an app, or a program that was never run. So a script is executed once, and not for each item."""
    return load_program(program.removeprefix(APP)) if program.startswith(APP) else program_of(program)


def _with_cause(outcome: Outcome, where: str) -> Outcome:
    return replace(outcome, cause=hash_of(where), where=where)

"""A check that a replay is the same run: replay it in child processes whose environment differs, and compare."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self, TypeVar

from agenttape_core.errors import ConfigurationError, SessionStateError
from agenttape_core.experiments.engine import Answer, drive, independent
from agenttape_core.experiments.verify.calls import CAUGHT_FAILURE
from agenttape_core.experiments.verify.comparison import (
    RECORDING,
    Output,
    Place,
    Run,
    RunDifference,
    Verification,
    divergences,
    output_of,
    places,
    printable,
)
from agenttape_core.experiments.verify.environment import (
    ALL_FACTORS,
    BY_FACTOR,
    BY_NOISE,
    CAUGHT,
    EVERY_FACTOR,
    FACTORS,
    NOT_AS_RECORDED,
    ORDER,
    RARE,
    TOGETHER,
    UNFROZEN,
    WITHIN,
    Cause,
    Environment,
    Factor,
    available,
)
from agenttape_core.experiments.worker import Children
from agenttape_core.lifecycle.use_cassette import use_cassette
from agenttape_core.lifecycle.variation import Variation
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.redaction import Redactor, Rule, new_key
from agenttape_core.session import current_session
from agenttape_core.settings import load_settings
from agenttape_core.storage import cassette_path
from agenttape_core.tools.hash_seeds import recorded_seed
from agenttape_core.tools.target import Target, target_of

__all__ = [
    "ALL_FACTORS",
    "EVERY_FACTOR",
    "FACTORS",
    "WITHIN",
    "Cause",
    "Environment",
    "Factor",
    "Run",
    "RunDifference",
    "Verification",
    "verify",
]


# -- `verify`: replay in new processes whose environment differs, compare, and find the cause of a difference.


Returned = TypeVar("Returned")
_Script = Generator[Variation, Output, Returned]  # a part of the experiment

_RUNNER = "agenttape_core.experiments.verify.child"

_NOT_HANDED_ON = ("PYTEST_", "AGENTTAPE_LIVE", "LANGUAGE")
_REFUSED = ("mode", "live")


class _Job(NamedTuple):
    """A function to replay, the cassette to open around it if there is one, and options of `use_cassette` for that."""

    target: Target
    cassette: str | None
    options: Mapping[str, Any]


def _job_for(target: Target, cassette: str | Path | None, options: Mapping[str, Any]) -> _Job:
    """Return the job of replaying a function."""
    if cassette is None:
        if options:
            raise ConfigurationError(
                f"verify: {', '.join(options)} is for the cassette to open, and none was given\n"
                "  name the cassette, or give the options where the function opens its own"
            )
        return _Job(target, None, {})
    if refused := [option for option in _REFUSED if option in options]:
        raise ConfigurationError(f"verify: {', '.join(refused)} cannot be chosen: a verification only ever replays")
    try:
        use_cassette(cassette, **options)  # checks them; opens nothing
    except TypeError as error:
        raise ConfigurationError(f"verify: {error}") from None
    path = cassette_path(cassette, options.get("cassette_dir", load_settings().cassette_dir))
    return _Job(
        target, str(path), {name: _handed(name, one) for name, one in options.items() if name != "cassette_dir"}
    )


def _handed(name: str, value: Any) -> Any:
    plain = sorted(value) if isinstance(value, set | frozenset) else value
    try:
        json.dumps(plain)
    except TypeError:
        raise ConfigurationError(
            f"verify: {name}= holds what cannot be handed to a child process\n"
            "  open the cassette inside the function: with use_cassette(...), and verify(function) without one"
        ) from None
    return plain


class _InProcesses:
    """A job as a program to `drive`. A context manager: at its end, no process and no folder of it is left."""

    def __init__(self, job: _Job, timeout: float) -> None:
        self.job, self._timeout = job, timeout
        self._project = Path.cwd()  # the folder whose settings hold, and that relative paths of cassettes start from
        self._around, self._children = ExitStack(), Children()
        self._root: Path

    def __enter__(self) -> Self:
        made = tempfile.TemporaryDirectory(prefix="agenttape-", ignore_cleanup_errors=True)
        self._root = Path(self._around.enter_context(made)).resolve()
        self._around.enter_context(self._children)
        return self

    def __exit__(self, *_: object) -> None:
        self._around.close()

    def run(self, variation: Variation) -> Output:
        """Replay once, in a new working directory, even if one of that name was used before."""
        environment = Environment(**variation.environment)
        folder = self._root / environment.working_directory  # an absolute one, of the project, stays what it is
        ours = folder.parent == self._root
        if ours:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        within: dict[str, Any] = {
            factor: getattr(environment, factor) for factor in ("switch_interval", *WITHIN, ORDER)
        }
        request: dict[str, Any] = {
            "runner": _RUNNER,
            "program": {**self.job._asdict(), "project": str(self._project), **within},
            "path": [str(self._project / entry) for entry in sys.path],
            "argv": sys.argv[:1],
            "folder": str(folder),
            "lingers": True,
        }
        # Those of this process, but for what is varied and what would record.
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_HANDED_ON)}
        variables = {**kept, "AGENTTAPE_MODE": "replay", **environment.variables}
        ended = self._children.run(request, variables, folder, self._timeout)
        output = output_of(ended, folder if ours else None, self._timeout)
        if isinstance(output, str):
            raise ConfigurationError(
                f"verify: a child process cannot load {self.job.target}: {output}\n"
                "  it imports with the sys.path of this process; see that importing the module works on its own"
            )
        return output


def _varied(environment: Environment) -> Variation:
    return Variation(environment=environment._asdict())


# -- Find why two replays differ by experiment: replay again with a single factor varied.


def causes_of(
    found: Iterable[Place], first: Environment, other: Environment, differing: Callable[[Answer], Collection[Place]]
) -> Generator[Variation, Answer, dict[str, Cause]]:
    """Return the cause of each difference between two replays, by its place: a part of an experiment.

    What differs without anything varied isn't blamed on a factor, and a factor is blamed only if what it does can be
    repeated.
    """

    def whats(environment: Environment) -> Generator[Variation, Answer, set[str]]:
        return _whats(differing((yield _varied(environment))))

    found = list(found)
    flaky = yield from whats(first)
    blamed: dict[str, tuple[Factor, Environment]] = {}
    for factor, varied in _tries(first, other):
        rest = _whats(found) - flaky - blamed.keys()
        made = (yield from whats(varied)) if rest else set()
        blamed.update(dict.fromkeys(rest & made, (factor, varied)))
    if blamed:
        flaky |= yield from whats(first)
    repeated = {}
    for _, varied in dict.fromkeys(blamed.values()):
        repeated[varied] = yield from whats(varied)
    sure = {what: factor for what, (factor, varied) in blamed.items() if what in repeated[varied] - flaky}
    rest = _whats(found) - flaky - sure.keys()
    together = (yield from whats(other)) if rest else set()
    return {place.what: _cause(place, sure, flaky, together) for place in found}


def _tries(first: Environment, other: Environment) -> Iterator[tuple[Factor, Environment]]:
    """Yield the environments to try, each with the factor that is varied.

    All of them move the memory a little, so that is the first suspect. It is tried twice, as a few objects lie in the
    same order by chance.
    """
    if first.memory != other.memory:
        yield "memory", first._replace(memory=other.memory)
        yield "memory", first._replace(memory=other.memory + 1000)
    for factor in ALL_FACTORS:
        if factor != "memory" and getattr(first, factor) != getattr(other, factor):
            yield factor, first._replace(**{factor: getattr(other, factor)})


def _cause(place: Place, sure: Mapping[str, Factor], flaky: set[str], together: set[str]) -> Cause:
    if place.noise == "address" and (place.what in sure or place.what in flaky):
        return BY_NOISE["address"]
    if place.what in sure:
        return BY_FACTOR[sure[place.what]]
    if place.what in flaky:
        return BY_NOISE.get(place.noise, UNFROZEN)
    return TOGETHER if place.what in together else RARE


def _whats(places: Iterable[Place]) -> set[str]:
    return {place.what for place in places}


def _verified(program: _InProcesses, *, runs: int, vary: Collection[str]) -> _Script[Verification]:
    """Yield the replays of a verification, and return its result."""
    cassette = program.job.cassette
    choices = available(vary, runs, recorded_seed(cassette) if cassette is not None else None)
    # Each factor takes its next value, and after the last one the first.
    values = [{factor: some[run % len(some)] for factor, some in choices.items()} for run in range(runs)]
    environments = [Environment(**one) for one in values]
    with program:
        produced = []
        for variation in independent(map(_varied, environments)):
            produced.append((yield variation))  # noqa: PERF401 - a comprehension can't yield
        redactor = _redactor(produced)
        differences = [
            *(yield from _differences(produced, environments, redactor)),
            *_from_recording(produced, redactor),
        ]
        if ORDER in vary and not differences and not produced[0].failed and len(produced[0].order) > 1:
            differences += yield from _in_other_orders(environments[0], redactor)
    first = produced[0]
    outcomes = [redactor.text(printable(one.outcome)) for one in produced]
    return Verification(
        function=str(program.job.target),
        runs=[
            Run(number, around, outcome, same=not places(first, one, redactor))
            for number, (one, around, outcome) in enumerate(zip(produced, environments, outcomes, strict=True), start=1)
        ],
        differences=differences,
        failure=outcomes[0]
        if first.failed
        else None
        if differences or any(one.calls for one in produced)
        else _NO_CALL,
        varied={factor: tuple(values[:runs]) for factor, values in choices.items()},
        nondeterminism=_said(produced, lambda one: one.nondeterminism, redactor),
        unobserved=_said(produced, lambda one: one.unobserved, redactor),
        entropy=_said(produced, lambda one: one.entropy, redactor),
    )


def _said(produced: Sequence[Output], lines: Callable[[Output], Sequence[str]], redactor: Redactor) -> list[str]:
    """Return the remarks of the sessions of all replays, each line once."""
    found = dict.fromkeys(line for one in produced for each in (*one.earlier, one) for line in lines(each))
    return [redactor.text(printable(line)) for line in found]


def _redactor(produced: Sequence[Output]) -> Redactor:
    """Return one that follows the rules of the sessions too, with a random key."""
    rules = {
        rule["name"]: Rule(rule["name"], rule["pattern"], tuple(rule["keys"]), rule["literal"])
        for one in produced
        for rule in one.rules
    }
    return Redactor(new_key(), rules=tuple(rules.values()))


def _differences(
    produced: Sequence[Output], environments: Sequence[Environment], redactor: Redactor
) -> _Script[list[RunDifference]]:
    """Return how the first replay that differs from run 1 does so, and why."""
    for number, other in enumerate(produced[1:], start=2):
        if found := places(produced[0], other, redactor):
            causes = yield from causes_of(
                found, environments[0], environments[number - 1], lambda one: places(produced[0], one, redactor)
            )
            return [
                RunDifference(place.what, place.first, place.other, (1, number), causes[place.what]) for place in found
            ]
    return []


def _from_recording(produced: Sequence[Output], redactor: Redactor) -> list[RunDifference]:
    """Return how the first replay that diverges from the recording does so."""
    for number, one in enumerate(produced, start=1):
        if found := divergences(one, redactor):
            runs = (RECORDING, number)
            why = [CAUGHT if each.what.startswith(CAUGHT_FAILURE) else NOT_AS_RECORDED for each in found]
            return [
                RunDifference(each.what, each.first, each.other, runs, cause)
                for each, cause in zip(found, why, strict=True)
            ]
    return []


def _in_other_orders(first: Environment, redactor: Redactor) -> _Script[list[RunDifference]]:
    """Return how the outcome changes where calls that overlap are answered in another order than the recorded one."""
    explored = (yield _varied(first._replace(completion_order=_ORDERS))).explored
    if not explored.get("findings"):
        return []
    finding, calls = explored["findings"][0], {one["number"]: one["address"] for one in explored["overlapping"]}
    number = int(finding["order"].partition(",")[0])
    first_of = f"call {number} ({calls[number]})" if number in calls else f"call {number}"
    told = redactor.text(printable(finding["told"]))
    what = f"the outcome where {first_of} is answered first"
    return [RunDifference(what, "as recorded", told, (1, 1), BY_FACTOR[ORDER])]


_NO_CALL = "it made no recorded call, so there is nothing to verify"
_ORDERS = 20  # orders that are tried in one process
_MAX_JOBS = 4
_MIN_RUNS = 2


def verify(
    function: Callable[[], Any] | str,
    cassette: str | Path | None = None,
    *,
    runs: int = 5,
    vary: Collection[str] = EVERY_FACTOR,
    timeout: float = 300.0,
    jobs: int | None = None,
    on_run: Callable[[], object] | None = None,
    **options: Any,
) -> Verification:
    """Replay a function several times in processes whose environment differs, and compare its output.

    Compared, byte for byte: the return value, or the type and message of what was raised; standard output and error;
    which call asked what, and which recording answered it; the order of the calls in each branch; the files in the
    working directory; the sessions' unused recordings, misses and blocked connections.

    If the replays differ, they are repeated with a single factor varied, until the one that makes the difference is
    found. What the replays before the one that counts return, raise and ask, in the same process, is compared as well.

    Args:
        function: What to replay: a function without arguments, or a coroutine function, that a child process can
            import; or its name, as `module:function` or `path/to/file.py:function`. A generator is read to its end.
        cassette: The cassette to open around the function; `None` if the function opens its own.
        runs: How many replays are compared, at least 2.
        vary: Which factors are varied: `FACTORS` around the process, `WITHIN` it, and
            `completion_order`, in which calls that overlap are answered otherwise; by default all. Without
            `working_directory`, the replays work where this process does.
        timeout: Seconds that one replay may take.
        jobs: How many replays run at the same time; by default one per processor, at most 4.
        on_run: Called after each replay. Looking for a cause takes more than `runs`.
        options: Those of `use_cassette` but `mode` and `live`: nothing is ever recorded or executed here.

    Returns:
        The findings. `raise_if_different()` makes an error of it.

    Raises:
        ConfigurationError: If an argument is not valid, or a child process cannot load the function.
        SessionStateError: If it is called while a session is open.
    """
    _check(runs, timeout, jobs)
    job = _job_for(target_of(function), cassette, options)
    if "working_directory" not in vary:
        jobs = 1  # the replays share the folder of the project
    jobs = jobs or min(os.cpu_count() or 1, _MAX_JOBS)
    program = _InProcesses(job, timeout)
    return drive(program, _verified(program, runs=runs, vary=vary), on_run, jobs)


def _check(runs: int, timeout: float, jobs: int | None) -> None:
    if sys.platform == "win32":
        raise ConfigurationError("verify: time zone and locale cannot be varied on Windows\n  run it on Linux or macOS")
    if not isinstance(runs, int) or runs < _MIN_RUNS:
        raise ConfigurationError(f"verify: runs={runs!r}: one replay has nothing to be compared with; at least 2")
    if timeout <= 0 or (jobs is not None and jobs < 1):
        raise ConfigurationError(f"verify: expected a positive timeout and jobs, found {timeout=} and {jobs=}")
    session = current_session()
    if session is not None:
        raise SessionStateError(
            f"verify() was called while {session.path} is open: a session lets no process be started\n"
            "  call it outside of the block; the children open the cassette themselves"
        )

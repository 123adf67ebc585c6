"""The steps of a verification: replay, compare, and experiment if there is a difference."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from agenttape_core.errors import ConfigurationError, SessionStateError
from agenttape_core.experiments.verify.calls import CAUGHT_FAILURE
from agenttape_core.experiments.verify.cause import BY_FACTOR, CAUGHT, NOT_AS_RECORDED, Cause
from agenttape_core.experiments.verify.comparison import Place, departures, places, printable
from agenttape_core.experiments.verify.environment import EVERY_FACTOR, ORDER, Surroundings, available, plan
from agenttape_core.experiments.verify.experiments import causes_of
from agenttape_core.experiments.verify.output import Output
from agenttape_core.experiments.verify.replays import Replays
from agenttape_core.experiments.verify.result import RECORDING, Run, RunDifference, Verification
from agenttape_core.redaction import Redactor, Rule, new_key
from agenttape_core.session import current_session
from agenttape_core.tools.hash_seeds import recorded_seed


def verified(replays: Replays, *, runs: int, vary: Collection[str]) -> Verification:
    """Verify a job that can be replayed; see `agenttape_core.verify`."""
    cassette = replays.job.cassette
    choices = available(vary, runs, recorded_seed(cassette) if cassette is not None else None)
    surroundings = plan(runs, choices)
    with replays:
        produced = replays.each(surroundings)
        redactor = _redactor(produced)
        differences = [
            *_differences(produced, surroundings, redactor, replays),
            *_from_recording(produced, redactor),
        ]
        if ORDER in vary and not differences and not produced[0].failed and _has_branches(produced[0]):
            differences += _in_other_orders(replays, surroundings[0], redactor)
    first = produced[0]
    outcomes = [redactor.text(printable(one.outcome)) for one in produced]
    return Verification(
        function=str(replays.job.target),
        runs=[
            Run(number, around, outcome, same=not places(first, one, redactor))
            for number, (one, around, outcome) in enumerate(zip(produced, surroundings, outcomes, strict=True), start=1)
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
    """Return what the sessions of all replays say of themselves, each line once."""
    found = dict.fromkeys(line for one in produced for each in (*one.earlier, one) for line in lines(each))
    return [redactor.text(printable(line)) for line in found]


def _redactor(produced: Sequence[Output]) -> Redactor:
    """Return one that follows the rules of the sessions too, with a key that nobody knows."""
    rules = {
        rule["name"]: Rule(rule["name"], rule["pattern"], tuple(rule["keys"]), rule["literal"])
        for one in produced
        for rule in one.rules
    }
    return Redactor(new_key(), rules=tuple(rules.values()))


def _differences(
    produced: Sequence[Output], surroundings: Sequence[Surroundings], redactor: Redactor, replays: Replays
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


def _from_recording(produced: Sequence[Output], redactor: Redactor) -> list[RunDifference]:
    """Return how the first replay that departs from the recording does so."""
    for number, one in enumerate(produced, start=1):
        if found := departures(one, redactor):
            return [
                RunDifference(place.what, place.first, place.other, (RECORDING, number), _why(place)) for place in found
            ]
    return []


def _why(departure: Place) -> Cause:
    return CAUGHT if departure.what.startswith(CAUGHT_FAILURE) else NOT_AS_RECORDED


def _has_branches(one: Output) -> bool:
    """Return whether calls were made in several branches of a session, so that they may overlap."""
    return len(one.order) > len(one.order[:1])


def _in_other_orders(replays: Replays, first: Surroundings, redactor: Redactor) -> list[RunDifference]:
    """Return how the outcome changes where calls that overlap are answered in another order than the recorded one."""
    explored = replays.once(first._replace(completion_order=_ORDERS)).explored
    return [
        RunDifference(
            f"the outcome where {_first_of(finding, explored)} is answered first",
            "as recorded",
            redactor.text(printable(finding["told"])),
            (1, 1),
            BY_FACTOR[ORDER],
        )
        for finding in explored.get("findings", ())[:1]
    ]


def _first_of(finding: dict[str, Any], explored: dict[str, Any]) -> str:
    number = int(finding["order"].partition(",")[0])
    found = next((call for call in explored["overlapping"] if call["number"] == number), None)
    return f"call {number} ({found['address']})" if found is not None else f"call {number}"


_NO_CALL = "it made no recorded call, so there is nothing to verify"
_ORDERS = 20
"""Orders that are tried in one process."""
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
    on_replay: Callable[[], object] | None = None,
    **options: Any,
) -> Verification:
    """Replay a function several times in processes whose surroundings differ, and compare what it produced.

    Compared, byte for byte: the return value, or the type and message of what was raised; standard output and error;
    which call asked what, and which recording served it; the order of the calls in each branch; the files in the
    working directory; what the sessions never asked for, missed and blocked. If the replays differ, they are repeated
    with a single factor varied, until the one that makes the difference is found. What the replays before the one that
    counts return, raise and ask, in the same process, is compared as well.

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
        on_replay: Called after each replay, to show that it goes on; from several threads. Looking for a cause takes
            more than `runs`.
        options: Those of `use_cassette` but `mode` and `live`: nothing is ever recorded or executed here.

    Returns:
        What was found. `raise_if_different()` makes an error of it.

    Raises:
        ConfigurationError: If an argument is not valid, or a child process cannot load the function.
        SessionStateError: If it is called while a session is open.
    """
    from agenttape_core.experiments.verify.job import job_for  # all of this late: it must not make importing us slower
    from agenttape_core.experiments.verify.replays import Replays
    from agenttape_core.tools.target import target_of

    _check(runs, timeout, jobs)
    job = job_for(target_of(function), cassette, options)
    if "working_directory" not in vary:
        jobs = 1  # the replays share the folder of the project
    jobs = jobs or min(os.cpu_count() or 1, _MAX_JOBS)
    return verified(Replays(job, timeout=timeout, jobs=jobs, on_replay=on_replay), runs=runs, vary=vary)


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

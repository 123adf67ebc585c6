"""`--cassette-lab`: a test that has run with its recording is run again with something varied.

The result travels as plain data in the report of the test, whatever process that ran in. When all tests have run,
results that belong together are put together, shown, and written to files.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import pytest

from agenttape_core import experiments
from agenttape_core.errors import AgentTapeError, ConfigurationError, shown_path
from agenttape_core.experiments.result import Result, read
from agenttape_core.experiments.strategies.fault_kinds import chosen_kinds
from agenttape_core.experiments.strategies.faults import FAILING, FaultMatrices, FaultMatrix, Verdict, cells_in
from agenttape_core.experiments.strategies.trials import Trial, Trials, judged, lines_of, plan_lines, read_trials
from agenttape_core.experiments.targets import recording
from agenttape_core.experiments.verdicts import verdict_of
from agenttape_core.lifecycle.candidates import asked_in
from agenttape_core.lifecycle.chosen_order import cassette_and_order
from agenttape_core.lifecycle.running_test import this_test
from agenttape_core.pytest_plugin.costs import prices_of
from agenttape_core.pytest_plugin.naming import safe
from agenttape_core.pytest_plugin.programs import TestProgram, replays_of
from agenttape_core.pytest_plugin.replayed import HAS_FAILED, LOOKED_AT
from agenttape_core.pytest_plugin.rerun import show_progress
from agenttape_core.pytest_plugin.running import named
from agenttape_core.storage import Location, open_cassette
from agenttape_core.tools.report import trajectory_of
from agenttape_core.tools.reporting import Checked, Judged
from agenttape_core.tools.reporting.forms import write_report
from agenttape_core.tools.upkeep.verified import own_folder

FOUND = "agenttape.found"  # the name of the property of a test report with the result of an experiment, as JSON
INTERRUPTED: pytest.StashKey[Sequence[tuple[str, object]]] = pytest.StashKey()
"""The properties of a test whose experiment was interrupted, as it has no report."""
_FAMILY: pytest.StashKey[int] = pytest.StashKey()  # the most trials of a run
_MARKER = "faults"
_OF_EACH_CASSETTE = frozenset({"faults", "orders"})
"""The experiments that look at each cassette that a test has replayed; others look at the one of its marker."""
_OF_REVISIONS = frozenset({"change", "bisect"})
_FINDS_ALWAYS = frozenset({"shrink", "bisect"})

# -- The options of a run, and what they are for one test.


def refuse_unknown(config: pytest.Config) -> None:
    """Refuse, with `pytest.UsageError`, unknown kinds of faults, malformed orders and reports of faults."""
    option = config.option
    wanted: Mapping[str, Mapping[str, Any]] = option.cassette_experiments
    if "faults" in wanted:
        _check_kinds(wanted["faults"].get("kinds"))
        if option.cassette_resume is not None and not option.cassette_candidate:
            try:
                cells_in(option.cassette_resume)
            except ConfigurationError as error:
                raise pytest.UsageError(f"--cassette-resume={error}") from None
    orders, order = wanted.get("orders"), option.cassette_order
    if orders is not None and orders.get("runs", 1) < 1:
        raise pytest.UsageError(f"--cassette-lab=orders:runs={orders['runs']}: expected the number of orders, from 1")
    if orders is not None and (order is not None or "faults" in wanted):
        raise pytest.UsageError("--cassette-lab=orders excludes --cassette-order and --cassette-lab=faults")
    if order is not None and not all(word.isdigit() for word in cassette_and_order(order)[1].split(",")):
        raise pytest.UsageError(f"--cassette-order={order}: expected numbers of calls, such as 5,3 or desk:5,3")


def _check_kinds(kinds: Iterable[str] | None) -> None:
    try:
        chosen_kinds(kinds)
    except ConfigurationError as error:
        raise pytest.UsageError(str(error)) from None


def _given_for(item: pytest.Item, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of an experiment for a test: its marker names the kinds of its faults."""
    if name != "faults":
        return dict(given)
    marker, resume = item.get_closest_marker(_MARKER), item.config.option.cassette_resume
    kinds = {"kinds": marker.args} if marker is not None and marker.args else {}
    _check_kinds(kinds.get("kinds"))
    return {**given, **kinds, **({"resume": resume} if resume is not None else {})}


def _refused_for(item: pytest.Item) -> frozenset[Verdict]:
    """Return the verdicts that fail a test: those that its marker does not allow, where it has one."""
    marker = item.get_closest_marker(_MARKER)
    if marker is None:
        return frozenset()
    allowed = marker.kwargs.get("allow")
    if allowed is None:
        return FAILING
    verdicts: frozenset[Verdict] = frozenset(get_args(Verdict))
    unknown = sorted(set(allowed) - verdicts)
    if unknown:
        raise pytest.UsageError(f"faults(allow={unknown}): expected some of {', '.join(get_args(Verdict))}")
    return verdicts - frozenset(allowed) - {"recovered"}


# -- The further runs of a test.


def look_at(item: pytest.Item, nextitem: pytest.Item | None, key: pytest.StashKey[Any]) -> None:
    """Do experiments on a test, by their functions, and fail it if one finds something.

    The own fixtures of the test have been torn down; `key` is the place of its cassette among its stashed objects.
    """
    running, runs, failing = item.stash.get(key, None), itertools.count(1), []
    own, replayed = TestProgram(item, nextitem, key), replays_of(item, nextitem, key)
    for name, given in item.stash[LOOKED_AT].items():
        for program in replayed if name in _OF_EACH_CASSETTE else [own]:
            found: Result | None = None
            try:
                path = program.cassette
                if path is None or not path.exists():
                    continue
                found = getattr(experiments, name)(
                    named(item) if name in _OF_REVISIONS else program,
                    path,
                    on_run=lambda: show_progress(item.config, next(runs)),
                    **_given_for(item, name, given),
                )
            except AgentTapeError as error:
                _keep(item, name, None, f"{item.nodeid}: {name} shows nothing: {error}")
            finally:
                if running is not None:
                    item.stash[key] = running
            if found is not None:
                problem = _problem(item, name, found)
                _keep(item, name, found, str(found), is_told=bool(problem) and not item.stash[HAS_FAILED])
                failing += [problem] if problem else []
    if failing and not item.stash[HAS_FAILED]:
        pytest.fail("\n".join(failing), pytrace=False)


def _problem(item: pytest.Item, name: str, found: Result) -> str:
    """Return why an experiment fails a test; empty if it doesn't."""
    if not isinstance(found, FaultMatrix):
        return "" if found.ok or name in _FINDS_ALWAYS else str(found)
    bad = found.failing(_refused_for(item))
    lines = [
        f"{cell.fault} of {str(cell.target).strip()}: {cell.verdict.replace('_', ' ')}, {cell.words}" for cell in bad
    ]
    first = f"{len(bad)} of {len(found.cells)} faults come to what is not allowed"
    return "\n  ".join([first, *lines]) if bad else ""


def exclude(item: pytest.Item) -> None:
    """Keep in the report of a test that it has failed without a fault, if it replayed a cassette."""
    test = this_test()
    paths = dict.fromkeys(shown_path(one.path) for one in (test.sessions if test is not None else None) or ())
    for path in paths:
        found = FaultMatrix(item.nodeid, path, excluded="it fails without a fault")
        _keep(item, "faults", found, str(found))


def try_candidates(item: pytest.Item, nextitem: pytest.Item | None, key: pytest.StashKey[Any]) -> None:
    """Run a passed test with each candidate, in turn with its own model. A test that calls no model is left alone.

    For the arguments, see `look_at`.
    """
    first, option, problem = item.stash[key], item.config.option, ""
    try:
        for name, found in _candidates_on(item, TestProgram(item, nextitem, key), first.session.path):
            _keep(item, "model", found, str(found))
            for trial in found.trials:
                _note_verdict(item, trial)
            if found.stopped:
                problem = f"{name} was not tried to the end: {found.stopped}"
                break
    except AgentTapeError as error:
        problem = str(error)
    finally:
        item.stash[key] = first
    if problem:
        pytest.fail(problem, pytrace=False)
    for trial in trials_of(found_in(item.user_properties)).trials:
        if failure := trial.failure(_family_of(item), option.cassette_fail_under):
            problems = dict.fromkeys(one.problem for one in trial.group("candidate") if one.problem)
            pytest.fail("\n  ".join([failure, *problems]), pytrace=False)


def _candidates_on(item: pytest.Item, program: TestProgram, path: Location) -> Iterator[tuple[str, Trials]]:
    """Yield the trials of each candidate, all of which share the samples of the test's own model."""
    from agenttape_core.experiments.strategies.model import ProgramRun, Trying, Wanted

    path = path if isinstance(path, Path) else recording(str(path))
    option, cassette, prices = item.config.option, open_cassette(path), prices_of(item.config)
    if not asked_in(cassette):
        return
    more, (samples, baseline) = option.candidate_options, option.cassette_samples
    options = {"live": more["live"].split(",")} if "live" in more else {}
    to = more.get("to") or own_folder(item.config.rootpath) / "candidates"
    limit, family = option.cassette_max_usd, _family_of(item)
    wanted = Wanted("", samples, baseline, max_usd=limit, to=to, options=options, family=family)
    runs = [ProgramRun(program, path, item.nodeid, Path(f"{safe(item.nodeid)}.yaml"))]
    trying = [Trying(wanted._replace(candidate=name), runs) for name in option.cassette_candidate]
    for one in trying:
        one.plan()  # which refuses a candidate that can't be tried before another one is called
    recorded = trajectory_of(cassette, prices)
    known = read_trials(option.cassette_resume) if option.cassette_resume is not None else []
    known = [one for one in known if (one.name, one.recorded) == (item.nodeid, recorded)]  # else it's recorded again
    for name, one in zip(option.cassette_candidate, trying, strict=True):
        if option.cassette_dry_run and one is not trying[0]:
            one = Trying(wanted._replace(candidate=name, baseline=0), runs)  # noqa: PLW2901
        shared = {sample.number: sample for trial in known for sample in trial.group("baseline")}
        own = [sample for trial in known if trial.candidate == name for sample in trial.group("candidate")]
        before = Trial(item.nodeid, name, recorded, (*shared.values(), *own))
        found = one.found(dry_run=option.cassette_dry_run, resume=[before])
        known += found.trials
        yield name, found


def _note_verdict(item: pytest.Item, trial: Trial) -> None:
    """Let files of JUnit have a verdict as a property of the test."""
    prefix = f"cassette.candidate.{trial.candidate}"
    item.user_properties += [
        (f"{prefix}.verdict", verdict_of(trial.pairs, family=_family_of(item))),
        (f"{prefix}.passed", f"{trial.passed('candidate')} of {len(trial.counting('candidate'))}"),
        (f"{prefix}.not_counted", str(sum(trial.left_out.values()))),
    ]


def _family_of(item: pytest.Item) -> int:
    """Return how many trials the run makes at most: their verdicts are corrected for that."""
    session = item.session
    if _FAMILY not in session.stash:
        with_cassette = (one for one in session.items if one.get_closest_marker("cassette") is not None)
        session.stash[_FAMILY] = sum(1 for _ in with_cassette) * len(item.config.option.cassette_candidate)
    return max(session.stash[_FAMILY], 1)


# -- The results in the reports of tests, and of the whole run.


def _keep(item: pytest.Item, name: str, found: Result | None, text: str, *, is_told: bool = False) -> None:
    """Keep the result of an experiment in the report of a test; end the run if it was interrupted."""
    kept = {"name": name, "test": item.nodeid, "text": text, "is_told": is_told, **_plain_of(found)}
    item.user_properties.append((FOUND, json.dumps(kept)))
    if found is not None and not found.is_whole:
        item.config.stash[INTERRUPTED] = list(item.user_properties)
        raise KeyboardInterrupt


def _plain_of(found: Result | None) -> dict[str, Any]:
    if found is None:
        return {"plain": None, "checked": [], "ok": False}
    checked = [asdict(each) for one in found.to_checked() for each in one.judged]
    return {"plain": found.to_dict(), "checked": checked, "ok": found.ok}


def found_in(properties: Iterable[tuple[str, object]]) -> list[dict[str, Any]]:
    """Return the results of experiments that the properties of a report hold."""
    return [json.loads(str(value)) for name, value in properties if name == FOUND]


def trials_of(found: Iterable[Mapping[str, Any]], wanted: float | None = None) -> Trials:
    """Return the trials and plans of candidates among results, which are judged together."""
    several = [Trials.from_dict(one["plain"]) for one in found if one["name"] == "model"]
    plans = tuple(plan for one in several for plan in one.plans)
    return Trials(tuple(trial for one in several for trial in one.trials), wanted, plans=plans)


def _matrices_of(found: Iterable[Mapping[str, Any]]) -> FaultMatrices:
    return FaultMatrices(
        tuple(read(FaultMatrix, one["plain"]) for one in found if one["name"] == "faults" and one["plain"])
    )


def is_worse(found: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether a candidate is worse when all trials are judged together: then one alone needs less evidence."""
    return any(one.verdict == "WORSE" for one in judged(trials_of(found).trials))


def with_mutants(config: pytest.Config, found: list[dict[str, Any]], tests: Sequence[str]) -> None:
    """Add the edits that no test has killed to the results. `tests` are those that were replayed."""
    here, root = Path.cwd(), config.rootpath
    parts = (test.partition("::") for test in tests)
    files = [os.path.relpath(root / file, here) + colons + rest for file, colons, rest in parts]
    result: Result | None = None
    try:
        result = experiments.mutants(files, **config.option.cassette_experiments["mutants"])
        text = str(result)
    except AgentTapeError as error:
        text = str(error)
    found.append({"name": "mutants", "test": "", "text": text, "is_told": False, **_plain_of(result)})


def sections_of(found: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, list[str]]]:
    """Yield the sections of the summary: a table for each candidate, and one for each other experiment."""
    trials = trials_of(found)
    judgements = judged(trials.trials)
    for name in dict.fromkeys(trial.candidate for trial in trials.trials):
        yield f"candidate {name}", lines_of([one for one in judgements if one.trial.candidate == name])
    if trials.plans:
        yield "dry run", plan_lines(trials.plans)
    for name in dict.fromkeys(one["name"] for one in found if one["name"] != "model"):
        several = [one for one in found if one["name"] == name]
        texts = [one["text"].partition("\n")[0] if one["is_told"] else one["text"] for one in several]
        if name == "faults":
            texts = [str(_matrices_of(several)), *(one["text"] for one in several if not one["plain"])]
        yield name, [line for text in texts for line in text.splitlines()]


def write_found(path: str, found: Sequence[Mapping[str, Any]], config: pytest.Config) -> None:
    """Write the results of experiments to a file, in the form of its suffix."""
    option = config.option
    together: dict[str, Result] = {}
    if "faults" in option.cassette_experiments or any(one["name"] == "faults" for one in found):
        together["faults"] = _matrices_of(found)
    if option.cassette_candidate:
        together["model"] = trials_of(found, option.cassette_fail_under)
    others = [one for one in found if one["name"] not in together]
    checked = [each for one in together.values() for each in one.to_checked()]
    checked += [Checked(one["test"], "", "", tuple(map(Judged.from_dict, one["checked"]))) for one in others]
    plain = {key: value for one in together.values() for key, value in one.to_dict().items()}
    if others:
        keys = ("name", "test", "text", "ok", "checked")
        plain["results"] = [{**{key: one[key] for key in keys}, "result": one["plain"]} for one in others]
    write_report(path, checked, plain, "\n".join([*map(str, together.values()), *(one["text"] for one in others)]))

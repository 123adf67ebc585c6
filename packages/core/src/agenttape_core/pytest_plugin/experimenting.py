"""`--cassette-lab`: a test that has run with its recording is run again with something varied."""

from __future__ import annotations

import itertools
import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar, get_args

import pytest

from agenttape_core import experiments
from agenttape_core.errors import AgentTapeError, ConfigurationError, shown_path
from agenttape_core.experiments.engine import Experiment, Result, drive
from agenttape_core.experiments.program import Run
from agenttape_core.experiments.strategies.fault_kinds import FaultKind, chosen_kinds
from agenttape_core.experiments.strategies.faults import FAILING, FaultMatrix, Known, Verdict, cells_in, experiment
from agenttape_core.experiments.strategies.orders import Exploring
from agenttape_core.lifecycle.chosen_order import cassette_and_order
from agenttape_core.lifecycle.running_test import this_test
from agenttape_core.lifecycle.variation import Variation
from agenttape_core.pytest_plugin.programs import TestProgram, replays_of
from agenttape_core.pytest_plugin.replayed import LOOKED_AT
from agenttape_core.pytest_plugin.reporting import judged_of
from agenttape_core.pytest_plugin.rerun import show_progress
from agenttape_core.pytest_plugin.running import named
from agenttape_core.tools.reporting.findings import Checked
from agenttape_core.tools.reporting.forms import write_report

Found = TypeVar("Found")

_MARKER = "faults"
_FAULTS = "agenttape.faults"
"""The name of the property of a test report that holds its matrices, as JSON."""
_FOUND = "agenttape.found"
"""The name of the property of a test report with what another experiment has found, as JSON."""
_EXPLORED = "agenttape.explored"
"""The name of the property of a test report with the result of its exploration, in a line."""
_KNOWN: pytest.StashKey[Known] = pytest.StashKey()
"""The cells of an earlier run, which this one takes over."""
INTERRUPTED: pytest.StashKey[Sequence[tuple[str, object]]] = pytest.StashKey()
"""The properties of a test whose experiment was interrupted, as it has no report."""


def refuse_unknown_faults(config: pytest.Config) -> None:
    """Refuse kinds of faults that don't exist, and a report of an earlier run that isn't one.

    Raises:
        pytest.UsageError: If there is one.
    """
    _chosen(_named(config))
    resumed = config.option.cassette_resume if not config.option.cassette_candidate else None
    try:
        config.stash[_KNOWN] = cells_in(resumed) if resumed is not None else {}
    except ConfigurationError as error:
        raise pytest.UsageError(f"--cassette-resume={error}") from None


def _named(config: pytest.Config) -> list[str] | None:
    """Return the names of the kinds of faults that the command line gives; `None` for all."""
    given = config.option.faults
    if given in {None, "all"}:
        return None
    return [name.strip() for name in str(given).split(",") if name.strip()]


def _chosen(names: Sequence[str] | None) -> list[FaultKind]:
    try:
        return chosen_kinds(names)
    except ConfigurationError as error:
        raise pytest.UsageError(str(error)) from None


def _kinds_for(item: pytest.Item) -> list[FaultKind]:
    """Return the kinds of faults for a test: from its marker, or else from the command line."""
    marker = item.get_closest_marker(_MARKER)
    return _chosen(marker.args if marker is not None and marker.args else _named(item.config))


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


def refuse_unknown_orders(config: pytest.Config) -> None:
    """Refuse a number of orders below 1, and an order that isn't one.

    Raises:
        pytest.UsageError: If there is one.
    """
    orders, order = config.option.explore, config.option.cassette_order
    if orders is not None and orders < 1:
        raise pytest.UsageError(f"--cassette-lab=orders:runs={orders}: expected the number of orders, at least 1")
    if orders is not None and (order is not None or config.option.faults is not None):
        raise pytest.UsageError("--cassette-lab=orders excludes --cassette-order and --cassette-lab=faults")
    if order is not None and not all(word.isdigit() for word in cassette_and_order(order)[1].split(",")):
        raise pytest.UsageError(f"--cassette-order={order}: expected numbers of calls, such as 5,3 or desk:5,3")


def _driven(
    item: pytest.Item,
    nextitem: pytest.Item | None,
    key: pytest.StashKey[Any],
    begin: Callable[[Run, bool], Experiment[Found]],
) -> Iterator[Found]:
    """Drive an experiment for each cassette that a test has replayed, and yield the results."""
    running, runs, replays = item.stash.get(key, None), itertools.count(1), replays_of(item, nextitem, key)
    try:
        for program, before in replays:
            script = begin(before, len(replays) == 1)
            yield drive(program, script, lambda: show_progress(item.config, next(runs)))
    finally:
        if running is not None:
            item.stash[key] = running


def _end(item: pytest.Item) -> None:
    """End the run of pytest after an experiment that was interrupted, and keep what that has found."""
    item.config.stash[INTERRUPTED] = list(item.user_properties)
    raise KeyboardInterrupt


def try_faults(item: pytest.Item, nextitem: pytest.Item | None, key: pytest.StashKey[Any]) -> None:
    """Run a test that has passed again for each fault, and keep the result in its report.

    Args:
        item: The test. Its own fixtures have been torn down.
        nextitem: The next test.
        key: The place of the test's cassette among its stashed objects.
    """
    kinds, refused, known = _kinds_for(item), _refused_for(item), item.config.stash.get(_KNOWN, {})
    matrices: list[FaultMatrix] = []

    def begin(run: Run, _: bool) -> Experiment[FaultMatrix]:
        return experiment(item.nodeid, Variation(), run, kinds, known=known, call=item.config.option.fault_calls)

    for matrix in _driven(item, nextitem, key, begin):
        matrices.append(matrix)
        _keep(item, matrices)
        if matrix.untried:
            _end(item)
    bad = [cell for matrix in matrices for cell in matrix.failing(refused)]
    if bad:
        lines = [
            f"{cell.fault} of {str(cell.target).strip()}: {cell.verdict.replace('_', ' ')}, {cell.words}"
            for cell in bad
        ]
        first = f"{len(bad)} of {sum(len(matrix.cells) for matrix in matrices)} faults come to what is not allowed"
        pytest.fail("\n  ".join([first, *lines]), pytrace=False)


def try_orders(item: pytest.Item, nextitem: pytest.Item | None, key: pytest.StashKey[Any]) -> None:
    """Run a test that has passed again in other orders, and fail it if one of them changes the outcome.

    Args:
        item: The test. Its own fixtures have been torn down.
        nextitem: The next test.
        key: The place of the test's cassette among its stashed objects.
    """
    option, failing = item.config.option, []

    def begin(run: Run, is_only: bool) -> Experiment[tuple[str, bool]]:
        path = run.session.path
        prefix = "" if is_only else f"{Path(str(path)).name.partition('.')[0]}:"
        words = shlex.join(["pytest", item.nodeid, f"--cassette-order={prefix}"])
        rows, shown = run.session.source.entries, str(shown_path(path))
        try:
            search = Exploring(item.nodeid, shown, Variation(), rows, words.__add__)
            found = yield from search.search(option.explore, option.explore_seed)
        except ConfigurationError as error:
            return f"{item.nodeid} is not explored: {str(error).partition(chr(10))[0]}", True
        return str(found), found.is_whole

    for found, is_whole in _driven(item, nextitem, key, begin):
        item.user_properties.append((_EXPLORED, found.partition("\n")[0]))
        if not is_whole:
            _end(item)
        if "\n" in found:
            failing.append(found)
    if failing:
        pytest.fail("\n".join(failing), pytrace=False)


def try_others(item: pytest.Item, nextitem: pytest.Item | None, key: pytest.StashKey[Any]) -> None:
    """Do other experiments on a test, by their functions, and fail it if one finds something.

    Args:
        item: The test. Its own fixtures have been torn down.
        nextitem: The next test.
        key: The place of the test's cassette among its stashed objects.
    """
    running, runs, failing = item.stash.get(key, None), itertools.count(1), []
    program = TestProgram(item, nextitem, key)
    if program.cassette is None or not program.cassette.exists():
        return
    for name, given in item.stash[LOOKED_AT].items():
        target = named(item) if name in {"change", "bisect"} else program
        kept: dict[str, Any] = {"name": name, "test": item.nodeid, "plain": None, "checked": []}
        found: Result | None = None
        try:
            found = getattr(experiments, name)(
                target, program.cassette, on_run=lambda: show_progress(item.config, next(runs)), **given
            )
        except AgentTapeError as error:
            kept["text"] = f"{item.nodeid}: {name} shows nothing: {error}"
        finally:
            if running is not None:
                item.stash[key] = running
        if found is not None:
            checked = [asdict(each) for one in found.to_checked() for each in one.judged]
            kept |= {"text": str(found), "plain": found.to_dict(), "checked": checked}
            failing += [] if found.ok or name in {"shrink", "bisect"} else [str(found)]
        item.user_properties.append((_FOUND, json.dumps(kept)))
        if found is not None and not found.is_whole:
            _end(item)
    if failing:
        pytest.fail("\n".join(failing), pytrace=False)


def found_in(properties: Iterable[tuple[str, object]]) -> list[dict[str, Any]]:
    """Return what other experiments have found, as the properties of a report hold it."""
    return [json.loads(str(value)) for name, value in properties if name == _FOUND]


def write_found(path: str, found: Sequence[dict[str, Any]]) -> None:
    """Write what other experiments have found to a file, in the form of its suffix."""
    checked = [Checked(one["test"], "", "", tuple(map(judged_of, one["checked"]))) for one in found]
    plain = {"results": [{"name": one["name"], "test": one["test"], "result": one["plain"]} for one in found]}
    write_report(path, checked, plain, "\n".join(one["text"] for one in found))


def exclude(item: pytest.Item) -> None:
    """Keep in the report of a test that it has failed without a fault, if it replayed a cassette."""
    test = this_test()
    paths = dict.fromkeys(shown_path(one.path) for one in (test.sessions if test is not None else None) or ())
    _keep(item, [FaultMatrix(item.nodeid, path, excluded="it fails without a fault") for path in paths])


def _keep(item: pytest.Item, matrices: Sequence[FaultMatrix]) -> None:
    if matrices:
        kept = [(name, value) for name, value in item.user_properties if name != _FAULTS]
        item.user_properties[:] = [*kept, (_FAULTS, json.dumps([matrix.to_dict() for matrix in matrices]))]


def matrices_in(properties: Sequence[tuple[str, object]]) -> list[FaultMatrix]:
    """Return the matrices that the properties of a report hold, in whatever process they were made."""
    found = next((str(value) for name, value in properties if name == _FAULTS), "[]")
    return [FaultMatrix.from_dict(plain) for plain in json.loads(found)]


def explored_in(properties: Iterable[tuple[str, object]]) -> list[str]:
    """Return the lines about explorations that the properties of a report hold."""
    return [str(value) for name, value in properties if name == _EXPLORED]

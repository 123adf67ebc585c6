"""`faults`: for a function and its cassette, what comes of it if each call fails once in each way."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Generator, Iterable, Mapping
from pathlib import Path
from typing import Any

from agenttape_core.errors import ConfigurationError, shown_path
from agenttape_core.interventions import Change
from agenttape_core.storage import open_cassette
from agenttape_core.tools.faults.cells import MANY, control_of, planned
from agenttape_core.tools.faults.kinds import FaultKind, chosen_kinds, with_controls
from agenttape_core.tools.faults.matrix import Cell, FaultMatrix
from agenttape_core.tools.faults.verdicts import Ended, first_line, how_it_ended, verdict_of, words_of
from agenttape_core.tools.what_if import WhatIf, awhat_if, what_if


def faults(
    function: Callable[[], Any],
    cassette: str | Path,
    kinds: Iterable[str | FaultKind] | None = None,
    *,
    most: int = MANY,
    progress: Callable[[Cell], object] | None = None,
    **options: Any,
) -> FaultMatrix:
    """Let each recorded call of a run fail once in each way, and return what came of it. Nothing is executed.

    Args:
        function: The run, without arguments; a coroutine function is run to its end.
        cassette: The cassette, as `use_cassette` takes it.
        kinds: The kinds of faults, or their names; by default all. `timeout:always` fails each attempt.
        most: The number of calls up to which each fails. Of more, the first and the last of each class do: those at
            addresses that differ in their numbers alone.
        progress: Called with each cell when it is done.
        options: More options of `use_cassette`.

    Raises:
        CassetteError: If the cassette is not there, or cannot be read.
        ConfigurationError: If there is no such kind, or the run is not the same again without a fault.
    """
    if inspect.iscoroutinefunction(function):
        return asyncio.run(afaults(function, cassette, kinds, most=most, progress=progress, **options))
    script = _matrix(kinds, most, progress)
    changes = next(script)
    while True:
        try:
            changes = script.send(what_if(cassette, function, changes, **options))
        except StopIteration as end:
            matrix: FaultMatrix = end.value
            return matrix


async def afaults(
    function: Callable[[], Any],
    cassette: str | Path,
    kinds: Iterable[str | FaultKind] | None = None,
    *,
    most: int = MANY,
    progress: Callable[[Cell], object] | None = None,
    **options: Any,
) -> FaultMatrix:
    """Do what `faults` does, for a function that returns something to await."""
    script = _matrix(kinds, most, progress)
    changes = next(script)
    while True:
        try:
            changes = script.send(await awhat_if(cassette, function, changes, **options))
        except StopIteration as end:
            matrix: FaultMatrix = end.value
            return matrix


def _matrix(
    kinds: Iterable[str | FaultKind] | None, most: int, progress: Callable[[Cell], object] | None
) -> Generator[Mapping[int, Change], WhatIf, FaultMatrix]:
    """Yield the changes of each run, and get the account of it; return the matrix."""
    chosen = _kinds(kinds)
    before = yield {}
    _refuse_failing(before, "fails without a fault")
    source, served = open_cassette(before.cassette), [one.number for one in before.report.served]
    control = yield control_of(source, served)
    _refuse_failing(control, "is not the same when its recorded answers are served as changes")
    has_result = _equal(control.result, before.result)
    plan = planned(source, served, chosen, most)
    cells = []
    for fault, target, change in plan.cells:
        found = yield {target.number: change}
        how = "passed" if found.raised is None else how_it_ended(found.raised)
        same = found.raised is None and _equal(found.result, before.result) if has_result else None
        ended = Ended(found.report, target.number, how, first_line(found.raised), same)
        verdict = verdict_of(ended)
        cells.append(Cell(fault.name, target, verdict, words_of(ended, verdict)))
        if progress is not None:
            progress(cells[-1])
    shown = shown_path(before.cassette)
    return FaultMatrix(shown, shown, tuple(cells), plan.calls, plan.left_out)


def _kinds(kinds: Iterable[str | FaultKind] | None) -> list[FaultKind]:
    if kinds is None:
        return chosen_kinds()
    return with_controls([kind if isinstance(kind, FaultKind) else chosen_kinds([kind])[0] for kind in kinds])


def _refuse_failing(found: WhatIf, what: str) -> None:
    if found.raised is not None or not found.is_same:
        raise ConfigurationError(
            f"faults: the run {what}, so faults would show nothing\n  {found}\n"
            "  replay it first, and mend what it fails for"
        ) from found.raised


def _equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:  # noqa: BLE001 - of a class of the user's, such as an array
        return repr(one) == repr(other)

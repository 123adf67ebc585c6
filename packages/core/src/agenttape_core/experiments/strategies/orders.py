"""Other orders of the answers to calls that overlap: which of them change the outcome of a program."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import sys
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agenttape_core.errors import (
    CassetteMissError,
    ConfigurationError,
    SessionStateError,
    UnusedInteractionsError,
    shown_path,
)
from agenttape_core.experiments.strategies.order_search import (
    Call,
    Exploration,
    Finding,
    Order,
    Pick,
    Search,
    Tried,
    What,
    overtaken,
    smaller,
)
from agenttape_core.experiments.verify.ending import Ending, ended
from agenttape_core.lifecycle.contained import ContainedBlock
from agenttape_core.lifecycle.imposing import Imposing, recorded_first
from agenttape_core.lifecycle.ordering import imposing
from agenttape_core.lifecycle.project import this_project
from agenttape_core.lifecycle.request import no_remedy
from agenttape_core.lifecycle.use_cassette import use_cassette
from agenttape_core.matching import differences
from agenttape_core.scheduling import ChoicePoint, parsed_order
from agenttape_core.schema import IndexRow
from agenttape_core.session import current_session
from agenttape_core.storage import open_cassette

_ID = re.compile(r"\b[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}\b")
_LINES = 12


@dataclass(frozen=True, slots=True)
class Replay:
    """One replay in a chosen order.

    Args:
        ending: How it ended; redacted, with the ids that were made in it numbered.
        points: The choices of the run.
        unreachable: The calls that others were to wait for in vain.
        in_threads: The calls that were answered at once, as they were made in threads that could not be held.
        rows: The recordings.
        has_opened: Whether a session was open.
        are_threads: Whether calls of threads were among those that were chosen.
        is_held: Whether each thread waited where it could be held.
    """

    ending: Ending
    points: Sequence[ChoicePoint] = field(default_factory=list)
    unreachable: Sequence[int] = ()
    in_threads: Collection[int] = ()
    rows: Sequence[IndexRow] = ()
    has_opened: bool = True
    are_threads: bool = False
    is_held: bool = True

    @property
    def what(self) -> What:
        """The sort of a change of the outcome that is this one."""
        if self.ending.outcome.startswith("returned"):
            return "result"
        return "miss" if CassetteMissError.__name__ in self.ending.outcome.partition("\n")[0] else "exception"


def replayed(run: Callable[[], Ending], imposed: Imposing) -> Replay:
    """Replay in an order.

    Args:
        run: Runs the program, which opens one cassette.
        imposed: The order.
    """
    with imposing(imposed):
        ending = run()
    if ending.outcome.startswith("raised KeyboardInterrupt"):
        raise KeyboardInterrupt
    if imposed.redactor is None:
        return Replay(ending, has_opened=False)
    text, plain = imposed.redactor.text(ending.outcome), imposed.redactor.value(ending.value)
    numbered = _numbered(json.dumps([text, plain], sort_keys=True))
    outcome, value = json.loads(numbered)
    redacted, choices = Ending(outcome, ending.failed, value), imposed.choices
    if choices is None:
        return Replay(redacted, rows=imposed.rows)
    return Replay(
        redacted,
        list(choices.points),
        (*choices.unreachable, *choices.never_came),
        frozenset(choices.in_threads),
        imposed.rows,
        are_threads=choices.are_threads,
        is_held=choices.is_held,
    )


def _numbered(text: str) -> str:
    """Return a text in which ids of the run are numbers: which task got which of them depends on the order."""
    known: dict[str, str] = {}
    return _ID.sub(lambda match: known.setdefault(match[0], f"id {len(known) + 1}"), text)


def change_of(base: Ending, other: Ending) -> str:
    """Return how an ending differs from that in the recorded order; empty if it does not."""
    if base == other:
        return ""
    if base.outcome != other.outcome:
        return "\n".join(other.outcome.splitlines()[:_LINES])
    found = list(differences(base.value, other.value, "value"))[:_LINES]
    return "\n".join(f"{each.path}: {each.asked}\n  in the recorded order: {each.recorded}" for each in found)


def ended_in(function: Callable[[], Any], cassette: Any) -> Ending:
    """Call a function with a cassette around it, and return how it ended.

    What an order no longer asks for is no failure of its own, and to record anew is no remedy for a race. The failure
    of a session that the function opened itself, and caught, is part of the outcome.

    Args:
        function: The function, without arguments.
        cassette: The cassette.
    """
    block = ContainedBlock(use_cassette(cassette, mode="replay", on_unused="ignore").request._replace(remedy=no_remedy))
    ending = ended(function, block)
    if ending.outcome == "returned" and not block.has_calls:
        return ending._replace(outcome="returned without a recorded call, so there is no order to try", failed=True)
    if ending.outcome != "returned" or not block.failed:
        return ending
    lines = "\n".join(["returned, though a session of its own failed", *sorted(failed.line for failed in block.failed)])
    return ending._replace(outcome=lines, failed=True)


def refuse_unopened(name: str) -> ConfigurationError:
    """Return the error of a program that opens no cassette."""
    return ConfigurationError(f"orders: {name} opened no cassette to replay\n  name the one to open around it")


ORDERS = 200
"""Orders that are tried by default."""
SEED = 7
_UNUSED = f"raised {UnusedInteractionsError.__module__}.{UnusedInteractionsError.__qualname__}"
_SHRINKING = 40
"""Replays that make an order smaller, at most."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program to explore.

    Args:
        name: Its name in the report.
        cassette: Its cassette, as the report names it.
        rows: The recordings of the cassette.
        run: Runs it once, and opens the cassette.
        again: Returns the command that replays it in an order, as a text.
        holds_threads: Whether calls of threads are answered in other orders, too.
    """

    name: str
    cassette: str
    rows: Sequence[IndexRow]
    run: Callable[[], Ending]
    again: Callable[[str], str]
    holds_threads: bool = True


def explored(program: Program, orders: int, seed: int, on_replay: Callable[[], object] | None = None) -> Exploration:
    """Replay a program in many orders; see `orders`.

    Args:
        program: The program.
        orders: The most orders to try.
        seed: Of the orders that are chosen by chance.
        on_replay: Called after each replay.

    Raises:
        ConfigurationError: If the program opens no cassette.
    """
    return _Exploring(program, on_replay or _nothing).explored(orders, seed)


def _nothing() -> None:
    pass


class _Found:
    """A sort of change, and the smallest order for it so far."""

    def __init__(self, tried: Tried, replay: Replay, told: str) -> None:
        self.tried, self.replay, self.told = tried, replay, told
        self.times = 0


class _Exploring:
    """One exploration.

    Args:
        program: The program.
        on_replay: Called after each replay.
    """

    def __init__(self, program: Program, on_replay: Callable[[], object]) -> None:
        self._program = program
        self._on_replay = on_replay
        self._last = Replay(Ending("", False, None))
        self._base = self._last
        self._rows = {row.number: row for row in program.rows}
        self._overlapping: set[int] = set()

    def _replay(self, order: Order = (), pick: Pick | None = None) -> Replay:
        pick = pick or recorded_first
        imposed = Imposing(order, pick, holds_threads=self._program.holds_threads)
        self._last = replay = replayed(self._program.run, imposed)
        self._rows |= {row.number: row for row in replay.rows}
        for point in replay.points:
            if len(point.waiting) > 1:
                self._overlapping.update(point.waiting)
        self._on_replay()
        return replay

    def _run(self, order: Order, pick: Pick | None) -> Sequence[ChoicePoint]:
        return self._replay(order, pick).points

    def _begin(self) -> str:
        """Replay in the recorded order, and return why that is nothing to compare with; empty if it is."""
        recorded = replayed(self._program.run, Imposing((), is_recorded=True))
        self._base = self._replay()
        if not self._base.has_opened:
            raise refuse_unopened(self._program.name)
        if not self._base.is_held or (self._base.in_threads and not self._overlapping):
            raise ConfigurationError(
                f"{self._program.name}: its calls overlap in threads, whose order cannot be chosen\n"
                "  a thread waits for another one outside of Python, or was begun before the session: calls are\n"
                "  explored that wait in an event loop, in a ThreadPoolExecutor, or in a threading.Thread begun inside"
            )
        return self._unstable(recorded)

    def explored(self, orders: int, seed: int) -> Exploration:
        """Search the orders."""
        if unstable := self._begin():
            return self._result([], 0, seed, is_exhaustive=False, unstable=unstable)
        search = Search(self._run, orders, seed, self._branch_of)
        found: dict[tuple[What, str], _Found] = {}
        tried = 0
        for each in search.runs():
            tried += 1
            told = change_of(self._base.ending, self._last.ending)
            if told:
                kind = self._kind(self._last)
                known = found.setdefault(kind, _Found(each, self._last, told))
                known.times += 1
                if (each.overtaken, len(each.order)) < (known.tried.overtaken, len(known.tried.order)):
                    known.tried, known.replay, known.told = each, self._last, told
        findings = [self._finding(kind, one) for kind, one in found.items()]
        return self._result(findings, tried, seed, is_exhaustive=search.is_exhaustive)

    def in_order(self, order: Order) -> Exploration:
        """Replay in the recorded order and in another one, and compare."""
        if unstable := self._begin():
            return self._result([], 0, SEED, is_exhaustive=False, unstable=unstable)
        replay = self._replay(order)
        told, text = change_of(self._base.ending, replay.ending), ",".join(map(str, order))
        far = overtaken(replay.points)
        found = [Finding(replay.what, told, 1, text, far, self._program.again(text))] if told else []
        return self._result(found, 1, SEED, is_exhaustive=False, order=text, unreachable=replay.unreachable)

    def _branch_of(self, number: int) -> Hashable:
        return self._rows[number].address.rpartition("/")[0] or number if number in self._rows else number

    def _unstable(self, recorded: Replay) -> str:
        """Return why the outcome in the recorded order is none to compare with; empty if it is one.

        Threads are recorded with all that they did to each other, and held from call to call: the recorded run itself
        is compared with, as there may be no order of calls in which all of that is the same.
        """
        first, second = self._base, self._replay()
        if first.are_threads:
            self._base = recorded
        if self._base.ending.failed:
            return self._base.ending.outcome
        if told := change_of(first.ending, second.ending):
            return f"two replays in the recorded order differ\n  {told}"
        if first.points != second.points:
            return "two replays in the recorded order make other calls, or make them in another order"
        if first.ending.outcome != recorded.ending.outcome and recorded.ending.failed:
            return recorded.ending.outcome
        return ""

    @staticmethod
    def _kind(replay: Replay) -> tuple[What, str]:
        """Return what tells one change from another: its sort, and what was raised."""
        return replay.what, "" if replay.what == "result" else replay.ending.outcome.partition("\n")[0]

    def _finding(self, kind: tuple[What, str], found: _Found) -> Finding:
        def fails(order: Order) -> bool:
            again = self._replay(order)
            return bool(change_of(self._base.ending, again.ending)) and self._kind(again) == kind

        points = found.replay.points
        order = smaller(found.tried.order, points, fails, _SHRINKING) or tuple(point.chosen for point in points)
        last = self._replay(order)
        told = change_of(self._base.ending, last.ending)
        if not told or self._kind(last) != kind:  # it does so by chance
            order, last, told = found.tried.order, found.replay, found.told
        text = ",".join(map(str, order))
        return Finding(kind[0], told, found.times, text, overtaken(last.points), self._program.again(text))

    def _result(
        self,
        findings: list[Finding],
        tried: int,
        seed: int,
        *,
        is_exhaustive: bool,
        unstable: str = "",
        order: str = "",
        unreachable: Sequence[int] = (),
    ) -> Exploration:
        return Exploration(
            function=self._program.name,
            cassette=self._program.cassette,
            seed=seed,
            orders=tried,
            is_exhaustive=is_exhaustive,
            overlapping=[self._call(number) for number in sorted(self._overlapping)],
            findings=sorted(findings, key=lambda finding: (finding.overtaken, len(finding.order))),
            unstable=unstable,
            order=order,
            unreachable=unreachable,
        )

    def _call(self, number: int) -> Call:
        row = self._rows[number]
        return Call(number, row.kind, row.name, row.address)


def outcomes_in_other_orders(run: Callable[[], Ending], orders: int) -> dict[str, Any]:
    """Replay a program that opens its cassettes by itself in other orders, and return the result as plain data.

    Args:
        run: Runs it once.
        orders: The most orders to try.

    Returns:
        The dict of `Exploration.to_dict`; empty if nothing of the program can be given another order.
    """
    first: list[Ending] = []

    def runs() -> Ending:
        ending = run()
        if not first:
            first.append(ending)
        # What it no longer asks for is no failure of its own, and hides what it returned.
        return first[0] if ending.outcome.startswith(_UNUSED) else ending

    program = Program(name="", cassette="", rows=(), run=runs, again=str, holds_threads=False)
    try:
        found = explored(program, orders, SEED)
    except ConfigurationError:
        return {}
    return found.to_dict() if not found.unstable else {}


def orders(
    target: Callable[[], Any] | str,
    cassette: str | Path,
    *,
    runs: int = ORDERS,
    seed: int = SEED,
    order: str | Sequence[int | str] | None = None,
    on_replay: Callable[[], object] | None = None,
) -> Exploration:
    """Replay a function with its recorded calls answered in other orders, and report which of them change the outcome.

    Wherever several served calls wait in an event loop or in threads, any of them may be answered next. If there are at
    most `runs` orders, all are tried; else those nearest to the recorded one, and others by chance. A change of the
    outcome is a call that was not recorded, another exception or another result; the smallest order that makes it is
    reported with a command that replays it. The network is closed, and nothing is executed.

    Args:
        target: A function without arguments, a coroutine function, or its name as `module:function` or
            `path/to/file.py:function`.
        cassette: The cassette to open around it.
        runs: The most orders to try, at least 1.
        seed: Of the orders that are chosen by chance.
        order: Only this order, as a finding names it.
        on_replay: Called after each replay, to show that it goes on.

    Returns:
        What was found. `raise_if_different()` makes an error of it.

    Raises:
        ConfigurationError: If an argument is not valid, or nothing of the program can be given another order.
        SessionStateError: If it is called while a session is open, or in an event loop.
        CassetteError: If the cassette cannot be read.
    """
    if isinstance(runs, bool) or not isinstance(runs, int) or runs < 1:
        raise ConfigurationError(f"orders: runs={runs!r}: expected the number of orders to try, at least 1")
    _refuse_inside()
    project = this_project()
    path = project.recording(cassette, project.settings().cassette_dir)
    rows, shown = open_cassette(path).entries, str(shown_path(path))
    with _loaded(target) as (function, name):
        command = (
            f"agenttape lab orders {shlex.quote(name)} --cassette {shlex.quote(shown)} --order" if ":" in name else ""
        )
        program = Program(
            name=name,
            cassette=shown,
            rows=rows,
            run=lambda: ended_in(function, path),
            again=lambda text: f"{command} {text}" if command else f'use_cassette("{shown}", order="{text}")',
        )
        if order is not None:
            return _Exploring(program, on_replay or _nothing).in_order(parsed_order(order, rows))
        return explored(program, runs, seed, on_replay)


@contextmanager
def _loaded(function: Callable[[], Any] | str) -> Iterator[tuple[Callable[[], Any], str]]:
    """Yield a function and its name, by which a command finds it; one without a module has a name without a colon."""
    from agenttape_core.tools.target import load, target_of

    if isinstance(function, str):
        target, main = target_of(function), sys.modules["__main__"]
        try:
            try:
                found = load(target)
            except Exception as error:
                raise ConfigurationError(f"cannot load {function}: {type(error).__name__}: {error}") from error
            yield found, function
        finally:
            sys.modules["__main__"] = main  # a script is loaded in its place
        return
    if not callable(function):
        raise ConfigurationError(f"orders: expected a function or its name, found {type(function).__name__}")
    try:
        found_at = target_of(function)
    except ConfigurationError:  # it is defined inside a function
        yield function, getattr(function, "__qualname__", type(function).__name__)
    else:
        place = found_at.module or shown_path(Path(found_at.file))
        yield function, f"{place}:{found_at.qualname}"


def _refuse_inside() -> None:
    session = current_session()
    if session is not None:
        raise SessionStateError(f"orders() was called while {session.path} is open\n  call it outside of the block")
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise SessionStateError(
        "orders() was called in an event loop, and it runs loops of its own\n"
        "  call it outside, or in a thread: await asyncio.to_thread(orders, ...)"
    )

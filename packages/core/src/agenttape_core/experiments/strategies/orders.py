"""Other orders of the answers to calls that overlap: which of them change the outcome of a program."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from collections.abc import Callable, Collection, Generator, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from agenttape_core.errors import CassetteMissError, ConfigurationError, SessionStateError, shown_path
from agenttape_core.experiments.engine import SEED, drive, refuse_below_one
from agenttape_core.experiments.program import Call, Program, Run, is_command
from agenttape_core.experiments.strategies.order_search import (
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
from agenttape_core.experiments.targets import recorded, takes_tests
from agenttape_core.experiments.verify.child import Ending, change_of, ending_of
from agenttape_core.lifecycle.chosen_order import Imposing, recorded_first
from agenttape_core.lifecycle.variation import Variation
from agenttape_core.scheduling import ChoicePoint, parsed_order
from agenttape_core.schema import IndexRow
from agenttape_core.storage import open_cassette
from agenttape_core.tools.target import target_of

Returned = TypeVar("Returned")
_ID = re.compile(r"\b[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}\b")


@dataclass(frozen=True, slots=True)
class Replay:
    """One replay in a chosen order."""

    ending: Ending  # how it ended; redacted, with the ids that were made in it numbered
    points: Sequence[ChoicePoint] = field(default_factory=list)  # the choices of the run
    unreachable: Sequence[int] = ()  # the calls that others were to wait for in vain
    in_threads: Collection[int] = ()  # the calls that were answered right away, as their threads couldn't be held
    rows: Sequence[IndexRow] = ()  # the recordings
    has_opened: bool = True  # whether a session was open
    are_threads: bool = False  # whether calls of threads were among those that were chosen
    is_held: bool = True  # whether each thread waited where it could be held

    @property
    def what(self) -> What:
        """The sort of a change of the outcome that is this one."""
        if self.ending.outcome.startswith("returned"):
            return "result"
        return "miss" if CassetteMissError.__name__ in self.ending.outcome.partition("\n")[0] else "exception"

    @property
    def kind(self) -> tuple[What, str]:
        """The identity of that change: its sort, and the exception."""
        return self.what, "" if self.what == "result" else self.ending.outcome.partition("\n")[0]


def replay_of(ending: Ending, imposed: Imposing) -> Replay:
    """Return a replay in an order that has ended."""
    if imposed.redactor is None:
        return Replay(ending, has_opened=False)
    text, plain = imposed.redactor.text(ending.outcome), imposed.redactor.value(ending.value)
    made = json.dumps([text, plain, imposed.redactor.text(ending.missed)], sort_keys=True)
    ids: dict[str, str] = {}  # are numbers, as the order decides which task gets which of them
    outcome, value, missed = json.loads(_ID.sub(lambda one: ids.setdefault(one[0], f"id {len(ids) + 1}"), made))
    redacted, choices = Ending(outcome, ending.failed, value, missed), imposed.choices
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


ORDERS = 200  # orders that are tried by default
_SHRINKING = 40  # replays that make an order smaller, at most


@dataclass(slots=True)
class _Found:
    """A sort of change, and the smallest order for it so far."""

    tried: Tried
    replay: Replay
    told: str
    times: int = 0


_Script = Generator[Variation, Run | Ending, Returned]
"""A part of an experiment, which is also driven for programs of which only the ending is known."""


class Exploring:
    """One exploration."""

    def __init__(
        self,
        name: str,
        cassette: str,
        plain: Variation,
        rows: Sequence[IndexRow],
        again: Callable[[str], str],
        *,
        holds_threads: bool = True,
    ) -> None:
        self._name, self._cassette, self._plain, self._again = name, cassette, plain, again
        self._holds_threads = holds_threads
        self._base = Replay(Ending("", False, None))
        self._rows: dict[int, IndexRow] = {}
        self._branches: dict[int, Hashable] = {}  # the branch of each call, to which priorities belong
        self._know(rows)
        self._overlapping: set[int] = set()

    def _replay(self, order: Order = (), pick: Pick | None = None, *, is_recorded: bool = False) -> _Script[Replay]:
        imposed = Imposing(order, pick or recorded_first, holds_threads=self._holds_threads, is_recorded=is_recorded)
        ended = yield replace(self._plain, order=imposed)
        replay = replay_of(ending_of(ended) if isinstance(ended, Run) else ended, imposed)
        self._know(replay.rows)
        for point in replay.points:
            if len(point.waiting) > 1:
                self._overlapping.update(point.waiting)
        return replay

    def _know(self, rows: Sequence[IndexRow]) -> None:
        self._rows |= {row.number: row for row in rows}
        self._branches |= {row.number: row.address.rpartition("/")[0] or row.number for row in rows}

    def _begin(self) -> _Script[str]:
        """Replay in the recorded order, and return why that can't be compared with; empty if it can."""
        recorded = yield from self._replay(is_recorded=True)
        self._base = yield from self._replay()
        if not self._base.has_opened:
            raise ConfigurationError(
                f"orders: {self._name} opened no cassette to replay\n  name the one to open around it"
            )
        if not self._base.is_held or (self._base.in_threads and not self._overlapping):
            raise ConfigurationError(
                f"{self._name}: its calls overlap in threads, whose order cannot be chosen\n"
                "  a thread waits for another one outside of Python, or was begun before the session: calls are\n"
                "  explored that wait in an event loop, in a ThreadPoolExecutor, or in a threading.Thread begun inside"
            )
        return self._unstable(recorded, (yield from self._replay()))

    def search(self, orders: int, seed: int) -> _Script[Exploration]:
        """Replay in many orders; an interruption by the keyboard ends it, and the result so far is returned."""
        if unstable := (yield from self._begin()):
            return self._result([], 0, seed, unstable=unstable)
        search, found = Search(orders, seed, self._branches), dict[tuple[What, str], _Found]()
        findings: list[Finding] = []
        tried, is_whole = 0, True
        try:
            while (asked := search.next()) is not None:
                replay = yield from self._replay(*asked)
                if (each := search.note(replay.points)) is not None:
                    tried += 1
                    self._note(each, replay, found)
            for kind, one in found.items():
                findings.append((yield from self._finding(kind, one)))
        except KeyboardInterrupt:
            is_whole = False
            rest = list(found.values())[len(findings) :]
            findings += [self._shown(one.replay, one.told, one.times, one.tried.order) for one in rest]
        return self._result(findings, tried, seed, is_exhaustive=search.is_exhaustive, is_whole=is_whole)

    def in_order(self, order: Order) -> _Script[Exploration]:
        """Replay in the recorded order and in another one, and compare."""
        if unstable := (yield from self._begin()):
            return self._result([], 0, SEED, unstable=unstable)
        replay = yield from self._replay(order)
        told, text = change_of(self._base.ending, replay.ending), ",".join(map(str, order))
        found = [self._shown(replay, told, 1, order)] if told else []
        return self._result(found, 1, SEED, order=text, unreachable=replay.unreachable)

    def _note(self, each: Tried, replay: Replay, found: dict[tuple[What, str], _Found]) -> None:
        """Note the change of the outcome in an order, if there is one, and the smallest order of its sort."""
        told = change_of(self._base.ending, replay.ending)
        if not told:
            return
        known = found.setdefault(replay.kind, _Found(each, replay, told))
        known.times += 1
        if (each.overtaken, len(each.order)) < (known.tried.overtaken, len(known.tried.order)):
            known.tried, known.replay, known.told = each, replay, told

    def _unstable(self, recorded: Replay, second: Replay) -> str:
        """Return why the outcome in the recorded order is none to compare with; empty if it is one.

        Threads are recorded with all that they did to each other, and held from call to call: the recorded run itself
        is compared with, as there may be no order of calls in which all of that is the same.
        """
        first = self._base
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

    def _finding(self, kind: tuple[What, str], found: _Found) -> _Script[Finding]:
        points = found.replay.points
        script = smaller(found.tried.order, points, _SHRINKING)
        fails: bool | None = None
        try:
            while True:
                again = yield from self._replay(script.send(fails) if fails is not None else next(script))
                fails = self._is_alike(again, kind)
        except StopIteration as ended:
            order = ended.value or tuple(point.chosen for point in points)
        last = yield from self._replay(order)
        if not self._is_alike(last, kind):  # it does so by chance
            return self._shown(found.replay, found.told, found.times, found.tried.order)
        return self._shown(last, change_of(self._base.ending, last.ending), found.times, order)

    def _is_alike(self, replay: Replay, kind: tuple[What, str]) -> bool:
        return bool(change_of(self._base.ending, replay.ending)) and replay.kind == kind

    def _shown(self, replay: Replay, told: str, times: int, order: Order) -> Finding:
        text = ",".join(map(str, order))
        return Finding(replay.what, told, times, text, overtaken(replay.points), self._again(text))

    def _result(self, findings: list[Finding], orders: int, seed: int, **facts: Any) -> Exploration:
        return Exploration(
            self._name,
            self._cassette,
            seed,
            orders,
            facts.pop("is_exhaustive", False),
            [Call.of(self._rows[number]) for number in sorted(self._overlapping)],
            sorted(findings, key=lambda finding: (finding.overtaken, len(finding.order))),
            **facts,
        )


@takes_tests
def orders(
    target: Callable[[], Any] | str | Program,
    cassette: str | Path | None = None,
    *,
    runs: int = ORDERS,
    seed: int = SEED,
    order: str | Sequence[int | str] | None = None,
    on_run: Callable[[], object] | None = None,
    **options: Any,
) -> Exploration:
    """Replay a program with its recorded calls answered in other orders, and report which of them change the outcome.

    Wherever several replayed calls wait in an event loop or in threads, any of them may be answered next. If there are
    at most `runs` orders, all are tried; else those nearest to the recorded one, and others by chance.

    A change of the outcome is a call that was not recorded, another exception or another result; the smallest order
    that makes it is reported with a command that replays it. The network is closed, and no call is executed. An
    interruption by the keyboard ends it, and the result so far is returned.

    Args:
        target: The program: a function without arguments, or its name as `module:function` or
            `path/to/file.py:function`; a coroutine function is run to its end.
        cassette: The cassette, as `use_cassette` takes it; by default the program's own.
        runs: The most orders to try, at least 1.
        seed: The seed of the orders that are drawn at random.
        order: Only this order, as a finding names it.
        on_run: Called after each run.
        options: More options of `use_cassette`.

    Raises:
        ConfigurationError: If an argument is not valid, or no call of the program can be reordered.
        SessionStateError: If it is called while a session is open, or in an event loop.
        CassetteError: If the cassette cannot be read.
    """
    refuse_below_one(runs=runs)
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        raise SessionStateError(
            "orders() was called in an event loop, and it runs its own loops\n"
            "  call it outside, or in a thread: await asyncio.to_thread(orders, ...)"
        )
    program, path = recorded(target, cassette, options)
    rows, shown, name = open_cassette(path).entries, str(shown_path(path)), _name(program)
    is_test = program.function is None
    by_command = f"agenttape lab orders {shlex.quote(name)} --cassette {shlex.quote(shown)} --order "
    by_hand = f'use_cassette("{shown}", vary=Variation(order="{{}}"))'

    def again(text: str) -> str:
        if is_test:  # which may have replayed several cassettes
            return f"{shlex.join(['pytest', name])} --cassette-order={getattr(program, 'order_of', '')}{text}"
        if is_command(name):
            return f"agenttape lab orders --cassette {shlex.quote(shown)} --order {text} {name}"
        return f"{by_command}{text}" if ":" in name else by_hand.format(text)

    exploring = Exploring(name, shown, Variation(path), rows, again)
    script = exploring.search(runs, seed) if order is None else exploring.in_order(parsed_order(order, rows))
    return drive(program, script, on_run)


def _name(program: Program) -> str:
    """Return the name by which a command finds a program; one without a module has a name without a colon."""
    if program.function is None:
        return program.name
    if given := getattr(program, "given", ""):
        return str(given)
    try:
        found = target_of(program.function)
    except ConfigurationError:  # it is defined inside a function
        return program.name
    return f"{found.module or shown_path(Path(found.file))}:{found.qualname}"

"""The recorded answers that have changed a call, each tested by replaying with that answer changed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from agenttape_core.errors import ConfigurationError, counted, shown_path
from agenttape_core.experiments.engine import Experiment, drive, independent
from agenttape_core.experiments.program import Call, Program, Run
from agenttape_core.experiments.result import Result, Summary
from agenttape_core.experiments.steady import steady
from agenttape_core.experiments.strategies.outcome_trees import Change, holds, longer, perturbed, replacing, turned
from agenttape_core.experiments.targets import opened, recorded, takes_tests
from agenttape_core.interventions import GivenOutcome
from agenttape_core.lifecycle.variation import Variation
from agenttape_core.schema import IndexRow, Interaction
from agenttape_core.storage import Cassette
from agenttape_core.storage.names import stem_of
from agenttape_core.tools.reading.provider_calls import MODELS
from agenttape_core.tools.reporting import Finding

RESULT = 0
"""The number for the program's result or exception, which no call has."""

Way = Literal["data", "route"]
"""The way in which an answer moves a request: it is in it, or the program takes another way and makes no such call."""


@dataclass(frozen=True, slots=True)
class Edge:
    """An answer that moves a request: shown by a replay in which it was another one.

    Args:
        source: The number of the call that answered.
        target: The number of the call whose request changes; `RESULT` for the program's result.
        way: The way in which it moves.
        at: The places of the request that were others, such as `messages[2].content`.
    """

    source: int
    target: int
    way: Way
    at: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"from": self.source, "to": self.target, "way": self.way, "at": list(self.at)}


@dataclass(frozen=True, slots=True)
class Flow:
    """The edges between the calls of a run.

    Args:
        calls: The calls, by number.
        edges: The edges, by source and target.
        fixed: The numbers of calls whose answers can't be changed.
        is_whole: Whether each answer was tried, and it was not interrupted.
    """

    calls: Mapping[int, IndexRow]
    edges: Sequence[Edge]
    fixed: Sequence[int] = field(default=())
    is_whole: bool = True

    def into(self, target: int) -> list[Edge]:
        """Return the edges into a call, data edges first."""
        return sorted((edge for edge in self.edges if edge.target == target), key=lambda edge: (edge.way, edge.source))

    def behind(self, target: int) -> list[Edge]:
        """Return the edges on all paths that lead into a call, nearest first; each once."""
        found: dict[tuple[int, int], Edge] = {}
        waiting = [target]
        while waiting:
            for edge in self.into(waiting.pop(0)):
                key = (edge.source, edge.target)
                if key not in found:
                    found[key] = edge
                    if edge.source not in waiting and edge.source != target:
                        waiting.append(edge.source)
        return list(found.values())

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "calls": [asdict(Call.of(row)) for row in self.calls.values()],
            "edges": [edge.to_dict() for edge in self.edges],
            "fixed": list(self.fixed),
            "is_whole": self.is_whole,
        }


_PLACES = 3
_ALONE = "no recorded answer moves its request: that follows from the program and its input alone"
_ITSELF = "no other recorded answer has brought the text to its request: it comes from this call itself"
_MODEL = "that a model's answer follows from its request is not tested here: it is likely, and not shown"


@dataclass(frozen=True, slots=True)
class Why(Result):
    """The answers that have changed a call.

    Args:
        cassette: The cassette.
        program: The name of the program.
        call: The call in question.
        text: The text in question, if one was given: then only its occurrences were changed.
        flow: All edges between calls that were found.
        replays: How often the program was replayed.
    """

    cassette: Path
    program: str
    call: Interaction
    text: str | None
    flow: Flow
    replays: int

    experiment = "why"
    ok = True  # links aren't defects

    @property
    def is_whole(self) -> bool:
        """True if each answer was tried."""
        return self.flow.is_whole

    @property
    def links(self) -> list[Edge]:
        """The edges on all paths that lead into the call, nearest first."""
        return self.flow.behind(self.call.number)

    @property
    def sources(self) -> list[int]:
        """The numbers of the calls from which all of it comes: into those, no recorded answer leads."""
        into = {edge.target for edge in self.flow.edges}
        return sorted({edge.source for edge in self.links} - into)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "cassette": shown_path(self.cassette),
            "program": self.program,
            "call": asdict(Call.of(self.call)),
            "text": self.text,
            "links": [edge.to_dict() for edge in self.links],
            "sources": self.sources,
            "flow": self.flow.to_dict(),
            "replays": self.replays,
        }

    def summary(self) -> Summary:
        """Return the call in question, and the calls whose answers lead into it, as a tree."""
        cassette, asked = shown_path(self.cassette), f", and the text {self.text!r}" if self.text is not None else ""
        table = [*self._tree(self.call.number, "  ", {self.call.number})]
        found = [Finding(line.strip(), level="warning") for line in table]
        if not table:
            table.append(f"  {_ALONE if self.text is None else _ITSELF}")
        elif self.call.kind in MODELS:
            table.append(f"  {_MODEL}")
        table += [] if self.flow.is_whole else ["  interrupted: not each recorded answer was tried"]
        return Summary(self.program, cassette, f"{self._named(self.call.number)} of {cassette}{asked}", table, found)

    def _tree(self, number: int, indent: str, above: set[int]) -> Iterator[str]:
        """Yield the lines of the calls whose answers lead into a call, each with those that lead into it."""
        for edge in self.flow.into(number):
            if edge.source in above:
                continue
            at = ", ".join(edge.at[:_PLACES]) + (", …" if len(edge.at) > _PLACES else "")
            how = f"in {at}" if edge.way == "data" else "through a route: with another answer the call is not made"
            yield f"{indent}← {self._named(edge.source)}: {how}"
            above.add(edge.source)
            yield from self._tree(edge.source, f"{indent}  ", above)

    def _named(self, number: int) -> str:
        if number == RESULT:
            return "the result"
        row = self.flow.calls[number]
        return f"{number} {row.kind} {row.name} at {row.address}"


MAX_REPLAYS = 500  # the replays that a question may take, unless more are allowed
_CHANGES: tuple[Change, ...] = (turned, longer)
"""Each answer is changed in both ways: a program may look only at the form of a value, or only at its content."""
_STEADY = 2
_SHOWN = 5


@takes_tests
def why(
    target: Callable[[], Any] | str | Program,
    cassette: str | Path | None = None,
    *,
    call: int | None = None,
    text: str | None = None,
    runs: int = MAX_REPLAYS,
    jobs: int = 1,
    on_run: Callable[[], object] | None = None,
    **options: Any,
) -> Why:
    """Find which recorded answers have changed a call, each link tested and not guessed.

    Each recorded answer is changed once, and the program replayed: a later request that is another one then depends on
    that answer. That is exact for code, reducers, routing and prompts, as they really run. What a model has made of its
    request is not tested by this: its answers are the recorded ones. Nothing is executed.

    Args:
        target: The program: a function without arguments, or its name.
        cassette: The cassette, as `use_cassette` takes it; by default the program's own.
        call: The number of the call in question; by default the last one whose answer holds the text, or the last
            answer of a model.
        text: A text in question: only its occurrences in the recorded answers are changed.
        runs: How often the program may be replayed.
        jobs: How many replays run at the same time, if the program is a function.
        on_run: Called after each run.
        options: Options of `use_cassette`.

    Raises:
        CassetteError: If the cassette cannot be read.
        ConfigurationError: If the call or the text doesn't exist, it would take too many replays, or an
            argument is not valid.
        VerificationError: If the program is not the same in two replays.
    """
    program, path = recorded(target, cassette, options)
    calls = opened(path)
    asked = calls.interaction(_target(calls, call, text))
    flow, replays = drive(program, _traced(calls, path, program, text, runs), on_run, jobs)
    return Why(path, program.name, asked, text, flow, replays)


def _traced(calls: Cassette, path: Path, program: Program, text: str | None, runs: int) -> Experiment[tuple[Flow, int]]:
    """Yield replays in each of which one recorded answer is another one; return the flow, and their number."""
    changes = (replacing(text),) if text is not None else _CHANGES
    tries = {
        row.number: [one for each in changes if (one := perturbed(calls.outcome(row.number), each)) is not None]
        for row in calls.entries
    }
    total = _STEADY + sum(map(len, tries.values()))
    if total > runs:
        raise ConfigurationError(
            f"{shown_path(path)} holds {counted(len(tries), 'call')}: that takes {total} replays, and {runs} "
            "are allowed\n  allow more: runs=..., --runs, or name a text, so that only answers that hold it are changed"
        )
    with tempfile.TemporaryDirectory(prefix="agenttape-") as folder:
        _, before = yield from steady(program, Variation(path))
        tracer = _Tracer(calls, before)
        answered = {call_record.number for call_record in before.session.report.replayed}
        replayed = [  # else its code was stepped into, or it is inside of another call
            (number, other) for number, others in tries.items() if number in answered for other in others
        ]
        replays = independent(  # one that writes a file waits for no order of threads that may not come
            Variation(
                path,
                changes={number: GivenOutcome(given=other)},
                write_to=Path(folder) / f"{stem_of(path)}-{at}.yaml",
                keeps=False,
                on_new_call="address",
            )
            for at, (number, other) in enumerate(replayed)
        )
        done, is_whole = _STEADY, True
        try:
            for (number, _), variation in zip(replayed, replays, strict=True):
                tracer.note(number, (yield variation))
                done += 1
        except KeyboardInterrupt:
            is_whole = False
    fixed = [number for number, others in tries.items() if not others]
    return Flow({row.number: row for row in calls.entries}, tracer.edges(), fixed, is_whole), done


class _Tracer:
    """Notes the changed requests in runs with one answer changed."""

    def __init__(self, cassette: Cassette, before: Run) -> None:
        self._cassette = cassette
        self._before = before
        self._made = {number for number, _, _ in before.calls}
        self._found: dict[tuple[int, int], Edge] = {}

    def note(self, number: int, ending: Run) -> None:
        """Note the changed requests in a run in which a call had another answer."""
        report = ending.session.report
        made = {one for one, _, _ in ending.calls}
        for found in report.divergences:
            if found.what == "changed" and found.number is not None:
                self._note(Edge(number, found.number, "data", tuple(path for path, _, _ in found.differences)))
        for target in sorted(self._made - made - self._inside(number)):
            self._note(Edge(number, target, "route"))
        if _ended(ending) != _ended(self._before):
            way: Way = "route" if ending.left is not None or self._made != made else "data"
            self._note(Edge(number, RESULT, way))

    def _inside(self, number: int) -> set[int]:
        """Return the number of a call, and of the calls inside it, which aren't made when it's replayed."""
        around = {number}
        for row in self._cassette.entries:
            if row.parent in around:
                around.add(row.number)
        return around

    def _note(self, edge: Edge) -> None:
        if edge.target == edge.source:
            return
        known = self._found.get((edge.source, edge.target))
        if known is None or (known.way == "route" and edge.way == "data"):
            self._found[edge.source, edge.target] = edge

    def edges(self) -> list[Edge]:
        """Return the links found, in the order of the calls."""
        return [self._found[key] for key in sorted(self._found)]


def _ended(ending: Run) -> object:
    error = ending.error
    return (type(error), str(error)) if error is not None else repr(ending.result)


def _target(cassette: Cassette, call: int | None, text: str | None) -> int:
    """Return the number of the call in question."""
    rows: Sequence[IndexRow] = cassette.entries
    shown = shown_path(cassette.path)
    numbers = [row.number for row in rows]
    if text is not None and not text:
        raise ConfigurationError("text='': expected a text that's in an answer")
    held = [row.number for row in rows if text is not None and holds(cassette.outcome(row.number), text)]
    if text is not None and not held:
        raise ConfigurationError(
            f"no recorded answer of {shown} holds {text!r}: the program has it from its own code, or from its input"
        )
    if call is not None:
        if call not in numbers:
            some = ", ".join(f"{row.number} {row.kind} {row.name}" for row in rows[:_SHOWN])
            raise ConfigurationError(f"{shown} holds {counted(len(rows), 'call')}, and none is number {call}: {some}")
        return call
    models = [row.number for row in rows if row.kind in MODELS]
    return held[-1] if held else (models or numbers)[-1]

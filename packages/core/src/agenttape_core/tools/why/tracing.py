"""`why` and `flow_of`: change each recorded answer once, replay, and see which requests move."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agenttape_core.errors import ConfigurationError, counted, shown_path
from agenttape_core.lifecycle.project import this_project
from agenttape_core.schema import IndexRow, Outcome
from agenttape_core.storage import Cassette, open_cassette
from agenttape_core.storage.names import stem_of
from agenttape_core.tools.programs import Ending, Opening, Program, program_of, steady
from agenttape_core.tools.reading.summary import MODELS
from agenttape_core.tools.why.account import Why
from agenttape_core.tools.why.flow import RESULT, Edge, Flow
from agenttape_core.tools.why.perturbing import Change, holds, longer, perturbed, replacing, turned

MAX_REPLAYS = 500
"""The replays that a question may take, unless more are allowed."""
_CHANGES: tuple[Change, ...] = (turned, longer)
"""Each answer is changed in both ways: a program may look only at the form of a value, or only at what it says."""
_STEADY = 2
_SHOWN = 5

OnReplay = Callable[[int, int], object]
"""Called after each replay, with the number of replays so far, and of all that there will be."""


def _nothing(*_: int) -> None:
    pass


def why(
    cassette: str | Path,
    function: Callable[[], Any] | str | Program,
    *,
    call: int | None = None,
    text: str | None = None,
    max_replays: int = MAX_REPLAYS,
    on_replay: OnReplay = _nothing,
    **options: Any,
) -> Why:
    """Find which recorded answers have moved a call, each link tested and not guessed.

    Each recorded answer is changed once, and the program replayed: a later request that is another one then depends on
    that answer. That is exact for code, reducers, routing and prompts, as they really run. What a model has made of its
    request is not tested by this: its answers are the recorded ones. Nothing is executed.

    Args:
        cassette: The cassette, as `use_cassette` takes it.
        function: The program: a function without arguments, or its name.
        call: The number of the call in question; by default the last one whose answer holds the text, or the last
            answer of a model.
        text: A text in question: only its occurrences in the recorded answers are changed.
        max_replays: How often the program may be replayed.
        on_replay: Called after each replay.
        options: Options of `use_cassette`.

    Raises:
        CassetteError: If the cassette cannot be read.
        ConfigurationError: If there is no such call, the text is nowhere, it would take too many replays, or an
            argument is not valid.
        VerificationError: If the program is not the same in two replays.
    """
    path = _local(cassette, options)
    opened = open_cassette(path)
    target = opened.interaction(_target(opened, call, text))
    program = program_of(function, **options) if callable(function) or isinstance(function, str) else function
    flow, replays = _traced(path, program, text, max_replays, on_replay)
    return Why(path, program.name, target, text, flow, replays)


def flow_of(
    cassette: str | Path,
    function: Callable[[], Any] | str | Program,
    *,
    text: str | None = None,
    max_replays: int = MAX_REPLAYS,
    on_replay: OnReplay = _nothing,
    **options: Any,
) -> Flow:
    """Return which recorded answers move which requests of a program. Takes and raises what `why` does."""
    path = _local(cassette, options)
    if text is not None:
        _target(open_cassette(path), None, text)
    program = program_of(function, **options) if callable(function) or isinstance(function, str) else function
    return _traced(path, program, text, max_replays, on_replay)[0]


def _traced(path: Path, program: Program, text: str | None, max_replays: int, on_replay: OnReplay) -> tuple[Flow, int]:
    opened = open_cassette(path)
    changes = (replacing(text),) if text is not None else _CHANGES
    tries = {row.number: _others(opened.outcome(row.number), changes) for row in opened.entries}
    total = _STEADY + sum(map(len, tries.values()))
    if total > max_replays:
        raise ConfigurationError(
            f"{shown_path(path)} holds {counted(len(tries), 'call')}: that takes {total} replays, and {max_replays} "
            "are allowed\n  allow more: max_replays=..., or name a text, so that only answers that hold it are changed"
        )
    with tempfile.TemporaryDirectory(prefix="agenttape-") as folder:
        _, before = steady(program, Opening(path))
        tracer = _Tracer(program, path, Path(folder) / f"{stem_of(path)}.yaml", before)
        done = _STEADY
        for number, others in tries.items():
            for other in others:
                tracer.change(number, other)
                done += 1
                on_replay(done, total)
    fixed = [number for number, others in tries.items() if not others]
    return Flow({row.number: row for row in opened.entries}, tracer.edges(), fixed), done


class _Tracer:
    """Replays a program with one answer changed, and notes what has moved.

    Args:
        program: The program.
        cassette: Its cassette.
        scrap: A file to write to: a replay with one waits for no order of threads that may not come.
        before: The end of a replay in which nothing was changed.
    """

    def __init__(self, program: Program, cassette: Path, scrap: Path, before: Ending) -> None:
        self._program = program
        self._cassette = cassette
        self._scrap = scrap
        self._before = before
        self._made = {number for number, _, _ in before.calls}
        self._served = {crossed.number for crossed in before.session.report.served}
        self._found: dict[tuple[int, int], Edge] = {}

    def change(self, number: int, other: Outcome) -> None:
        """Replay with another answer of a call."""
        if number not in self._served:
            return  # its code was run through, or it is inside of another call
        ending = self._program.run(Opening(self._cassette, {}, {number: other}, self._scrap, keeps=False))
        report = ending.session.report
        made = {one for one, _, _ in ending.calls}
        for departure in report.departed:
            if departure.what == "moved" and departure.number is not None:
                self._note(Edge(number, departure.number, "data", tuple(path for path, _, _ in departure.differences)))
        for target in sorted(self._made - made - self._inside(number)):
            self._note(Edge(number, target, "route"))
        if self._ended(ending) != self._ended(self._before):
            way = "route" if ending.left is not None or self._made != made else "data"
            self._note(Edge(number, RESULT, way))  # type: ignore[arg-type]

    def _inside(self, number: int) -> set[int]:
        """Return the number of a call, and those of the calls inside it, which are not made when it is served."""
        around = {number}
        for row in open_cassette(self._cassette).entries:
            if row.parent in around:
                around.add(row.number)
        return around

    def _note(self, edge: Edge) -> None:
        if edge.target == edge.source:
            return
        known = self._found.get((edge.source, edge.target))
        if known is None or (known.way == "route" and edge.way == "data"):
            self._found[edge.source, edge.target] = edge

    def _ended(self, ending: Ending) -> object:
        error = ending.error
        return (type(error), str(error)) if error is not None else repr(ending.result)

    def edges(self) -> list[Edge]:
        """Return what was found, in the order of the calls."""
        return [self._found[key] for key in sorted(self._found)]


def _others(outcome: Outcome, changes: Sequence[Change]) -> list[Outcome]:
    return [other for change in changes if (other := perturbed(outcome, change)) is not None]


def _target(cassette: Cassette, call: int | None, text: str | None) -> int:
    """Return the number of the call in question."""
    rows: Sequence[IndexRow] = cassette.entries
    shown = shown_path(cassette.path)
    if not rows:
        raise ConfigurationError(f"{shown} holds no call, so there is nothing in it to ask about")
    numbers = [row.number for row in rows]
    if text is not None and not text:
        raise ConfigurationError("text='': expected a text that stands in an answer")
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


def _local(cassette: str | Path, options: Mapping[str, Any]) -> Path:
    project = this_project()
    path = project.recording(cassette, options.get("cassette_dir") or project.settings().cassette_dir)
    if not isinstance(path, Path):
        raise ConfigurationError(f"{path} is no local file\n  download it")
    return path

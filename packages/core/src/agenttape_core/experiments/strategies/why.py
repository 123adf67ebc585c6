"""The recorded answers that have moved a call, each tested by replaying with that answer changed."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from agenttape_core.errors import ConfigurationError, counted, shown_path
from agenttape_core.experiments.engine import Experiment, drive, independent
from agenttape_core.experiments.program import Program, Run, recorded, takes_tests
from agenttape_core.experiments.steady import steady
from agenttape_core.experiments.strategies.outcome_trees import Tree, in_text, outcome_with, tree_of
from agenttape_core.interventions import GivenOutcome
from agenttape_core.lifecycle.variation import Variation
from agenttape_core.schema import IndexRow, Interaction, Outcome, Plain
from agenttape_core.schema.plain import Path as Place
from agenttape_core.schema.plain import leaves, replaced_in_chunk
from agenttape_core.storage import Cassette, open_cassette
from agenttape_core.storage.names import stem_of
from agenttape_core.tools.reading.summary import MODELS
from agenttape_core.tools.reporting.findings import Checked, Finding, judged_by

# -- Other outcomes of the same form: each value in them is another one, so that whatever follows from one moves.


_FORM = frozenset({"type", "role", "status", "id", "name", "tool_call_id", "index", "call_id"})
"""Keys of recorded objects that name their type and owner: with other values, the program would take another path."""

Change = Callable[[Plain], Plain]
"""Returns another text or number."""


def turned(leaf: Plain) -> Plain:
    """Return a value of the same form: letters and digits are the next ones, a number is greater by one."""
    if isinstance(leaf, str):
        return "".join(map(_next, leaf))
    return leaf + 1 if isinstance(leaf, int | float) and not isinstance(leaf, bool) else leaf


def longer(leaf: Plain) -> Plain:
    """Return a value with more in it: a text with one word more, a number that is far greater."""
    if isinstance(leaf, str):
        return f"{leaf} zzz"
    return leaf + 1000 if isinstance(leaf, int | float) and not isinstance(leaf, bool) else leaf


def replacing(text: str) -> Change:
    """Return a change of only the occurrences of a text."""
    other = turned(text)

    def changed(leaf: Plain) -> Plain:
        if isinstance(leaf, str):
            return leaf.replace(text, other)
        is_number = isinstance(leaf, int | float) and not isinstance(leaf, bool)
        return turned(leaf) if is_number and str(leaf) == text else leaf

    return changed


def _next(char: str) -> str:
    if char in "9zZ":
        return {"9": "0", "z": "a", "Z": "A"}[char]
    return chr(ord(char) + 1) if char.isascii() and char.isalnum() else char


def perturbed(outcome: Outcome, change: Change) -> Outcome | None:
    """Return another outcome of the same form; `None` if no part of it could differ.

    Args:
        outcome: The recorded one.
        change: Changes a text or a number.
    """
    tree = tree_of(outcome)
    other: Tree = {
        name: _changed_chunks(part, change) if name == "chunks" else _changed(part, change, in_object=False)
        for name, part in tree.items()
    }
    return outcome_with(outcome, other) if other != tree else None


def _changed_chunks(chunks: list[Plain], change: Change) -> list[Plain]:
    """Return the chunks of a stream with its texts changed as if they were whole: they are cut anywhere."""
    others = {
        path: _in_pieces(_changed_text("".join(pieces), change), pieces)
        for path, pieces in _pieces(chunks).items()
        if not _is_form(path)
    }

    def on_text(path: Place, text: str) -> str:
        return others[path].pop(0) if path in others else text

    texts = [replaced_in_chunk(chunk, on_text) for chunk in chunks]
    return [
        _changed(chunk, lambda leaf: leaf if isinstance(leaf, str) else change(leaf), in_object=False)
        for chunk in texts
    ]


def _pieces(chunks: Sequence[Plain]) -> dict[Place, list[str]]:
    """Return the pieces of each text of a stream, by its path in the chunks."""
    found: dict[Place, list[str]] = {}

    def on_text(path: Place, text: str) -> str:
        if not path or path[-1] is not None:  # else it is a key
            found.setdefault(path, []).append(text)
        return text

    for chunk in chunks:
        replaced_in_chunk(chunk, on_text)
    return found


def _in_pieces(text: str, pieces: Sequence[str]) -> list[str]:
    """Cut a text like another one; the surplus goes with the last piece that isn't empty."""
    cut, start = [], 0
    for piece in pieces:
        cut.append(text[start : start + len(piece)])
        start += len(piece)
    if start < len(text):
        last = max((place for place, piece in enumerate(pieces) if piece), default=0)
        cut[last] += text[start:]
    return cut


def _is_form(path: Place) -> bool:
    return bool(path) and path[-1] in _FORM and not _DATA.intersection(step for step in path if isinstance(step, str))


def _changed_text(text: str, change: Change) -> str:
    held = in_text(text)
    if held is None:
        return str(change(text))
    return json.dumps(_changed(held, change, in_object=False), ensure_ascii=False)


def _changed(plain: Plain, change: Change, *, in_object: bool) -> Plain:
    if isinstance(plain, list):
        return [_changed(item, change, in_object=in_object) for item in plain]
    if isinstance(plain, str):
        return _changed_text(plain, change)
    if not isinstance(plain, dict):
        return change(plain)
    is_object = in_object or any(key.startswith("$") for key in plain)
    return {
        key: item if is_object and key in _FORM else _changed(item, change, in_object=is_object and key not in _DATA)
        for key, item in plain.items()
    }


_DATA = frozenset({"args", "arguments", "metadata", "artifact", "input"})
"""Keys of recorded objects below which there is data of the program."""


def holds(outcome: Outcome, text: str) -> bool:
    """Return whether a text occurs in an outcome, as a part of a text or as a number."""
    for name, part in tree_of(outcome).items():
        whole = ["".join(pieces) for pieces in _pieces(part).values()] if name == "chunks" else []
        if any(text in leaf if isinstance(leaf, str) else str(leaf) == text for leaf in (*leaves(part), *whole)):
            return True
    return False


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
            "calls": [
                {"number": row.number, "kind": row.kind, "name": row.name, "address": row.address}
                for row in self.calls.values()
            ],
            "edges": [
                {"from": edge.source, "to": edge.target, "way": edge.way, "at": list(edge.at)} for edge in self.edges
            ],
            "fixed": list(self.fixed),
            "is_whole": self.is_whole,
        }


_PLACES = 3
_ALONE = "no recorded answer moves its request: that follows from the program and its input alone"
_ITSELF = "no other recorded answer has brought the text to its request: it comes from this call itself"
_MODEL = "that a model's answer follows from its request is not tested here: it is likely, and not shown"


@dataclass(frozen=True, slots=True)
class Why:
    """The answers that have moved a call.

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

    @property
    def ok(self) -> bool:
        """True, as links aren't defects."""
        return True

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
            "call": {"number": self.call.number, **_plain(self.call.kind, self.call.name, self.call.address)},
            "text": self.text,
            "links": [
                {"from": edge.source, "to": edge.target, "way": edge.way, "at": list(edge.at)} for edge in self.links
            ],
            "sources": self.sources,
            "flow": self.flow.to_dict(),
            "replays": self.replays,
        }

    def to_checked(self) -> list[Checked]:
        """Return it for the reporters of checks: a warning for each call that has moved the one in question."""
        found = [Finding(line.strip(), level="warning") for line in str(self).splitlines() if "←" in line]
        return [judged_by("why", self.program, shown_path(self.cassette), found)]

    def __str__(self) -> str:
        asked = f", and the text {self.text!r}" if self.text is not None else ""
        lines = [f"{self._named(self.call.number)} of {shown_path(self.cassette)}{asked}"]
        lines += self._tree(self.call.number, "  ", {self.call.number})
        if len(lines) == 1:
            lines.append(f"  {_ALONE if self.text is None else _ITSELF}")
        elif self.call.kind in MODELS:
            lines.append(f"  {_MODEL}")
        if not self.flow.is_whole:
            lines.append("  interrupted: not each recorded answer was tried")
        return "\n".join(lines)

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


def _plain(kind: str, name: str, address: str) -> dict[str, Any]:
    return {"kind": kind, "name": name, "address": address}


MAX_REPLAYS = 500
"""The replays that a question may take, unless more are allowed."""
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
    """Find which recorded answers have moved a call, each link tested and not guessed.

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
    opened = open_cassette(path)
    asked = opened.interaction(_target(opened, call, text))
    flow, replays = drive(program, _traced(path, program, text, runs), on_run, jobs)
    return Why(path, program.name, asked, text, flow, replays)


def flow_of(
    target: Callable[[], Any] | str | Program,
    cassette: str | Path | None = None,
    *,
    text: str | None = None,
    runs: int = MAX_REPLAYS,
    jobs: int = 1,
    on_run: Callable[[], object] | None = None,
    **options: Any,
) -> Flow:
    """Return which recorded answers move which requests of a program. Takes and raises what `why` does."""
    program, path = recorded(target, cassette, options)
    if text is not None:
        _target(open_cassette(path), None, text)
    return drive(program, _traced(path, program, text, runs), on_run, jobs)[0]


def _traced(path: Path, program: Program, text: str | None, runs: int) -> Experiment[tuple[Flow, int]]:
    """Yield replays in each of which one recorded answer is another one; return the flow, and their number."""
    opened = open_cassette(path)
    changes = (replacing(text),) if text is not None else _CHANGES
    tries = {row.number: _others(opened.outcome(row.number), changes) for row in opened.entries}
    total = _STEADY + sum(map(len, tries.values()))
    if total > runs:
        raise ConfigurationError(
            f"{shown_path(path)} holds {counted(len(tries), 'call')}: that takes {total} replays, and {runs} "
            "are allowed\n  allow more: runs=..., --runs, or name a text, so that only answers that hold it are changed"
        )
    with tempfile.TemporaryDirectory(prefix="agenttape-") as folder:
        _, before = yield from steady(program, Variation(path))
        tracer = _Tracer(path, Path(folder), before)
        replayed = [  # else its code was stepped into, or it is inside of another call
            (number, other) for number, others in tries.items() if tracer.is_replayed(number) for other in others
        ]
        replays = independent(tracer.with_answer(at, *one) for at, one in enumerate(replayed))
        done, is_whole = _STEADY, True
        try:
            for (number, _), variation in zip(replayed, replays, strict=True):
                tracer.note(number, (yield variation))
                done += 1
        except KeyboardInterrupt:
            is_whole = False
    fixed = [number for number, others in tries.items() if not others]
    return Flow({row.number: row for row in opened.entries}, tracer.edges(), fixed, is_whole), done


class _Tracer:
    """Notes the changed requests in runs with one answer changed.

    Args:
        cassette: Its cassette.
        folder: A folder for files to write to: a replay with one waits for no order of threads that may not come.
        before: The end of an unchanged replay.
    """

    def __init__(self, cassette: Path, folder: Path, before: Run) -> None:
        self._cassette = cassette
        self._folder = folder
        self._before = before
        self._made = {number for number, _, _ in before.calls}
        self._replayed = {crossed.number for crossed in before.session.report.replayed}
        self._found: dict[tuple[int, int], Edge] = {}

    def is_replayed(self, number: int) -> bool:
        """Return whether a call was answered from its recording."""
        return number in self._replayed

    def with_answer(self, at: int, number: int, other: Outcome) -> Variation:
        """Return the replay, the one at a position among all, in which a call has another answer."""
        given, scrap = {number: GivenOutcome(given=other)}, self._folder / f"{stem_of(self._cassette)}-{at}.yaml"
        return Variation(self._cassette, {}, given, scrap, keeps=False, on_new_call="address")

    def note(self, number: int, ending: Run) -> None:
        """Note the changed requests in a run in which a call had another answer."""
        report = ending.session.report
        made = {one for one, _, _ in ending.calls}
        for found in report.divergences:
            if found.what == "changed" and found.number is not None:
                self._note(Edge(number, found.number, "data", tuple(path for path, _, _ in found.differences)))
        for target in sorted(self._made - made - self._inside(number)):
            self._note(Edge(number, target, "route"))
        if self._ended(ending) != self._ended(self._before):
            way = "route" if ending.left is not None or self._made != made else "data"
            self._note(Edge(number, RESULT, way))  # type: ignore[arg-type]

    def _inside(self, number: int) -> set[int]:
        """Return the number of a call, and of the calls inside it, which aren't made when it's replayed."""
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

    def _ended(self, ending: Run) -> object:
        error = ending.error
        return (type(error), str(error)) if error is not None else repr(ending.result)

    def edges(self) -> list[Edge]:
        """Return the links found, in the order of the calls."""
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

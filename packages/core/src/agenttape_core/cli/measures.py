"""The measures of `agenttape check`: which parts of a program recorded runs have used, and the scores of runs."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agenttape_core.checks.checking import Check, check_run
from agenttape_core.checks.judges import JUDGE
from agenttape_core.checks.run import Run
from agenttape_core.checks.sources import run_of_cassette
from agenttape_core.checks.words import checks_of, loaded
from agenttape_core.cli.cassettes import Found, reading
from agenttape_core.cli.output import print_table, print_text
from agenttape_core.errors import ConfigurationError, counted, shown_path
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import MODEL_KINDS, Interaction, Step
from agenttape_core.schema.drawings import EventType, drawing_of
from agenttape_core.storage import Cassette
from agenttape_core.storage.names import SCORES
from agenttape_core.tools.reading.messages import Answer, tool_definitions
from agenttape_core.tools.reading.prices import Prices
from agenttape_core.tools.reporting import Finding

# -- Coverage: what runs have exercised of what they could: tools, errors of tools, nodes, edges, events, interrupts.


START, END = "__start__", "__end__"  # LangGraph's names of where a graph begins and ends
_INTERRUPT = "Interrupt"
_SUPERSTEP = re.compile(r"@(\d+)(?:\[\d+\])?$")  # the superstep of a task, at the end of its address

Edge = tuple[str, str]


class _Task(NamedTuple):
    graph: str
    superstep: int
    name: str
    targets: list[str] | None
    has_ended: bool


@dataclass(slots=True)
class Coverage:
    """The parts of a program that runs have exercised, counted."""

    offered: Counter[str] = field(default_factory=Counter)  # how often each tool was offered to a model
    # How often each tool was called, or requested if its calls aren't recorded.
    called: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)  # how often a call of each tool failed
    nodes: Counter[str] = field(default_factory=Counter)  # how often each node ran
    edges: Counter[Edge] = field(default_factory=Counter)  # how often each edge was taken
    interrupts: Counter[str] = field(default_factory=Counter)  # how often each node waited for an answer
    graph_nodes: tuple[str, ...] = ()  # the nodes of the graph that the runs are held against
    graph_edges: tuple[Edge, ...] = ()
    # How often an event of each type was seen, as far as recordings name events.
    events: Counter[str] = field(default_factory=Counter)
    names_events: bool = True  # whether all runs so far name their events
    graph_events: tuple[EventType, ...] = ()  # the types of events of a workflow that the runs are held against

    def add(self, cassette: Cassette) -> None:
        """Add the tools and nodes that a run has exercised. Raises `CassetteFormatError` if a record is malformed."""
        made, asked = Counter[str](), Counter[str]()
        tasks: list[_Task] = []
        has_ticks = False
        for record in cassette.records():
            if isinstance(record, Step):
                self._add_step(record, tasks)
                made[record.name] += record.kind == "tool"
                self.failed[record.name] += record.kind == "tool" and record.error is not None
            elif record.kind in MODEL_KINDS:
                self.offered.update({tool["name"] for tool in tool_definitions(record.request) if tool.get("name")})
                asked.update(call.name for call in Answer(record.outcome).tool_calls)
            elif record.kind == "tool":
                self._add_tool(record, made)
            has_ticks = has_ticks or (isinstance(record, Step) and _has_ticks(record))
        self.names_events = self.names_events and has_ticks
        self._add_edges(tasks)
        self.called.update({name: made[name] or asked[name] for name in made | asked})

    def hold_against(self, graph: Any) -> None:
        """Hold the runs against a graph.

        The graph has `get_graph()`, such as LangGraph's and LangChain's, or an installed integration can draw it, such
        as a workflow of LlamaIndex. Raises `ConfigurationError` if it is neither.
        """
        if not callable(getattr(graph, "get_graph", None)):
            drawing = drawing_of(graph)
            if drawing is None:
                raise ConfigurationError("it has no get_graph(), and no installed integration can draw it")
            self.graph_nodes, self.graph_edges = drawing.nodes, drawing.edges
            self.graph_events = drawing.events
            return
        drawn = graph.get_graph()
        self.graph_nodes = tuple(sorted(str(node) for node in drawn.nodes if node not in {START, END}))
        self.graph_edges = tuple(sorted({(str(edge.source), str(edge.target)) for edge in drawn.edges}))

    @property
    def never(self) -> dict[str, list[str]]:
        """The names of the parts that were never exercised, by their sort."""
        events = [each.name for each in self.graph_events if self._times(each) == 0]
        return {
            "tools": sorted(self.offered.keys() - +self.called),
            "errors": sorted(name for name in +self.called if not self.failed[name]),
            "nodes": [name for name in self.graph_nodes if not self.nodes[name]],
            "edges": [" → ".join(edge) for edge in self.graph_edges if not self.edges[edge]],
            **({"events": events} if self.graph_events else {}),
        }

    @property
    def unknown(self) -> list[str]:
        """The types of events of which the recordings do not tell whether there was one."""
        return [each.name for each in self.graph_events if self._times(each) is None]

    def _times(self, event: EventType) -> int | None:
        """Return how often an event of a type was seen; `None` if that is not known.

        A recording names events only if it has ticks, but a step that takes one type alone ran for each of these.
        """
        if self.events[event.name]:
            return self.events[event.name]
        involved = event.taken_by or event.made_by
        if self.names_events or not any(self.nodes[step] for step in involved):
            return 0
        alone = [
            step
            for step in event.taken_by
            if sum(step in other.taken_by for other in self.graph_events) == 1 and self.nodes[step]
        ]
        return max((self.nodes[step] for step in alone), default=None)

    @property
    def percent(self) -> float:
        """The share of tools, nodes, edges and events that were exercised, in percent; errors of tools do not count.

        Nor do events of which it is not known.
        """
        events = len(self.graph_events) - len(self.unknown)
        total = len(self.offered) + len(self.graph_nodes) + len(self.graph_edges) + events
        never = self.never
        missing = sum(len(never[sort]) for sort in ("tools", "nodes", "edges", "events") if sort in never)
        return round(100 * (total - missing) / total, 1) if total else 100.0

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        tools = sorted(self.offered.keys() | +self.called)
        edges = sorted(self.edges.keys() | set(self.graph_edges))
        return {
            "percent": self.percent,
            "tools": [
                {"name": name, "offered": self.offered[name], "called": self.called[name], "failed": self.failed[name]}
                for name in tools
            ],
            "nodes": _counts(self.nodes, self.graph_nodes),
            "edges": [{"from": edge[0], "to": edge[1], "count": self.edges[edge]} for edge in edges],
            **(
                {
                    "events": [{"name": each.name, "count": self._times(each)} for each in self.graph_events],
                    "unknown": {"events": self.unknown},
                }
                if self.graph_events
                else {}
            ),
            "interrupts": _counts(self.interrupts, ()),
            "never": self.never,
        }

    def _add_tool(self, item: Interaction, made: Counter[str]) -> None:
        made[item.name] += 1
        self.failed[item.name] += item.outcome.error is not None

    def _add_step(self, step: Step, tasks: list[_Task]) -> None:
        is_interrupt = step.error is not None and step.error.type.endswith(_INTERRUPT)
        if step.kind == "interrupt" or is_interrupt:
            self.interrupts[step.name] += 1
        self.events.update(_events_of(step))
        if step.kind != "node" or is_interrupt:
            return
        self.nodes[step.name] += 1
        place = _SUPERSTEP.search(step.address)
        if place is not None:
            route = step.data.get("route") if isinstance(step.data, dict) else None
            targets = [str(target) for target in route] if isinstance(route, list) else None
            graph = step.address.rpartition("/")[0]
            tasks.append(_Task(graph, int(place[1]), step.name, targets, has_ended=step.status == "ended"))

    def _add_edges(self, tasks: list[_Task]) -> None:
        """Add the edges that tasks took. A node without recorded edges waited for others, or was the end."""
        for task in tasks:
            if task.superstep == 1:
                self.edges[START, task.name] += 1
            later = {other.name for other in tasks if other.graph == task.graph and other.superstep > task.superstep}
            targets = task.targets
            if targets is None:
                targets = [target for name, target in self.graph_edges if name == task.name and target in later]
            if not targets and not later and task.has_ended:
                targets = [END]
            self.edges.update((task.name, target) for target in targets)


def _events_of(step: Step) -> Iterator[str]:
    """Yield the types of the events that a step names: a tick those that are new in it, a run its first and last."""
    for value in step.data["events"] if _has_ticks(step) else [step.input, step.output]:
        event = value.get("event") if isinstance(value, dict) else None
        if isinstance(event, str):
            yield event.rpartition(".")[2]


def _has_ticks(step: Step) -> bool:
    return isinstance(step.data, dict) and isinstance(step.data.get("events"), list)


def _counts(counts: Counter[str], known: Iterable[str]) -> list[dict[str, Any]]:
    return [{"name": name, "count": counts[name]} for name in sorted({*counts, *known})]


# -- Scores of recorded runs, in a file beside the cassette, which stays as it is.


_VERSION = 1
_REMEDY = "delete the file, and score again"


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of a run."""

    of: str  # a hash of the scored recording: another recording has another
    values: Mapping[str, float | bool] = field(default_factory=dict)  # the scores by their names

    def text(self) -> str:
        """Return the file: sorted, so that it is the same bytes for the same scores."""
        return json.dumps({"scores": _VERSION, "of": self.of, "values": self.values}, indent=2, sort_keys=True) + "\n"


def scores_path(run: Run) -> Path:
    """Return the file of the scores of a run. Raises `ConfigurationError` if it is of no local file."""
    if not run.path or "://" in run.path:
        raise ConfigurationError(f"{run.path or run.name} isn't a local file beside which scores could stand")
    path = Path(run.path)
    return path.with_name(f"{path.name.partition('.')[0]}{SCORES}")


def hash_of(run: Run) -> str:
    """Return a hash of what evaluators read of a run."""
    calls = [[call.kind, call.name, call.arguments, call.error, call.result] for call in run.happened]
    whole = json.dumps([run.prompt, run.answer, calls], sort_keys=True, default=str)
    return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def read_scores(run: Run) -> Scores | None:
    """Return the scores next to a run, if any. Raises `ConfigurationError` if the file is malformed."""
    path = scores_path(run)
    if not path.exists():
        return None
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"{shown_path(path)}: no scores: {error}\n  delete the file, and score again"
        ) from None
    values = data.get("values") if isinstance(data, dict) else None
    is_whole = isinstance(values, dict) and all(isinstance(each, bool | int | float) for each in values.values())
    if not is_whole or data.get("scores") != _VERSION or not isinstance(data.get("of"), str):
        raise ConfigurationError(
            f"{shown_path(path)}: no scores of version {_VERSION}\n  delete the file, and score again"
        )
    return Scores(data["of"], data["values"])


_SAID = {
    "tools": "tools offered and never called",
    "errors": "tools that never failed",
    "nodes": "nodes that never ran",
    "edges": "edges never taken",
    "events": "events that never came",
}


class Measure(NamedTuple):
    """A measure of recorded runs."""

    plain: Any  # the measure as plain data
    show: Callable[[], None]  # prints it
    failure: str  # why the check fails; empty if it doesn't


class _Scored(NamedTuple):
    run: str
    scores: Mapping[str, float | bool]
    is_stale: bool
    findings: tuple[Finding, ...]

    def to_dict(self) -> dict[str, Any]:
        findings = [each.to_dict() for each in self.findings]
        return {"run": self.run, "scores": dict(self.scores), "stale": self.is_stale, "findings": findings}


def covered(cassettes: Sequence[Found], graph: str | None, fail_under: float | None) -> Measure:
    """Return which tools, nodes and edges runs have used.

    `graph` is `module:graph`, and `fail_under` is in percent. Raises `ConfigurationError` if the graph isn't one.
    """
    found = Coverage()
    if graph is not None:
        target = loaded(graph, "--graph")
        try:
            found.hold_against(target)
        except ConfigurationError as error:
            raise ConfigurationError(f"--graph: {graph} isn't a graph: {error}") from None
    has_calls = False
    for each in reading(cassettes):
        cassette = each.look()
        found.add(cassette)
        has_calls = has_calls or bool(cassette.entries)
    failure = "" if has_calls else "nothing is covered: no cassette holds a call"
    if fail_under is not None and found.percent < fail_under and has_calls:
        failure = f"{found.percent:g} % is covered, and --fail-under is {fail_under:g}"
    return Measure(found.to_dict(), lambda: _print_coverage(found), failure)


def scored(
    cassettes: Sequence[Found], evaluators: Sequence[str], remove: Sequence[str], prices: Prices, *, replace: bool
) -> Measure:
    """Return the scores of runs; new ones are written next to the cassettes.

    `evaluators` are `module:function`; `remove` are names of scores; with `replace`, evaluators replace scores that are
    there.
    """
    checks = [check for name in evaluators for check in checks_of("judged", name)]
    rows, has_calls = [], False
    for each in reading([each for each in cassettes if not each.shown.endswith(JUDGE)], "scoring"):
        run = run_of_cassette(each.open(), prices, each.shown)
        has_calls = has_calls or bool(run.happened or run.asked or run.answer)
        rows.append(_scored(run, checks, replace=replace, remove=remove))
    failure = "nothing was scored: no run holds a call or an answer" if checks and not has_calls else ""
    if failed := sum(bool(row.findings) for row in rows):
        failure = f"an evaluator failed for {counted(failed, 'run')}"
    return Measure([row.to_dict() for row in rows], lambda: _print_scores(rows), failure)


def _scored(run: Run, checks: Sequence[Check], *, replace: bool, remove: Sequence[str]) -> _Scored:
    before, of = read_scores(run), hash_of(run)
    is_stale = before is not None and before.of != of
    kept = dict(before.values) if before is not None and not is_stale else {}
    values = {name: value for name, value in kept.items() if name not in remove}
    wanted = [check for check in checks if replace or check.text.removeprefix("judged ") not in values]
    judged = check_run(run, wanted).judged
    for each in judged:
        values.update((name, value) for name, value in each.scores if replace or name not in values)
    if (checks or remove) and (before is None or is_stale or values != before.values):
        scores_path(run).write_text(Scores(of, values).text(), encoding="utf-8", newline="\n")
    failed = tuple(finding for each in judged if not each.scores for finding in each.findings)
    return _Scored(run.name, values, is_stale and not checks, failed)


def _print_coverage(found: Coverage) -> None:
    facts = found.to_dict()
    rows = [(f"tool {each['name']}", f"{each['called']:,}") for each in facts["tools"]]
    rows += [(f"node {each['name']}", f"{each['count']:,}") for each in facts["nodes"]]
    rows += [(f"edge {each['from']} → {each['to']}", f"{each['count']:,}") for each in facts["edges"]]
    rows += [
        (f"event {each['name']}", f"{each['count']:,}" if each["count"] is not None else "unknown")
        for each in facts.get("events", ())
    ]
    rows += [(f"interrupt {each['name']}", f"{each['count']:,}") for each in facts["interrupts"]]
    print_table(("what", "times"), rows, right=frozenset({"times"}))
    for sort, names in found.never.items():
        if names:
            print_text(f"{_SAID[sort]}: {', '.join(names)}")
    if found.unknown:
        print_text(f"events that the recordings don't show: {', '.join(found.unknown)}")
    print_text(f"{found.percent:g} % covered")


def _print_scores(rows: Sequence[_Scored]) -> None:
    names = tuple(dict.fromkeys(name for row in rows for name in row.scores))
    cells = [(row.run, *(_shown(row.scores.get(name)) for name in names)) for row in rows]
    print_table(("run", *names), cells, right=frozenset(names))
    for row in rows:
        if row.is_stale:
            print_text(f"{row.run}: its scores are those of another recording", "yellow")
        for finding in row.findings:
            print_text(str(finding), "red")


def _shown(value: float | bool | None) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else f"{value:g}"

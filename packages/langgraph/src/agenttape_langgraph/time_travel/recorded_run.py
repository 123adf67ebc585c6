"""The runs of a graph in a cassette: their invocations and their steps.

Below the outermost steps, those with kind `node` have LangGraph's superstep in their address, as in `LangGraph/plan@3`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from langgraph.types import Interrupt

from agenttape_core import Step
from agenttape_core.errors import ConfigurationError
from agenttape_core.integration import value_codec
from agenttape_core.integration.cassettes import Cassette, Location, holds_pseudonym
from agenttape_core.tools.compare import named_cassette
from agenttape_langgraph.time_travel.plan import COMMAND, Edit, Invocation, Plan, Question

PLAN = "plan"
"""The key of the plan in the origin of a derived cassette."""

THREAD = "thread_id"
"""LangGraph's key of the thread of a run, in configs and in a cassette."""

INPUT_AND_START = 2
"""The supersteps that LangGraph takes to an input before the first node runs."""

_STEP = re.compile(r"(?P<node>.*?)@(?P<superstep>-?\d+)[^/]*")
_INTERRUPTED = "langgraph.errors:GraphInterrupt"
_START = "__start__"

_RUNS = frozenset({"agent", "chain", "graph"})


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """One superstep of a recorded graph or of a subgraph: a place to fork at.

    Args:
        number: 1-based, in the order of the run, as `step=` takes it.
        superstep: LangGraph's own number, as in the metadata of its checkpoint. Each subgraph has its own count.
        graph: The address of the run of its graph.
        nodes: The names of the nodes that ran in it, in the order of their tasks. `__start__` took the input.
        namespace: The nodes that led to its subgraph, outermost first; empty for the graph itself.
        invocation: The number of its invocation.
        interrupts: The questions of its nodes, in the order of their tasks.
        failed: Whether one of its nodes ended with an error.
    """

    number: int
    superstep: int
    graph: str
    nodes: tuple[str, ...]
    namespace: tuple[str, ...]
    invocation: int
    interrupts: tuple[Interrupt, ...] = ()
    failed: bool = False

    @property
    def address(self) -> str:
        """The address of the superstep in the cassette."""
        return f"{self.graph}@{self.superstep}"

    def edit(self, **change: Any) -> Edit:
        """Return an edit at the place after this step."""
        return Edit(self.graph, self.superstep, at_end=bool(self.interrupts), **change)

    def __str__(self) -> str:
        inside = f" in {'/'.join(self.namespace)}" if self.namespace else ""
        asked = f"  asks {', '.join(repr(one.value) for one in self.interrupts)}" if self.interrupts else ""
        failed = "  failed" if self.failed and not self.interrupts else ""
        return f"{self.number:>3}  {', '.join(self.nodes)}{inside}{asked}{failed}"


@dataclass(slots=True)
class _Superstep:
    """A superstep while its nodes are gathered."""

    graph: str
    superstep: int
    nodes: dict[str, None] = field(default_factory=dict)
    interrupts: list[Interrupt] = field(default_factory=list)
    failed: bool = False


class RecordedRun:
    """The invocations of one thread in a cassette, and their steps.

    `thread_id` may be left out if there is only one. Raises `ConfigurationError` if the cassette holds no invocation,
    none of this thread, or several threads to choose from.
    """

    def __init__(self, cassette: Cassette, thread_id: str | None = None) -> None:
        self.cassette = cassette
        self.plan = _derived(cassette, thread_id) or _observed(cassette, thread_id)
        self._supersteps = self._gathered()
        self.steps = tuple(self._steps())

    @property
    def is_only(self) -> bool:
        """True if the cassette holds no other thread."""
        threads = {_thread_of(step) for step in self.cassette.steps() if _is_invocation(step)}
        return threads <= {self.plan.thread_id}

    @property
    def died(self) -> bool:
        """True if the process of the last invocation died in it: its last calls belong to a node that did not end."""
        return self.plan.invocations[-1].died_after is not None

    def step(self, chosen: int | RecordedStep) -> RecordedStep:
        """Return the step of a number. Raises `ConfigurationError` if there's no such step."""
        number = chosen.number if isinstance(chosen, RecordedStep) else chosen
        if type(number) is not int or not 1 <= number <= len(self.steps):
            numbers = f"steps 1 to {len(self.steps)}" if self.steps else "no steps: no node ran"
            raise ConfigurationError(f"step={chosen!r}: {self.cassette.path} has {numbers}; steps_of() lists them")
        return self.steps[number - 1]

    def _steps(self) -> Iterator[RecordedStep]:
        invocations = {invocation.address: invocation for invocation in self.plan.invocations}
        number = 0
        begun: set[str] = set()
        for one in self._supersteps.values():
            root, _, inside = one.graph.partition("/")
            invocation = invocations[root]
            # A subgraph that goes on in a later invocation has its input already.
            takes_input = one.superstep == 1 if inside else invocation.is_fresh
            if (inside or root) not in begun and takes_input:
                number += 1
                start = _Superstep(one.graph, one.superstep - 1, {_START: None})
                yield _recorded(number, start, invocation)
            begun.add(inside or root)
            number += 1
            yield _recorded(number, one, invocation)

    def _gathered(self) -> dict[tuple[str, int], _Superstep]:
        """Return the supersteps with the nodes that ran in them, in the order of the file."""
        roots = self.plan.roots
        found: dict[tuple[str, int], _Superstep] = {}
        for step in self.cassette.steps():
            graph, _, place = step.address.rpartition("/")
            parsed = _STEP.fullmatch(place)
            if step.kind != "node" or parsed is None or step.address.partition("/")[0] not in roots:
                continue
            superstep = int(parsed["superstep"])
            one = found.setdefault((graph, superstep), _Superstep(graph, superstep))
            one.nodes.setdefault(step.name)
            one.interrupts += _interrupts(step)
            one.failed = one.failed or step.status != "ended"
        return found


def steps_of(cassette: str | Location | Cassette, thread_id: str | None = None) -> tuple[RecordedStep, ...]:
    """Return the steps of a recorded run, in order: the places where `time_travel` can fork it.

    Args:
        cassette: The cassette, its path, or its bare name.
        thread_id: The thread. It may be left out if the cassette has only one.

    Raises:
        CassetteError: If there's no such cassette, or it cannot be read.
        ConfigurationError: If it holds no run of a graph, or several threads to choose from.
    """
    return RecordedRun(named_cassette(cassette), thread_id).steps


def _recorded(number: int, one: _Superstep, invocation: Invocation) -> RecordedStep:
    places = [_STEP.fullmatch(label) for label in one.graph.split("/")]
    namespace = tuple(place["node"] for place in places if place is not None)
    nodes, interrupts = tuple(one.nodes), tuple(one.interrupts)
    return RecordedStep(
        number, one.superstep, one.graph, nodes, namespace, invocation.number, interrupts, failed=one.failed
    )


def _interrupts(step: Step) -> list[Interrupt]:
    """Return the questions that a node stopped to ask."""
    if step.error is None or step.error.type != _INTERRUPTED:
        return []
    (raised,) = value_codec(lenient=True).decode(step.error.args) or [()]
    return [one for one in raised if isinstance(one, Interrupt)]


# -- the plan ----------------------------------------------------------------------------------------------------------


def _derived(cassette: Cassette, thread_id: str | None) -> Plan | None:
    origin = cassette.preface.origin
    if not isinstance(origin, dict) or not isinstance(origin.get(PLAN), dict):
        return None
    plan = Plan.of_plain(origin[PLAN])
    _choose(cassette, [plan.thread_id], thread_id)
    return replace(plan, invocations=_with_questions(cassette, plan.invocations))


def _observed(cassette: Cassette, thread_id: str | None) -> Plan:
    found = [step for step in cassette.steps() if _is_invocation(step)]
    thread = _choose(cassette, [_thread_of(step) for step in found], thread_id)
    runs = [step for step in found if _thread_of(step) == thread]
    invocations = [
        Invocation(
            number,
            step.address,
            step.input,
            _configured(step),
            failed=step.status != "ended",
            died_after=_last_superstep(cassette, step.address, following) if step.status == "open" else None,
        )
        for number, (step, following) in enumerate(zip(runs, [*runs[1:], None], strict=True), start=1)
    ]
    return Plan(thread, _with_questions(cassette, invocations))


def _last_superstep(cassette: Cassette, address: str, following: Step | None) -> int:
    """Return the superstep after which the process of an invocation died.

    It is the one from which the next invocation resumed; else the last one in which all started nodes, as shown by
    their calls, have ended.
    """
    if following is not None:
        goes_on = following.input is None or (isinstance(following.input, dict) and list(following.input) == [COMMAND])
        first = min(_supersteps(cassette.step_addresses(), following.address).values(), default=1)
        return first - 1 - (0 if goes_on else INPUT_AND_START)
    ended = _supersteps(cassette.step_addresses(), address)
    begun = _supersteps((row.address for row in cassette.entries), address)
    unfinished = min((superstep for node, superstep in begun.items() if node not in ended), default=None)
    return unfinished - 1 if unfinished is not None else max(ended.values(), default=0)


def _supersteps(addresses: Iterable[str], graph: str) -> dict[str, int]:
    """Return the nodes of a graph that addresses are in, as their labels, with their supersteps."""
    labels = {address[len(graph) + 1 :].partition("/")[0] for address in addresses if address.startswith(f"{graph}/")}
    found = {label: _STEP.fullmatch(label) for label in labels}
    return {label: int(match["superstep"]) for label, match in found.items() if match is not None}


def _with_questions(cassette: Cassette, invocations: Sequence[Invocation]) -> tuple[Invocation, ...]:
    questions = _questions(cassette)
    before = ["", *(invocation.address for invocation in invocations)]
    return tuple(
        replace(
            invocation,
            asked=tuple(questions.get(last, ())),
            asks=tuple(questions.get(invocation.address, ())),
            asking=_asking_nodes(cassette, invocation.address),
        )
        for last, invocation in zip(before, invocations, strict=False)
    )


def _questions(cassette: Cassette) -> dict[str, list[Question]]:
    """Return the questions of each invocation by its address. A node raises the questions of its subgraph too."""
    found: dict[str, list[Question]] = {}
    for step in cassette.steps():
        if step.kind == "node" and step.address.count("/") == 1:
            root, _, place = step.address.partition("/")
            found.setdefault(root, []).extend(Question(step.name, place, one) for one in _interrupts(step))
    return found


def _asking_nodes(cassette: Cassette, address: str) -> tuple[str, ...]:
    nodes = (step for step in cassette.steps() if step.kind == "node" and step.address.startswith(f"{address}/"))
    return tuple(step.address for step in nodes if _interrupts(step))


def holds_runs(cassette: Cassette) -> bool:
    """Return True if a cassette has steps of graphs that can be run again."""
    return any(step.kind == "node" and _STEP.fullmatch(step.address.rpartition("/")[2]) for step in cassette.steps())


def _is_invocation(step: Step) -> bool:
    return "/" not in step.address and step.address != "" and step.kind in _RUNS


def _thread_of(step: Step) -> str | None:
    thread = step.metadata.get(THREAD)
    return str(thread) if thread is not None else None


def _choose(cassette: Cassette, recorded: list[str | None], thread_id: str | None) -> str | None:
    threads = list(dict.fromkeys(recorded))
    if not threads:
        raise ConfigurationError(
            f"{cassette.path} holds no run of a graph: it has no step of one\n"
            "  record with use_cassette around the graph, or with a TapeCallbackHandler in its config"
        )
    named = ", ".join(map(repr, threads))
    if thread_id is not None and str(thread_id) not in threads:
        raise ConfigurationError(f"thread_id={thread_id!r}: {cassette.path} holds the threads {named}")
    if thread_id is None and len(threads) > 1:
        raise ConfigurationError(f"{cassette.path} holds several threads, {named}: choose one, thread_id=...")
    return str(thread_id) if thread_id is not None else threads[0]


def _configured(step: Step) -> dict[str, Any]:
    return {key: value for key, value in step.metadata.items() if _is_configured(key, value)}


def _is_configured(key: str, value: Any) -> bool:
    """Return true for metadata that may have come from the `configurable` of a config, and can be passed again."""
    framework = key.startswith(("langgraph_", "ls_", "lc_", "checkpoint_", "__")) or key in {THREAD, "run_id"}
    is_secret = holds_pseudonym(value, key)
    return not framework and not is_secret and isinstance(value, str | int | float | bool | list | dict)

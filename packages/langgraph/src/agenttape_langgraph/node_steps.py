"""Steps of a session that records graphs: the inputs of graphs, and the inputs, writes and routes of their nodes.

The kinds are the same as in `TapeCallbackHandler`: a graph is a `chain` or an `agent`, outermost ones with their input;
a node is a `node`, at the address above its calls. A node that interrupts for a human has failed with a
`GraphInterrupt`, which holds the question and its id; the answer is the input of the next run of the graph. Callbacks
cannot see the following parts of a node's step:

- `input`: the changes in it (see `state_delta`);
- `output`: its writes, by channel; several writes to one channel are a list under `$writes`;
- `data`: its `route`, the nodes that it continues to, with a count of each if one is chosen more than once.

The output of a graph is recorded as changes too: its nodes wrote the rest. Each attempt of a node with a retry policy
is a step: the second has `#2` in its address. A step is never replayed.
"""

from __future__ import annotations

import asyncio
import functools
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agenttape_core.errors import UnrecordableValueError
from agenttape_core.integration import Session, Slot, current_session, record_step
from agenttape_core.integration.patching import Wrappers
from agenttape_langchain.integration import is_graph, plain_without_run_ids, register_follower
from agenttape_langgraph._compat import is_internal_channel, retry, route_of, runner
from agenttape_langgraph.stable_ids import ids_of_runs, stable_ids

if TYPE_CHECKING:
    from uuid import UUID

    from agenttape_langchain.integration import ChainFacts, ObservedRun, Run
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from itertools import chain
from typing import NamedTuple

from langchain_core.messages import BaseMessage
from langgraph.types import Command, Send
from pydantic import BaseModel

from agenttape_core.integration.threads import Lock

# -- The changes in the input of a node: its state repeats a whole conversation, and a recording needs each part once.
#
# A state is recorded as the channels that changed since the superstep before. A list, for example of messages, is
# recorded as its length, the number of leading items that did not change, and under `new` the other items, but for
# messages that the recording already holds. `{"$changed": {"items": 14, "kept": 12}}` stands for a list with two new
# messages, both written by nodes whose steps are recorded, too.

CHANGED = "$changed"
"""The tag of a list of which only a part is recorded."""

Plain = Any
_DEEP = 4
"""The depth to which values are searched for messages."""


class _Channel(NamedTuple):
    """The values of a channel in the inputs of nodes."""

    superstep: int  # the last superstep in which a node got it
    before: Any  # its value in the superstep before that one
    now: Any  # its value in that superstep


_ABSENT: Any = object()


class StateDeltas:
    """The changes in the states of the graphs of one session, compared with the recorded ones. Thread-safe.

    `plain` makes plain data of a value.
    """

    def __init__(self, plain: Callable[[Any], Plain]) -> None:
        self._plain = plain
        self._channels: dict[tuple[str, ...], _Channel] = {}
        self._messages: dict[int, BaseMessage] = {}  # by identity; the message itself is kept, so no other gets its id
        self._messages_by_id: dict[str, BaseMessage] = {}
        self._lock = Lock()

    def note(self, value: Any) -> None:
        """Remember that a value is recorded in full."""
        with self._lock:
            for message in _messages(value, _DEEP):
                self._remember(message)

    def of(self, state: Any, graph: tuple[str, ...], superstep: int, *, shared: bool) -> Plain:
        """Return the changes in the input of a node, as plain data.

        `graph` has the names of the graph and its thread. A `shared` input is the state that all nodes of the graph
        share; any other was sent to this node.
        """
        parts = _parts(state)
        with self._lock:
            if parts is None:
                return self._in_full(state)
            return self._changes(parts, graph, superstep, shared=shared)

    def _changes(
        self, parts: Mapping[str, Any], path: tuple[str, ...], superstep: int, *, shared: bool
    ) -> dict[str, Plain]:
        changes: dict[str, Plain] = {}
        for key, value in parts.items():
            here = (*path, str(key))
            inner = _parts(value) if not shared else None
            if inner is not None:
                changes[str(key)] = self._changes(inner, here, superstep, shared=False)
                continue
            before = self._before(here, value, superstep) if shared else _ABSENT
            if isinstance(value, list):
                kept = _common(before, value) if isinstance(before, list) else 0
                if not isinstance(before, list) or not kept == len(value) == len(before):
                    changes[str(key)] = self._new_items(value, kept)
            elif before is _ABSENT or not _equal(before, value):
                changes[str(key)] = self._in_full(value)
        return changes

    def _before(self, path: tuple[str, ...], value: Any, superstep: int) -> Any:
        """Return the value of a channel in the superstep before, and remember its value now."""
        known = self._channels.get(path)
        now = list(value) if isinstance(value, list) else value
        if known is None:
            known = _Channel(superstep, _ABSENT, now)
        elif known.superstep != superstep:
            known = _Channel(superstep, known.now, now)
        self._channels[path] = known
        return known.before

    def _new_items(self, items: list[Any], kept: int) -> Plain:
        new = [self._in_full(item) for item in items[kept:] if not self._is_recorded(item)]
        if kept == 0 and len(new) == len(items):
            return new
        return {CHANGED: {"items": len(items), "kept": kept, **({"new": new} if new else {})}}

    def _in_full(self, value: Any) -> Plain:
        for message in _messages(value, _DEEP):
            self._remember(message)
        return self._plain(value)

    def _is_recorded(self, item: Any) -> bool:
        if not isinstance(item, BaseMessage):
            return False
        if self._messages.get(id(item)) is item:
            return True
        same = self._messages_by_id.get(item.id) if item.id is not None else None
        if same is None or not _equal(same, item):
            return False
        self._remember(item)  # another object with the same content: a saver has loaded it
        return True

    def _remember(self, message: BaseMessage) -> None:
        if message.id is not None:
            older = self._messages_by_id.get(message.id)
            if older is not None:
                self._messages.pop(id(older), None)
            self._messages_by_id[message.id] = message
        self._messages[id(message)] = message


def _parts(state: Any) -> Mapping[str, Any] | None:
    """Return the channels of a state, whatever its class; `None` for a value that has none."""
    if isinstance(state, Mapping):
        return state
    if isinstance(state, BaseModel) and not isinstance(state, BaseMessage):
        return dict(state)
    if is_dataclass(state) and not isinstance(state, type | Command | Send):
        return {field.name: getattr(state, field.name, None) for field in fields(state)}
    return None


def _messages(value: Any, deep: int) -> Iterator[BaseMessage]:
    if isinstance(value, BaseMessage):
        yield value
    elif deep == 0 or isinstance(value, str | bytes):
        return
    elif isinstance(value, Command):
        yield from _messages(value.update, deep)
    elif isinstance(value, Mapping):
        yield from chain.from_iterable(_messages(item, deep - 1) for item in value.values())
    elif isinstance(value, Sequence):
        yield from chain.from_iterable(_messages(item, deep - 1) for item in value)


def _common(before: Sequence[Any], now: Sequence[Any]) -> int:
    """Return how many leading items of two lists are equal."""
    count = 0
    for old, new in zip(before, now, strict=False):
        if old is not new and not _equal(old, new):
            break
        count += 1
    return count


def _equal(old: Any, new: Any) -> bool:
    if old is new:
        return True
    try:
        return type(old) is type(new) and bool(old == new)
    except Exception:  # noqa: BLE001 - of the user's class, or an array: then it is recorded again
        return False


WRITES = "$writes"
"""The tag of the values of a channel that a node wrote more than once."""

_COUNT = re.compile(r"#\d+")
_running_task: ContextVar[Any] = ContextVar("agenttape_langgraph_task", default=None)


@dataclass(slots=True)
class _Node:
    """A node that runs."""

    input: Any
    task: Any


class GraphSteps:
    """Records the graphs of one session and their nodes. Thread-safe. The session records."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._deltas = StateDeltas(_plain)
        self._stable_ids = stable_ids(session)
        session.ledger.refer_to_texts()
        self._open: dict[UUID, ObservedRun] = {}
        self._nodes: dict[UUID, _Node] = {}
        self._graphs: set[UUID] = set()

    def began(self, run_id: UUID, parent_run_id: UUID | None, run: Run, facts: ChainFacts) -> None:
        """Note the beginning of a graph, a node or any other chain."""
        from agenttape_langchain.integration import ObservedRun  # most replays keep no steps

        above = self._open.get(parent_run_id) if parent_run_id is not None else None
        opened = ObservedRun(
            key=run_id,
            position=run.position,
            name=facts.name,
            above=above,
            run=run,
            tags=facts.tags,
            metadata={**facts.configurable, **facts.metadata} if above is None else facts.metadata,
        )
        self._open[run_id] = opened
        opened.kind = opened.chain_kind()
        if opened.kind == "node":
            if above is not None and above.key not in self._graphs:
                self._graphs.add(above.key)
                if above.above is None and self._session.records and self._session.auto:
                    self._record(above, input=above.input, status="open")  # for a recovery, if the process dies in it
            self._nodes[run_id] = self._node(opened, facts.inputs)
        elif above is None and self._session.auto:
            self._deltas.note(facts.inputs)
            opened.input = _plain(facts.inputs)

    def _node(self, run: ObservedRun, inputs: Any) -> _Node:
        task = _running_task.get()
        if task is not None and task.name != run.name:
            task = None
        if not self._session.auto:
            return _Node(None, task)
        graph = _COUNT.sub("", run.above.run.position.address) if run.above is not None else ""
        place = (str(run.metadata.get("thread_id", "")), graph)
        shared = not _is_sent(run.metadata.get("langgraph_path"))
        superstep = int(run.metadata.get("langgraph_step", 0))
        return _Node(self._deltas.of(inputs, place, superstep, shared=shared), task)

    def ended(self, run_id: UUID, output: Any) -> None:
        """Record the step."""
        run, node, had_nodes = self._taken(run_id)
        if run is None or not self._session.auto:
            return
        if node is not None:
            self._record(run, input=node.input, repeats=True, **self._written(node))
        elif had_nodes or _is_idle(run):
            place = ("", run.run.position.address)
            given = self._deltas.of(output, place, 0, shared=False) if run.above is None else None
            self._record(run, input=run.input, output=given)

    def failed(self, run_id: UUID, error: BaseException) -> None:
        """Record the step with its error."""
        run, node, had_nodes = self._taken(run_id)
        if run is None or not self._session.auto or not (node is not None or had_nodes or _is_idle(run)):
            return
        given = node.input if node is not None else run.input
        self._record(run, input=given, status="failed", error=error)

    def _taken(self, run_id: UUID) -> tuple[ObservedRun | None, _Node | None, bool]:
        """Take out a run that has ended, with its node if it is one, and with whether it's a graph that ran nodes."""
        had_nodes = run_id in self._graphs
        self._graphs.discard(run_id)
        return self._open.pop(run_id, None), self._nodes.pop(run_id, None), had_nodes

    def _written(self, node: _Node) -> dict[str, Any]:
        writes: dict[str, list[Any]] = {}
        for channel, value in node.task.writes if node.task is not None else ():
            if not is_internal_channel(channel):
                writes.setdefault(channel, []).append(value)
        self._deltas.note(writes)
        output = {channel: _value(values) for channel, values in writes.items()}
        route = route_of(node.task.writes) if node.task is not None else []
        counts = Counter(route)
        chosen = {"route": dict(counts) if len(counts) < len(route) else route} if route else {}
        return {"output": output or None, "data": chosen or None}

    def _record(self, run: ObservedRun, **facts: Any) -> None:
        position = run.run.position
        if facts.get("error") is not None:
            error = facts["error"]
            facts["error_ids"] = {**self._stable_ids.of_error(error, position.address), **ids_of_runs(error)}
        for part in ("input", "output"):
            facts[part] = self._stable_ids.replaced(facts.get(part))
        step = run.as_step(**facts)
        try:
            record_step(self._session, step)
        except UnrecordableValueError as error:  # nested too deep, for example: no reason to end the run
            left_out = {"left_out": str(error).partition("\n")[0]}
            record_step(self._session, step._replace(input=None, output=None, data=left_out))


def _plain(value: Any) -> Any:
    """Return a value as plain data; one that cannot be read is recorded as the name of its class."""
    try:
        return plain_without_run_ids(value)
    except Exception:  # noqa: BLE001 - of the user's class, or too deep: steps are for readers, and the run goes on
        return f"<{type(value).__module__}.{type(value).__qualname__}>"


def _value(values: Sequence[Any]) -> Any:
    return _plain(values[0]) if len(values) == 1 else {WRITES: [_plain(value) for value in values]}


def _is_idle(run: ObservedRun) -> bool:
    """Return whether a run is an outermost graph, even if a cache answered all of it and no node ran.

    It has its own step all the same: a replay would take the next recorded run of its name for it.
    """
    return run.above is None and is_graph(run.metadata)


def _is_sent(path: Any) -> bool:
    """Return true for a task with its own input instead of the state: of a `Send`, or of a called function."""
    return isinstance(path, tuple | list) and bool(path) and path[0] == "__pregel_push"


def track_tasks(wrappers: Wrappers) -> None:
    """Keep track of the task of a graph that code runs in, while wrappers are in place."""
    for name, wrap in (("run_with_retry", _running), ("arun_with_retry", _arunning)):
        wrappers.patch(runner, name, wrap)
    if hasattr(retry, "time"):
        wrappers.patch(retry, "time", _TimeOfLoop)


_AHEAD: Slot[list[float]] = Slot(lambda _: [0.0])
"""The seconds by which the loop that ran a node last was ahead of the real clock."""


class _TimeOfLoop:
    """The module `time` for what watches idle nodes: it sleeps by the loop, whose clock a replay lets jump.

    By the real clock, a sleep would seem to have ended early, and a node that timed out would not time out again.
    """

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def monotonic(self) -> float:
        """Return the time of the loop that runs here, or that ran last in the replay."""
        now: float = self._real.monotonic()
        session = current_session()
        if session is None or not session.is_replay:
            return now
        ahead, loop = session.extension(_AHEAD), asyncio._get_running_loop()
        if loop is not None:
            ahead[0] = loop.time() - now
        return now + ahead[0]


def _running(real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def run_with_retry(task: Any, *args: Any, **kwargs: Any) -> Any:
        around = _running_task.get()
        _running_task.set(task)
        try:
            return real(task, *args, **kwargs)
        finally:
            _running_task.set(around)

    return run_with_retry


def _arunning(real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    async def arun_with_retry(task: Any, *args: Any, **kwargs: Any) -> Any:
        around = _running_task.get()
        _running_task.set(task)
        try:
            return await real(task, *args, **kwargs)
        finally:
            _running_task.set(around)

    return arun_with_retry


def _steps_of(session: Session) -> GraphSteps | None:
    return GraphSteps(session) if session.keeps_steps else None


register_follower(_steps_of)

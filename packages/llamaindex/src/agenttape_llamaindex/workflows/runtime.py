"""Listen to the ticks of workflows, through the decorators that their runtimes have for that."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any

from workflows import Workflow
from workflows.events import Event, InternalDispatchEvent
from workflows.runtime.runtime_decorators import BaseInternalRunAdapterDecorator, BaseRuntimeDecorator
from workflows.runtime.types.plugin import InternalRunAdapter, Runtime, as_snapshottable_adapter
from workflows.runtime.types.results import AddWaiter
from workflows.runtime.types.ticks import TickAddEvent, TickStepResult, WorkflowTick

from agenttape_llamaindex._compat import decorated_by
from agenttape_llamaindex.workflows.memories import messages_of
from agenttape_llamaindex.workflows.recording import Heard, RunRecord, TickTaker, read_state
from agenttape_llamaindex.workflows.serializing import WritingSerializer

_takers: list[TickTaker] = []
_of_taped: list[TickTaker] = []
_undo: list[Callable[[], None]] = []
_lock = RLock()


class TapeRuntime(BaseRuntimeDecorator):
    """A runtime whose workflows have their ticks recorded by sessions too.

    A `TapeEventHandler` records the ticks of all workflows. A session leaves them out, since its cassette is for
    people, and a replay needs none: give it a workflow on this runtime if it is to be stepped through afterwards.

        workflow = Joker(runtime=TapeRuntime(basic_runtime))

    Args:
        decorated: The runtime that does the work.
    """

    def get_internal_adapter(self, workflow: Workflow) -> InternalRunAdapter:
        """Return the adapter of the current run, which tells its ticks."""
        return heard(decorated_by(self).get_internal_adapter(workflow), _of_taped)


def heard(adapter: InternalRunAdapter, more: Sequence[TickTaker] = ()) -> InternalRunAdapter:
    """Return an adapter that tells its ticks, once; the same one if nobody listens."""
    takers = [*_takers, *more]
    if isinstance(adapter, _HeardAdapter):
        adapter.tell(more)
        return adapter
    return adapter if not takers else _HeardAdapter(adapter, takers)


class _HeardAdapter(BaseInternalRunAdapterDecorator):
    """Tells what the control loop of a run does. What goes wrong here never reaches the run."""

    def __init__(self, decorated: InternalRunAdapter, takers: list[TickTaker]) -> None:
        super().__init__(decorated)
        self._takers = takers
        self._seq: int | None = None

    def tell(self, takers: Sequence[TickTaker]) -> None:
        """Tell more recorders."""
        self._takers += [taker for taker in takers if taker not in self._takers]

    async def write_to_event_stream(self, event: Event) -> None:
        """Publish an event."""
        await super().write_to_event_stream(event)
        if isinstance(
            event, InternalDispatchEvent
        ):  # what the runtime says of itself, and readers ask for only by name
            return
        for taker in self._takers:
            with _theirs(taker):
                record = taker.run_record(self.run_id)
                if record is not None:
                    record.publish(json.loads(WritingSerializer().serialize(event)))

    async def on_tick(self, tick: WorkflowTick) -> None:
        """Note a tick."""
        await super().on_tick(tick)
        records: list[tuple[TickTaker, RunRecord]] = []
        for taker in self._takers:
            with _theirs(taker):
                record = taker.run_record(self.run_id)
                if record is not None:
                    records.append((taker, record))
        if not records:
            return
        with _theirs(*(taker for taker, _ in records)):
            told = await self._told(tick)
            for taker, record in records:
                with _theirs(taker):
                    record.record(told)

    async def _told(self, tick: WorkflowTick) -> Heard:
        told = Heard(self._next(), tick.type, _about(tick), waits=_waits(tick), outside=_is_from_outside(tick))
        is_first = tick.type == "session_start"
        try:
            told.tick = _plain(tick)
        except ValueError as error:
            told.lost = f"the tick cannot be written: {error}"
        if is_first:
            told.snapshot = self._snapshot()
        if is_first or isinstance(tick, TickStepResult):
            told.state, told.left_out = await self._state()
        return told

    def _next(self) -> int:
        if self._seq is None:
            self._seq = getattr(self._init_state(), "journal_seq", 0)
        else:
            self._seq += 1
        return self._seq

    def _init_state(self) -> Any:
        snapshottable = as_snapshottable_adapter(decorated_by(self))
        return snapshottable.init_state if snapshottable is not None else None

    def _snapshot(self) -> Any:
        """Return what the run goes on from, if it does not begin anew."""
        init = self._init_state()
        if init is None or not (init.is_running or getattr(init, "journal_seq", 0)):
            return None
        return init.to_serialized(WritingSerializer()).model_dump(mode="json", exclude={"state"})

    async def _state(self) -> tuple[Any, list[str]]:
        store = self.get_state_store()
        if store is None:
            return None, []
        state = await store.get_state()
        values = dict(state.items()) if hasattr(state, "items") else dict(state)
        serializer = _StateSerializer(await messages_of(values))
        return read_state(store.to_dict(serializer)), serializer.left_out


@contextmanager
def _theirs(*takers: TickTaker) -> Iterator[None]:
    """Keep our errors out of the run, and tell those who must know."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is, it is ours and not the run's
        for taker in takers:
            taker.could_not_record(error)


class _StateSerializer(WritingSerializer):
    """Writes each value of a state, or what it is."""

    def serialize(self, value: Any) -> str:
        """Write a value."""
        try:
            return super().serialize(value)
        except ValueError:
            return self.missing(value)


def _plain(tick: WorkflowTick) -> dict[str, Any]:
    """Return what a tick says, without what it does not say.

    Raises:
        ValueError: If it cannot be written.
    """
    fields = json.loads(WritingSerializer().serialize(tick))["value"]
    return {
        key: item for key, item in fields.items() if key != "type" and (item not in (None, [], {}) or key == "result")
    }


def _about(tick: WorkflowTick) -> str:
    if isinstance(tick, TickStepResult):
        return str(tick.step_id)
    return type(tick.event).__name__ if isinstance(tick, TickAddEvent) else tick.type


def _is_from_outside(tick: WorkflowTick) -> bool:
    """Whether an event began the run, or was sent to it: what steps send has a key, and what is done again a number."""
    keys = ("emission", "attempts", "work_item_id")
    return isinstance(tick, TickAddEvent) and all(getattr(tick, key, None) is None for key in keys)


def _waits(tick: WorkflowTick) -> bool:
    return isinstance(tick, TickStepResult) and any(isinstance(result, AddWaiter) for result in tick.result)


# -- everywhere ------------------------------------------------------------------------------------------------------


def hear_ticks(taker: TickTaker) -> None:
    """Tell a recorder the ticks of all workflow runs that begin from now on."""
    with _lock:
        if not _takers:
            _listen()
        _takers.append(taker)


def hear_taped_runs(taker: TickTaker) -> None:
    """Tell a recorder the ticks of all workflow runs on a `TapeRuntime`, for good."""
    _of_taped.append(taker)


def unhear_ticks(taker: TickTaker) -> None:
    """Undo `hear_ticks`; runs that are going on are heard to their end."""
    with _lock:
        _takers.remove(taker)
        if not _takers:
            while _undo:
                _undo.pop()()


def _listen() -> None:
    for cls in _runtimes(Runtime):
        if not issubclass(cls, BaseRuntimeDecorator) and "get_internal_adapter" in vars(cls):
            real = vars(cls)["get_internal_adapter"]
            setattr(cls, "get_internal_adapter", _telling(real))  # noqa: B010 - mypy allows no assignment to a method
            _undo.append(functools.partial(setattr, cls, "get_internal_adapter", real))


def _runtimes(cls: Any) -> Iterator[type[Runtime]]:
    for below in cls.__subclasses__():
        yield below
        yield from _runtimes(below)


def _telling(real: Callable[..., InternalRunAdapter]) -> Callable[..., InternalRunAdapter]:
    @functools.wraps(real)
    def get_internal_adapter(self: Any, workflow: Workflow) -> InternalRunAdapter:
        return heard(real(self, workflow))

    return get_internal_adapter

"""Receive the ticks of workflow runs, by decorators around the adapters of their runtimes."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, TypeVar

from workflows import Workflow
from workflows.context.serializers import JsonSerializer
from workflows.events import Event, InternalDispatchEvent
from workflows.runtime.runtime_decorators import BaseInternalRunAdapterDecorator, BaseRuntimeDecorator
from workflows.runtime.types.plugin import InternalRunAdapter, Runtime, as_snapshottable_adapter
from workflows.runtime.types.results import AddWaiter
from workflows.runtime.types.ticks import TickAddEvent, TickStepResult, WorkflowTick

from agenttape_core.integration.patching import Wrappers
from agenttape_core.integration.threads import RLock
from agenttape_llamaindex._compat import decorated_by
from agenttape_llamaindex.workflows.recording import ReceivedTick, TickRecorder
from agenttape_llamaindex.workflows.serializing import HELD, messages_of
from agenttape_llamaindex.workflows.states import WHOLE, LiveState

T = TypeVar("T")

_recorders: list[TickRecorder] = []
_of_taped: list[TickRecorder] = []
_undo = ExitStack()
_lock = RLock()


class TapeRuntime(BaseRuntimeDecorator):
    """A runtime whose workflows have their ticks recorded by sessions too.

    A `TapeEventHandler` records the ticks of all workflows. A session leaves them out, since its cassette is for
    people, and a replay needs none. Put a workflow on this runtime to step through it afterwards.

        workflow = Joker(runtime=TapeRuntime(basic_runtime))

    Args:
        decorated: The runtime that does the work.
    """

    def get_internal_adapter(self, workflow: Workflow) -> InternalRunAdapter:
        """Return the adapter of the current run, which passes its ticks to recorders."""
        return listening(decorated_by(self).get_internal_adapter(workflow), _of_taped)


def listening(adapter: InternalRunAdapter, more: Sequence[TickRecorder] = ()) -> InternalRunAdapter:
    """Return an adapter that passes its ticks to each recorder once; the same adapter if there's no recorder."""
    recorders = [*_recorders, *more]
    if isinstance(adapter, _ListeningAdapter):
        adapter.add(more)
        return adapter
    return adapter if not recorders else _ListeningAdapter(adapter, recorders)


class _ListeningAdapter(BaseInternalRunAdapterDecorator):
    """Passes the ticks and events of a run to recorders. An error here never reaches the run."""

    def __init__(self, decorated: InternalRunAdapter, recorders: list[TickRecorder]) -> None:
        super().__init__(decorated)
        self._recorders = recorders
        self._seq: int | None = None
        self._form: _Form | None = None

    def add(self, recorders: Sequence[TickRecorder]) -> None:
        """Add those recorders that are not there yet."""
        self._recorders += [recorder for recorder in recorders if recorder not in self._recorders]

    async def write_to_event_stream(self, event: Event) -> None:
        """Publish an event."""
        await super().write_to_event_stream(event)
        if isinstance(event, InternalDispatchEvent):  # the runtime's own, which readers get only on request
            return
        for recorder in self._recorders:
            record = _safely(recorder, recorder.run_record, self.run_id)
            if record is not None:
                _safely(recorder, record.publish, event)

    async def on_tick(self, tick: WorkflowTick) -> None:
        """Record a tick."""
        await super().on_tick(tick)
        found = [(recorder, _safely(recorder, recorder.run_record, self.run_id)) for recorder in self._recorders]
        records = [(recorder, record) for recorder, record in found if record is not None]
        if not records:
            return
        try:
            received = await self._received(tick, with_state=any(record.keeps_steps for _, record in records))
        except Exception as error:  # noqa: BLE001 - as in `_safely`
            for recorder, _ in records:
                recorder.could_not_record(error)
            return
        for recorder, record in records:
            _safely(recorder, record.settle)
            _safely(recorder, record.record, received)

    async def _received(self, tick: WorkflowTick, *, with_state: bool) -> ReceivedTick:
        is_first = tick.type == "session_start"
        return ReceivedTick(
            self._next(),
            tick,
            subject_of(tick),
            waits=_waits(tick),
            outside=_is_from_outside(tick),
            state=await self._state() if with_state and (is_first or isinstance(tick, TickStepResult)) else None,
            snapshot=self._snapshot() if is_first else None,
        )

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
        """Return the state that the run continues from, if it does not begin again."""
        init = self._init_state()
        if init is None or not (init.is_running or getattr(init, "journal_seq", 0)):
            return None
        return init.to_serialized(JsonSerializer()).model_dump(mode="json", exclude={"state"})

    async def _state(self) -> LiveState | None:
        store = self.get_state_store()
        if store is None:
            return None
        state = await store.get_state()
        items = dict(state.items()) if hasattr(state, "items") else dict(state)
        memories = await messages_of(items)
        if self._form is None or self._form.keys is None or self._form.keys != items.keys():
            self._form = _form_of(store)
        values = items if self._form.keys is not None else self._form.values
        return LiveState(self._form.envelope, values, memories)


def _safely(recorder: TickRecorder, act: Callable[..., T], *arguments: Any) -> T | None:
    """Call a function of ours; keep its errors out of the run, and report them to a recorder."""
    try:
        return act(*arguments)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is ours and not the run's
        recorder.could_not_record(error)
        return None


@dataclass(frozen=True, slots=True)
class _Form:
    """The form in which the framework writes a state."""

    envelope: dict[str, Any]  # the rest of its serialized form, without the values
    values: dict[str, Any] | None  # the values by key, at that time; `None` if it writes a reference to the state only
    keys: frozenset[str] | None  # their keys, if they are the items of the state; `None` for another state


def _form_of(store: Any) -> _Form:
    holding = _Holding()
    envelope = store.to_dict(holding)
    data = envelope.get("state_data")
    items = data.get("_data") if isinstance(data, dict) else None
    marks = items if isinstance(items, dict) else {WHOLE: data} if isinstance(data, str) else None
    if marks is None:
        return _Form(envelope, None, None)
    values = {key: holding.read(mark) for key, mark in marks.items()}
    keys = frozenset(values) if marks is items else None
    return _Form({**envelope, "state_data": None}, values, keys)


class _Holding(JsonSerializer):
    """Holds the values of a state, for each recorder to write."""

    def __init__(self) -> None:
        super().__init__()
        self._held: list[Any] = []

    def serialize(self, value: Any) -> str:
        """Hold a value, and return its mark."""
        self._held.append(value)
        return json.dumps({HELD: len(self._held) - 1})

    def read(self, mark: str) -> Any:
        """Return the value of a mark, or the value that the store itself has written."""
        data = json.loads(mark)
        return self._held[data[HELD]] if isinstance(data, dict) and HELD in data else data


def subject_of(tick: WorkflowTick) -> str:
    """Return the subject of a tick: the step that has ended, the event that came, or else its kind."""
    if isinstance(tick, TickStepResult):
        return str(tick.step_id)
    return type(tick.event).__name__ if isinstance(tick, TickAddEvent) else tick.type


def _is_from_outside(tick: WorkflowTick) -> bool:
    """Return whether an event came from outside: those that steps send have a key, and retried ones a number."""
    keys = ("emission", "attempts", "work_item_id")
    return isinstance(tick, TickAddEvent) and all(getattr(tick, key, None) is None for key in keys)


def _waits(tick: WorkflowTick) -> bool:
    return isinstance(tick, TickStepResult) and any(isinstance(result, AddWaiter) for result in tick.result)


# -- every runtime ---------------------------------------------------------------------------------------------------


def subscribe(recorder: TickRecorder) -> None:
    """Pass the ticks of all workflow runs that begin from now on to a recorder."""
    with _lock:
        if not _recorders:
            _listen()
        _recorders.append(recorder)


def subscribe_to_taped(recorder: TickRecorder) -> None:
    """Pass the ticks of all workflow runs on a `TapeRuntime` to a recorder, for good."""
    _of_taped.append(recorder)


def unsubscribe(recorder: TickRecorder) -> None:
    """Undo `subscribe`; from active runs, the recorder gets all ticks to their end."""
    with _lock:
        _recorders.remove(recorder)
        if not _recorders:
            _undo.close()


def _listen() -> None:
    for cls in _runtimes(Runtime):
        if not issubclass(cls, BaseRuntimeDecorator) and "get_internal_adapter" in vars(cls):
            wrappers = Wrappers()
            wrappers.patch(cls, "get_internal_adapter", _listening_run)
            _undo.enter_context(wrappers)


def _runtimes(cls: Any) -> Iterator[type[Runtime]]:
    for below in cls.__subclasses__():
        yield below
        yield from _runtimes(below)


def _listening_run(real: Callable[..., InternalRunAdapter]) -> Callable[..., InternalRunAdapter]:
    @functools.wraps(real)
    def get_internal_adapter(self: Any, workflow: Workflow) -> InternalRunAdapter:
        return listening(real(self, workflow))

    return get_internal_adapter

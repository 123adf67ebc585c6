"""The effects of a tool on the workflow that it is called in, in addition to its return value.

A tool may write into the state of its workflow, write events to the stream, send events to steps, and wait for a
person. Its effects are noted while it is executed, and applied again, in order, when it is replayed. Only the run
itself can end a wait: the wait is repeated like every other effect, and pauses the step as in the recording.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

from llama_index.core.async_utils import asyncio_run
from llama_index.core.workflow import Context
from pydantic import BaseModel
from workflows.errors import WorkflowRuntimeError

from agenttape_core.errors import AgentTapeError
from agenttape_core.integration import SessionCall, loaded_class, value_codec
from agenttape_llamaindex._compat import belongs_to_run, resolved_waits, run_of, state_items, unset_state_item

# -- The changes that a tool makes in the state of its workflow: found, in the smallest pieces, and applied again.

_OPAQUE = object()


def snapshot(state: Any) -> dict[str, Any]:
    """Return the items of a state as fresh values, with a marker for values that can't be written, such as a memory."""
    codec, fresh = value_codec(), {}
    for key, value in state_items(state).items():
        try:
            fresh[key] = codec.decode(codec.encode(value))
        except AgentTapeError:
            fresh[key] = _OPAQUE
    return fresh


def changes_between(before: Any, after: Any, path: tuple[str | int, ...] = ()) -> list[dict[str, Any]]:
    """Return the changes that turn one value into another, in the smallest pieces.

    Parallel calls may change different places of one value, and each must note only its own.
    """
    if type(before) is dict and type(after) is dict:
        changes: list[dict[str, Any]] = [{"unset": [*path, key]} for key in before if key not in after]
        for key, value in after.items():
            if key not in before:
                changes.append({"at": [*path, key], "value": value})
            else:
                changes += changes_between(before[key], value, (*path, key))
        return changes
    if before is after or (type(before) is type(after) and before == after):
        return []
    if type(before) is list and type(after) is list and len(after) > len(before) and after[: len(before)] == before:
        return [{"at": [*path], "append": after[len(before) :]}]
    return [{"at": [*path], "value": after}]


async def apply_changes(store: Any, effect: dict[str, Any]) -> None:
    """Make the changes of a recorded effect in a store of state."""
    if effect["state"] == "set":
        await store.set(effect["path"], effect["value"])
    elif effect["state"] == "clear":
        await store.clear()
    else:
        async with store.edit_state() as state:
            for change in effect["changes"]:
                _change(state, change)


def _change(state: Any, change: dict[str, Any]) -> None:
    *above, last = change["unset"] if "unset" in change else change["at"]
    where = state
    for key in above:
        where = _get(where, key)
    if "append" in change:
        _get(where, last).extend(change["append"])
    elif "unset" in change:
        if isinstance(where, BaseModel):
            unset_state_item(where, last)
        else:
            del where[last]
    elif isinstance(where, BaseModel):
        setattr(where, last, change["value"])
    else:
        where[last] = change["value"]


def _get(where: Any, key: Any) -> Any:
    return getattr(where, key) if isinstance(where, BaseModel) else where[key]


class NotedCall(Protocol):
    """A call whose effects can be noted: a call, or what represents one that is only observed."""

    @property
    def is_replayed(self) -> bool:
        """True if it is answered without being executed."""

    def effected(self, value: Any) -> None:
        """Note an effect that it has just had."""


@dataclass(frozen=True, slots=True)
class _Noting:
    """A call whose effects are being noted, with the run and the store of state that they are effects on."""

    call: NotedCall
    run: Any
    store: Any


_noting: ContextVar[tuple[_Noting, ...]] = ContextVar("agenttape_noting_effects", default=())


class Effects:
    """The effects of calls in one context of a workflow.

    Args:
        context: The context, if there is one.
    """

    def __init__(self, context: Context[Any] | None) -> None:
        self._context = context

    def answers(self) -> list[Any]:
        """Return the events that the step has waited for and received: they belong to the request of its calls."""
        return resolved_waits()

    @contextmanager
    def noted(self, call: NotedCall | SessionCall) -> Iterator[None]:
        """Note the effects of a call on the context while inside, if the call is executed."""
        if call.is_replayed or self._context is None:
            yield
            return
        before = _noting.get()
        _noting.set((*before, _Noting(call, run_of(self._context), _store_of(self._context))))
        try:
            yield
        finally:
            _noting.set(before)

    def apply(self, effect: dict[str, Any]) -> None:
        """Apply a recorded effect again, from synchronous code."""
        if "event" in effect or "send" in effect:
            self._apply_event(effect)
        else:
            asyncio_run(self.aapply(effect))

    async def aapply(self, effect: dict[str, Any]) -> None:
        """Apply a recorded effect again.

        Raises `WaitingForEvent` if it waited for an event that has not come in this run: the workflow pauses the step.
        """
        context = self._context
        if context is None:
            return
        if "state" in effect:
            await apply_changes(context.store, effect)
        elif "wait" in effect:
            await context.wait_for_event(
                _event_class(effect["wait"]),
                waiter_event=effect["event_for"],
                waiter_id=effect["id"],
                requirements=effect["requirements"],
                timeout=effect["timeout"],
            )
        else:
            self._apply_event(effect)

    def _apply_event(self, effect: dict[str, Any]) -> None:
        if self._context is None:
            return
        if "event" in effect:
            self._context.write_event_to_stream(effect["event"])
        else:
            self._context.send_event(effect["send"], effect["step"])


def effects_of(context: Any) -> Effects:
    """Return the effects of a call.

    Without a `context`, its effects are those on the context of the step that it is made in.
    """
    if isinstance(context, Context):
        return Effects(context)
    with suppress(WorkflowRuntimeError):
        return Effects(Context.get_step_context())
    return Effects(None)


def note_on_run(face: Any, effect: Callable[[], dict[str, Any]]) -> None:
    """Note an effect on a run with all calls whose context belongs to it.

    `face` is the inner side of a context of the run.
    """
    for noting in _noting.get():
        if belongs_to_run(face, noting.run):
            noting.call.effected(effect())


def note_on_store(store: Any, effect: Callable[[], dict[str, Any]]) -> None:
    """Note an effect on a store of state with all calls whose context has that store."""
    for noting in _noting.get():
        if noting.store is store:
            noting.call.effected(effect())


def notes_store(store: Any) -> bool:
    """Return whether effects on a store of state are being noted."""
    return any(noting.store is store for noting in _noting.get())


def _store_of(context: Context[Any]) -> Any:
    try:
        return context.store
    except RuntimeError:  # a runtime that keeps no state
        return None


def _event_class(name: str) -> Any:
    found = loaded_class(name)
    if found is None:
        raise AgentTapeError(
            f"the recorded call waited for an event of the class {name}, which is not loaded\n"
            "  import the module of that class before the replay, or record the call again"
        )
    return found

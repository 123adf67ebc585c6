"""What a tool does to the workflow that it is called in, besides returning.

A tool may write into the state of its workflow, tell events to the stream, send events to steps, and wait for a person.
What it does is noted while it is executed, and done again, in order, when it is served. Whether a wait is over, only
the run can say: it is made again like everything else, and pauses the step as it did in the recording.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Lock
from typing import Any, Protocol

from llama_index.core.async_utils import asyncio_run
from llama_index.core.workflow import Context
from workflows.context.state_store import StateStoreFacade
from workflows.errors import WorkflowRuntimeError

from agenttape_core import AgentTapeError
from agenttape_core.integration import class_name, loaded_class
from agenttape_llamaindex._compat import RUNNING_CONTEXT, belongs_to_run, resolved_waits, run_of
from agenttape_llamaindex.state_changes import changed, pictured, write_again


class Noted(Protocol):
    """A call whose effects can be noted: a crossing, or what stands for one that is only observed."""

    @property
    def is_served(self) -> bool:
        """Whether it is answered without being executed."""

    def effected(self, value: Any) -> None:
        """Note something that it has just done."""


@dataclass(frozen=True, slots=True)
class _Noting:
    """A call whose effects are being noted."""

    crossing: Noted
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
        """Return the events that the step has waited for and got, as plain data: they belong to what is asked."""
        return resolved_waits()

    @contextmanager
    def noted(self, crossing: Noted) -> Iterator[None]:
        """Note what is done to the context while inside, if the call is executed."""
        if crossing.is_served or self._context is None:
            yield
            return
        before = _noting.get()
        _noting.set((*before, _Noting(crossing, run_of(self._context), _store_of(self._context))))
        try:
            yield
        finally:
            _noting.set(before)

    def apply(self, effect: dict[str, Any]) -> None:
        """Do again what a call did, from synchronous code."""
        if "event" in effect or "send" in effect:
            self._tell(effect)
        else:
            asyncio_run(self.aapply(effect))

    async def aapply(self, effect: dict[str, Any]) -> None:
        """Do again what a call did.

        Raises:
            WaitingForEvent: Where it waited for an event that has not come in this run: the workflow pauses the step.
        """
        context = self._context
        if context is None:
            return
        if "state" in effect:
            await write_again(context.store, effect)
        elif "wait" in effect:
            await context.wait_for_event(
                _event_class(effect["wait"]),
                waiter_event=effect["event_for"],
                waiter_id=effect["id"],
                requirements=effect["requirements"],
                timeout=effect["timeout"],
            )
        else:
            self._tell(effect)

    def _tell(self, effect: dict[str, Any]) -> None:
        if self._context is None:
            return
        if "event" in effect:
            self._context.write_event_to_stream(effect["event"])
        else:
            self._context.send_event(effect["send"], effect["step"])


def effects_of(context: Any) -> Effects:
    """Return the effects of a call.

    Args:
        context: The context that it is given, if it is; else the one of the step that it is made in counts.
    """
    if isinstance(context, Context):
        return Effects(context)
    with suppress(WorkflowRuntimeError):
        return Effects(Context.get_step_context())
    return Effects(None)


def _store_of(context: Context[Any]) -> Any:
    try:
        return context.store
    except RuntimeError:  # a runtime that keeps no state
        return None


def _event_class(name: str) -> Any:
    return loaded_class(name) or _unknown(name)


def _unknown(name: str) -> Any:
    raise AgentTapeError(f"the recorded call waited for an event of the class {name}, which is not loaded")


# -- noting: what the patched methods of contexts and stores call -----------------------------------------------------


def noting_run(real: Callable[..., Any], describe: Callable[..., dict[str, Any]]) -> Callable[..., Any]:
    """Wrap a method of a running context so that calls whose context it is note what it does."""

    @functools.wraps(real)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        for noting in _noting.get():
            if belongs_to_run(self, noting.run):
                noting.crossing.effected(describe(*args, **kwargs))
        return real(self, *args, **kwargs)

    return method


def described_event(ev: Any) -> dict[str, Any]:
    """Describe an event that is told to the stream."""
    return {"event": ev}


def described_send(message: Any, step: str | None = None) -> dict[str, Any]:
    """Describe an event that is sent to steps."""
    return {"send": message, "step": step}


def described_wait(
    event_type: type,
    waiter_event: Any = None,
    waiter_id: str | None = None,
    requirements: Mapping[str, Any] | None = None,
    timeout: float | None = 2000,
) -> dict[str, Any]:
    """Describe a wait for an event."""
    return {
        "wait": class_name(event_type),
        "event_for": waiter_event,
        "id": waiter_id,
        "requirements": dict(requirements or {}),
        "timeout": timeout,
    }


def noting_set(real: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `set` of a store of state."""

    async def set(self: Any, path: str, value: Any) -> None:  # noqa: A001 - it becomes the method of that name
        await real(self, path, value)
        _note(self, lambda: {"state": "set", "path": path, "value": value})

    return set


def noting_clear(real: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `clear` of a store of state."""

    async def clear(self: Any) -> None:
        await real(self)
        _note(self, lambda: {"state": "clear"})

    return clear


def noting_set_state(real: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `set_state` of a store of state: what is noted is what it changed."""

    async def set_state(self: Any, state: Any) -> None:
        before = pictured(await self.get_state()) if _notes(self) else {}
        await real(self, state)
        if _notes(self):
            changes = changed(before, pictured(await self.get_state()))
            _note(self, lambda: {"state": "edit", "changes": changes})

    return set_state


def noting_edit_state(real: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `edit_state` of a store of state likewise."""

    def edit_state(self: Any) -> Any:
        return _Editing(self, real(self)) if _notes(self) else real(self)

    return edit_state


class _Editing:
    """An edit of a state, whose changes are noted when it is committed."""

    def __init__(self, store: Any, edit: Any) -> None:
        self._store = store
        self._edit = edit
        self._before: dict[str, Any] = {}

    async def __aenter__(self) -> Any:
        state = await self._edit.__aenter__()
        self._before = pictured(await self._store.get_state())
        return state

    async def __aexit__(self, kind: object, error: object, traceback: object) -> Any:
        ended = await self._edit.__aexit__(kind, error, traceback)
        if kind is None:
            changes = changed(self._before, pictured(await self._store.get_state()))
            _note(self._store, lambda: {"state": "edit", "changes": changes})
        return ended


def _notes(store: Any) -> bool:
    return any(noting.store is store for noting in _noting.get())


def _note(store: Any, describe: Callable[[], dict[str, Any]]) -> None:
    for noting in _noting.get():
        if noting.store is store:
            noting.crossing.effected(describe())


STORE_METHODS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "set": noting_set,
    "clear": noting_clear,
    "set_state": noting_set_state,
    "edit_state": noting_edit_state,
}
"""What is wrapped of every store of state while sessions are open."""
STATE_STORE = StateStoreFacade
RUN_METHODS: dict[str, Callable[..., dict[str, Any]]] = {
    "write_event_to_stream": described_event,
    "send_event": described_send,
    "wait_for_event": described_wait,
}
"""What is wrapped of every context of a running step while sessions are open."""


class _Patches:
    """What stands in the place of methods of the framework as long as anyone needs it."""

    def __init__(self) -> None:
        self._users = 0
        self._stack = ExitStack()
        self._lock = Lock()

    def enter(self) -> None:
        with self._lock:
            if self._users == 0:
                for name, describe in RUN_METHODS.items():
                    self._patch(RUNNING_CONTEXT, name, noting_run(getattr(RUNNING_CONTEXT, name), describe))
                for name, wrap in STORE_METHODS.items():
                    self._patch(STATE_STORE, name, wrap(getattr(STATE_STORE, name)))
            self._users += 1

    def _patch(self, where: Any, name: str, method: Callable[..., Any]) -> None:
        real = getattr(where, name)
        setattr(where, name, method)
        self._stack.callback(setattr, where, name, real)

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._stack.close()


_patches = _Patches()


@contextmanager
def noting_effects() -> Iterator[None]:
    """Note effects while inside."""
    _patches.enter()
    try:
        yield
    finally:
        _patches.leave()

"""Hooks in the contexts and the stores of state of workflows, by which the effects of executed calls are noted."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from workflows.context.state_store import StateStoreFacade

from agenttape_core.integration import class_name
from agenttape_core.integration.patching import Wrappers
from agenttape_llamaindex._compat import RUNNING_CONTEXT
from agenttape_llamaindex.effects import changes_between, note_on_run, note_on_store, notes_store, snapshot

# -- events and waits -------------------------------------------------------------------------------------------------


def _noting_call(describe: Callable[..., dict[str, Any]], real: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method of a running context: each call of it that does not fail is noted as an effect."""

    @functools.wraps(real)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        done = real(self, *args, **kwargs)
        note_on_run(self, lambda: describe(*args, **kwargs))
        return done

    return method


def _described_event(ev: Any) -> dict[str, Any]:
    return {"event": ev}


def _described_send(message: Any, step: str | None = None) -> dict[str, Any]:
    return {"send": message, "step": step}


def _described_wait(
    event_type: type,
    waiter_event: Any = None,
    waiter_id: str | None = None,
    requirements: Mapping[str, Any] | None = None,
    timeout: float | None = 2000,
) -> dict[str, Any]:
    return {
        "wait": class_name(event_type),
        "event_for": waiter_event,
        "id": waiter_id,
        "requirements": dict(requirements or {}),
        "timeout": timeout,
    }


_CONTEXT_METHODS: dict[str, Callable[..., dict[str, Any]]] = {
    "write_event_to_stream": _described_event,
    "send_event": _described_send,
    "wait_for_event": _described_wait,
}
"""The methods of a running context that have effects, and the descriptions of these.

The descriptions have the parameters of the methods, by the same names and with the same defaults.
"""

# -- state ------------------------------------------------------------------------------------------------------------


def _noting_set(real: Callable[..., Any]) -> Callable[..., Any]:
    async def set(self: Any, path: str, value: Any) -> None:  # noqa: A001 - it becomes the method of that name
        await real(self, path, value)
        note_on_store(self, lambda: {"state": "set", "path": path, "value": value})

    return set


def _noting_clear(real: Callable[..., Any]) -> Callable[..., Any]:
    async def clear(self: Any) -> None:
        await real(self)
        note_on_store(self, lambda: {"state": "clear"})

    return clear


def _noting_set_state(real: Callable[..., Any]) -> Callable[..., Any]:
    async def set_state(self: Any, state: Any) -> None:
        before = snapshot(await self.get_state()) if notes_store(self) else {}
        await real(self, state)
        if notes_store(self):
            await _note_edit(self, before)

    return set_state


def _noting_edit_state(real: Callable[..., Any]) -> Callable[..., Any]:
    def edit_state(self: Any) -> Any:
        return _Edit(self, real(self)) if notes_store(self) else real(self)

    return edit_state


class _Edit:
    """An edit of a state, whose changes are noted when it is committed."""

    def __init__(self, store: Any, edit: Any) -> None:
        self._store = store
        self._edit = edit
        self._before: dict[str, Any] = {}

    async def __aenter__(self) -> Any:
        state = await self._edit.__aenter__()
        self._before = snapshot(await self._store.get_state())
        return state

    async def __aexit__(self, kind: object, error: object, traceback: object) -> Any:
        ended = await self._edit.__aexit__(kind, error, traceback)
        if kind is None:
            await _note_edit(self._store, self._before)
        return ended


async def _note_edit(store: Any, before: dict[str, Any]) -> None:
    changes = changes_between(before, snapshot(await store.get_state()))
    note_on_store(store, lambda: {"state": "edit", "changes": changes})


_STORE_METHODS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "set": _noting_set,
    "clear": _noting_clear,
    "set_state": _noting_set_state,
    "edit_state": _noting_edit_state,
}
"""The methods of a store of state that have effects, and their wrappers."""

# -- installation -----------------------------------------------------------------------------------------------------


def _install(wrappers: Wrappers) -> None:
    for name, describe in _CONTEXT_METHODS.items():
        wrappers.patch(RUNNING_CONTEXT, name, functools.partial(_noting_call, describe))
    for name, wrap in _STORE_METHODS.items():
        wrappers.patch(StateStoreFacade, name, wrap)


EFFECTS_NOTED = Wrappers(_install)
"""While inside, the effects of executed calls are noted. Sessions and observers may be inside in parallel."""

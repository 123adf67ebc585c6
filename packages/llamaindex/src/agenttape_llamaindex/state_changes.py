"""The changes that a tool makes in the state of its workflow: found, in the smallest pieces, and applied again."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from agenttape_core.errors import AgentTapeError
from agenttape_core.integration import value_codec
from agenttape_llamaindex._compat import state_items, unset_state_item

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

"""What a tool changes in the state of its workflow, in pieces as small as they are, and how it is changed again."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from agenttape_core import AgentTapeError
from agenttape_core.integration import value_codec
from agenttape_llamaindex._compat import state_items, unset_state_item

_OPAQUE = object()


def pictured(state: Any) -> dict[str, Any]:
    """Return the items of a state as fresh values; what cannot be written, such as a memory, is left out."""
    codec, pictured = value_codec(), {}
    for key, value in state_items(state).items():
        try:
            pictured[key] = codec.decode(codec.encode(value))
        except AgentTapeError:
            pictured[key] = _OPAQUE
    return pictured


def changed(before: Any, after: Any, path: tuple[str | int, ...] = ()) -> list[dict[str, Any]]:
    """Return what turns one value into another, in as small pieces as there are.

    Several calls that run at once may change different places of one value; each notes only its own.
    """
    if type(before) is dict and type(after) is dict:
        changes: list[dict[str, Any]] = [{"unset": [*path, key]} for key in before if key not in after]
        for key, value in after.items():
            if key not in before:
                changes.append({"at": [*path, key], "value": value})
            else:
                changes += changed(before[key], value, (*path, key))
        return changes
    if before is after or (type(before) is type(after) and before == after):
        return []
    if type(before) is list and type(after) is list and len(after) > len(before) and after[: len(before)] == before:
        return [{"at": [*path], "append": after[len(before) :]}]
    return [{"at": [*path], "value": after}]


async def write_again(store: Any, effect: dict[str, Any]) -> None:
    """Do to a store of state what a call did to it."""
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

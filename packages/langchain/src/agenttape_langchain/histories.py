"""Substitute chat message histories that keep their messages outside of the process.

A history whose `messages` is a plain attribute, or whose class is declared, keeps them in the process as part of the
program, so it isn't a boundary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.chat_history import BaseChatMessageHistory

from agenttape_core.errors import ConfigurationError
from agenttape_core.integration import Family, InMemoryClasses, Leaf, SessionCall, named_arguments, plain
from agenttape_langchain.requests import Method, Methods, begin_method, leaves_of

METHODS: Methods = {
    "messages": Method(("messages",)),
    "add_messages": Method(("messages",), writes=True),
    "clear": Method(("messages",), writes=True),
}

_IN_MEMORY = InMemoryClasses((), ())


def refuse_history_in_process(obj: object) -> None:
    """Refuse a history whose messages are part of the user's code. Raises `ConfigurationError` if the object is one."""
    if isinstance(obj, BaseChatMessageHistory) and not _is_elsewhere(type(obj)):
        raise ConfigurationError(
            f"cannot tape {type(obj).__module__}.{type(obj).__qualname__}: it keeps its messages in the process, where "
            "a replay finds them as a recording did\n"
            "  use it as it is"
        )


def _is_elsewhere(cls: type) -> bool:
    """Return whether reading the messages is a call."""
    return isinstance(getattr(cls, "messages", None), property) and cls not in _IN_MEMORY


def _cross_one(self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SessionCall | None:
    """Begin the call of adding one message, which is the same request as adding a list of one."""
    (message,) = named_arguments(type(self).add_message, ("message",), args, kwargs).values()
    return begin_method("add_messages", METHODS["add_messages"], self, ([message],), {})


def _within_property(real: property, make: Callable[[Any], Any]) -> property:
    return property(make(real.fget), real.fset, real.fdel, real.__doc__)


_LEAVES = leaves_of(METHODS, lambda _: False)
_LEAVES["aget_messages"] = _LEAVES.pop("amessages")

HISTORIES = Family(
    BaseChatMessageHistory,
    {
        **_LEAVES,
        "messages": _LEAVES["messages"]._replace(within=_within_property),
        "add_message": Leaf(plain, _cross_one),
    },
    defaults=frozenset({"aget_messages", "add_message", "add_messages", "aadd_messages", "aclear"}),
    is_boundary=_is_elsewhere,
)
"""Every chat message history that reads its messages from outside of the process."""

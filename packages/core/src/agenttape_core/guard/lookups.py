"""The answers of name look-ups, shown to whoever watches.

Clients look up a name and then connect to a number, so the answer shows which name a number belongs to. While someone
watches, the resolver functions of the `_socket` module (through which `socket.getaddrinfo` goes, however it was
imported) are wrapped. No second look-up is made, whose answer could differ.
"""

from __future__ import annotations

import _socket
import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from agenttape_core.guard.hosts import text
from agenttape_core.guard.patching import Watchers, Wrappers

if TYPE_CHECKING:
    import types

Learner = Callable[[str, list[str]], object]  # called with a name and the addresses that were found for it


def _wrap(wrappers: Wrappers) -> None:
    for module, name, addresses_in in _RESOLVERS:
        wrappers.patch(module, name, partial(_remembering, addresses_in))


LOOKUPS: Watchers[Learner] = Watchers(_wrap)  # the answer of each look-up is shown to these


def _remembering(addresses_in: Callable[[Any], list[str]], real: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a resolver function."""

    def resolve(*args: Any, **kwargs: Any) -> Any:
        answer = real(*args, **kwargs)
        host = text(args[0] if args else kwargs.get("host"))
        for learner in LOOKUPS.all:
            learner(host, addresses_in(answer))
        return answer

    return resolve


def _in_infos(infos: list[tuple[Any, ...]]) -> list[str]:
    return [str(info[4][0]) for info in infos]


_RESOLVERS: tuple[tuple[types.ModuleType, str, Callable[[Any], list[str]]], ...] = (
    (_socket, "getaddrinfo", _in_infos),
    (socket, "gethostbyname", lambda address: [address]),
    (socket, "gethostbyname_ex", lambda answer: list(answer[2])),
)

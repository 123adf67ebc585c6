"""Decide if the code of a call comes near a client that can't be watched (`clients`).

That such a package is loaded means little: an SDK of some provider loads grpc, and no tool has to do with it. So the
code is followed by name (`following`): if a loaded client, or one of its objects, is found, the call can't be recorded
as free of side effects. This errs on the side of having met one: code that is named counts, whether or not it ran.
"""

from __future__ import annotations

import sys
from typing import Any

from agenttape_core.side_effects.handles import Handle, side_effect_count

_MOST = 1000  # the greatest number of answers that are remembered, with the objects that they are about


class UnwatchedCode:
    """Finds the things that calls may have done unseen, and remembers them until more is loaded, or something is done.

    What is done may be the opening of a handle.
    """

    def __init__(self) -> None:
        self._loaded: frozenset[str] = frozenset()
        self._state = (-1, -1)
        self._known: dict[tuple[int, int, bool], tuple[Any, str]] = {}

    def by(self, code: Any, given: tuple[Any, ...] = (), *, opened_database: bool, is_automatic: bool = True) -> str:
        """Return the possible unobserved side effect of a call's code, in words; empty if there is no sign of one.

        `code` is a function, a method, or an object with a method for it; `given` are arguments of the call that its
        request does not hold. If the code `opened_database` itself, in memory or not, it doesn't need an older one.
        """
        from agenttape_core.side_effects.clients import CLIENTS, DATABASE, GO_BETWEENS  # only a recording needs these
        from agenttape_core.side_effects.following import TOO_FAR, met

        loop = _running_loop()
        if loop:
            return f"ran in an event loop of {loop}, whose connections are made by C code"
        found = self._met(code, is_automatic)
        if not found and given:
            found = met(given, self._loaded, is_automatic=is_automatic).what
        if isinstance(found, Handle):
            return found
        if found == DATABASE:
            return "" if opened_database else "may use a database of sqlite3 that was open before"
        if found in GO_BETWEENS:
            return f"uses {found}, which works through a client that cannot be watched"
        if found == TOO_FAR:
            return "is too much code to be sure that it does nothing outside"
        return f"uses {found}, which cannot be watched: {CLIENTS[found]}" if found else ""

    def _met(self, code: Any, is_automatic: bool) -> str:
        from agenttape_core.side_effects.following import met

        state = len(sys.modules), side_effect_count.number
        if state != self._state:
            self._state = state
            self._loaded = _loaded()
            self._known.clear()
        if len(self._known) >= _MOST:
            self._known.clear()
        function, receiver = getattr(code, "__func__", code), getattr(code, "__self__", None)
        key = id(function), id(receiver), is_automatic  # each look at a method makes an object
        known = self._known.get(key)
        if known is not None:
            return known[1]
        found = met(code, self._loaded, is_automatic=is_automatic)
        if found.what or not found.is_near:  # else a handle may be there when it is called again
            self._known[key] = code, found.what  # the object is kept, or its number could become that of another
        return found.what


def _running_loop() -> str:
    from agenttape_core.side_effects.clients import LOOPS

    asyncio = sys.modules.get("asyncio")
    loop = asyncio._get_running_loop() if asyncio is not None else None  # noqa: SLF001 - documented, for event loops
    package = type(loop).__module__.partition(".")[0]
    return package if package in LOOPS else ""


def _loaded() -> frozenset[str]:
    """Return the names of those that are loaded, and are not modules of the program that have the same name."""
    from agenttape_core.side_effects.clients import CLIENTS, DATABASE, GO_BETWEENS
    from agenttape_core.side_effects.following import is_own

    modules = sys.modules
    through = (name for name, others in GO_BETWEENS.items() if any(other in modules for other in others))
    found = (name for name in (*CLIENTS, *through, DATABASE) if name in modules)
    return frozenset(name for name in found if not is_own(name))

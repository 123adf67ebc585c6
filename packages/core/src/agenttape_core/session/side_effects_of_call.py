"""The side effects of one call, while it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agenttape_core.schema import SideEffect
from agenttape_core.side_effects import SideEffectEvent, UnwatchedCode, line_of

_MOST = 20


class SideEffectsOfCall:
    """The side effects of the code of a call outside the process. Thread-safe."""

    __slots__ = ("_found", "_opened_database", "has_ended", "on_side_effect")

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], None] = {}
        self._opened_database = False
        self.has_ended = False  # true if the call has ended: what happens now is not recorded with it
        self.on_side_effect: Callable[[SideEffect], object] | None = None
        """Called before each of them; it is not done if this raises."""

    def __bool__(self) -> bool:
        """Return True if there are any so far."""
        return bool(self._found)

    def add(self, event: SideEffectEvent, code: Any) -> None:
        """Note something that the call is about to do."""
        if event.kind == "private":
            self._opened_database = True
            return
        at = event.place.inside or _line_of(code) or event.place.anywhere
        if self.on_side_effect is not None:
            self.on_side_effect(SideEffect(what=event.what, at=at))
        self._found[event.what, at] = None

    def ended(
        self, code: Any, unseen: UnwatchedCode, given: tuple[Any, ...] = (), *, is_automatic: bool
    ) -> list[SideEffect]:
        """End the call, and return the side effects to record: up to `_MOST`, and the number of the others.

        `unseen` finds side effects that may have gone unobserved; `given` are arguments that the request does not hold;
        with `is_automatic`, untaped objects are boundaries as well.
        """
        self.has_ended = True
        found = [SideEffect(what=what, at=at) for what, at in list(self._found)]
        if not found:
            what = unseen.by(code, given, opened_database=self._opened_database, is_automatic=is_automatic)
            return [SideEffect(what=what, at=_line_of(code))] if what else []
        more = len(found) - _MOST
        return [*found[:_MOST], SideEffect(what=f"and {more} more")] if more > 0 else found


def _line_of(code: Any) -> str:
    """Return where the code of a call begins, as far as that is known."""
    return line_of(code) if code is not None else ""

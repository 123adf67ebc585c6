"""The callable that takes a real function's place and asks, at each call, what to do."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from agenttape_core.freeze.callers import ASKING, MAKERS, ask, calling_frame
from agenttape_core.freeze.frozen import Frozen, Lookup
from agenttape_core.freeze.gc_state import COLLECTING, is_collecting
from agenttape_core.freeze.references import unexchanged
from agenttape_core.guard import is_tracer

Replacement = Callable[[Frozen, Callable[..., Any]], Callable[..., Any]]
"""Given the frozen state and the real function, returns the function to call instead."""


_PASSING = frozenset(
    {
        *(f"agenttape_core.freeze.{name}" for name in ("dates", "frozen_function", "ids", "randomness", "references")),
        *MAKERS,
    }
)
"""The modules between the code that asks and `active`: ours, and those whose functions have our code."""


class _Installed:
    """The lookup of all open sessions, while there are any."""

    lookup: Lookup | None = None


installed = _Installed()

_DRAWN = frozenset({"clock", "numpy", "random", "uuid"})  # the kinds of values that a program draws
_listeners: list[Callable[[str], object]] = []


def register_real_draws(listener: Callable[[str], object]) -> None:
    """Register the listener for draws of an id, a number or a time by the program that no session freezes.

    `listener` is called with the kind, in the thread of the code.
    """
    _listeners.append(listener)


def active(kind: str, *, is_of_framework: bool = False) -> Frozen | None:
    """Return the frozen state of the caller's session, if it freezes this kind.

    Not for a tracer: its spans have real times and their own ids; and the program's draws must be the same whether it
    is traced or not. Nor for finalizers that the garbage collector runs: see `gc_state`. With `is_of_framework`, the
    code that asks is a framework's, and so no tracer.
    """
    frozen = current()
    if frozen is None or (kind in _DRAWN and (frozen.was_observed or (COLLECTING and is_collecting()))):
        if kind in _DRAWN:
            tell_real_draw(kind)
        return None
    if kind not in frozen.kinds:
        return None
    frame = None if is_of_framework else calling_frame(_PASSING)
    if frame is not None and is_tracer(frame):
        return None
    if frozen.tell_draw is not None and kind in _DRAWN:
        ask(functools.partial(frozen.tell_draw, kind))
    return frozen


def tell_real_draw(kind: str) -> None:
    """Tell those who want to know it that something real is drawn here."""
    if installed.lookup is not None and not ASKING.now:
        for listener in _listeners:
            ask(functools.partial(listener, kind))


def current() -> Frozen | None:
    """Return the frozen state of the caller's session, with whatever kinds it freezes."""
    lookup = installed.lookup
    if lookup is None or ASKING.now:
        return None
    ASKING.now = True  # as `ask` does, for what is asked most often
    try:
        return lookup()
    finally:
        ASKING.now = False


class FrozenFunction:
    """Stands in for a function wherever a module holds it.

    An object instead of a plain function, because builtins do not bind as methods when a class body holds them. It is
    equal to the real function, because some packages keep functions as keys: numba, which compiles calls of the
    functions in its table, would find none after a session that imported it.

    `kind` is one of `KINDS`, `None` if every session has its own way; `replacement` is called for a session that
    freezes it, and `otherwise`, with the real function and the arguments, outside of sessions. With `is_of_framework`,
    it's in one place, a module of a framework that isn't a tracer.
    """

    __wrapped__: Callable[..., Any]
    is_stand_in = True

    def __init__(
        self,
        real: Callable[..., Any],
        kind: str | None,
        replacement: Replacement,
        otherwise: Callable[..., Any] | None = None,
        *,
        is_of_framework: bool = False,
    ) -> None:
        functools.update_wrapper(self, real)
        self._is_of_framework = is_of_framework
        self._kind = kind
        self._replacement = replacement
        self._otherwise = otherwise
        self._known = real
        self.unexchanged = unexchanged(real)  # does the same as the real function while that one is replaced as well
        self._hash = hash(real)  # that of a function in C is another one while it is exchanged

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the replacement for a session that freezes the kind, else the real function."""
        kind = self._kind
        frozen = active(kind, is_of_framework=self._is_of_framework) if kind is not None else current()
        real = self.unexchanged if self.__wrapped__ is self._known else self.__wrapped__
        if frozen is None:
            return real(*args, **kwargs) if self._otherwise is None else self._otherwise(real, *args, **kwargs)
        return self._replacement(frozen, real)(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return self.__wrapped__ == (other.__wrapped__ if isinstance(other, FrozenFunction) else other)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return repr(self.__wrapped__)

    def __reduce__(self) -> str | tuple[Any, ...]:
        # As functions do: by the name under which the home module has it, which is this object while installed.
        return str(self.__wrapped__.__name__)

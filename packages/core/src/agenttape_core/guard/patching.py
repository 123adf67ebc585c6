"""Functions that are wrapped for a while, beside other tools that wrap the same ones.

Whoever wraps a function later, and is done later, puts ours back when our time is over: the mock of a test, a detector
of blocking calls, an instrumentor. Then it does nothing, but the next one must not be put around it. Else each session
of a suite adds one, until a call has as many frames as Python allows.
"""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack

_ABSENT = object()


class Left:
    """Wrappers of ours that somebody else may put back after their time, and what stood below each."""

    def __init__(self) -> None:
        self._below: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    def __bool__(self) -> bool:
        return bool(self._below)

    def add(self, ours: Any, below: Any) -> None:
        """Note a wrapper in the place of which stands somebody else's.

        Args:
            ours: The wrapper.
            below: What stood in its place.
        """
        if isinstance(ours, FunctionType):  # nothing else can be referred to weakly
            self._below[ours] = below

    def discard(self, ours: Any) -> None:
        """Note that a wrapper is put in by us."""
        if self._below and isinstance(ours, FunctionType):
            self._below.pop(ours, None)

    def below(self, found: Any) -> Any:
        """Return a function without the wrappers of ours that were left around it."""
        while isinstance(found, FunctionType) and found in self._below:
            found = self._below[found]
        return found


_left = Left()


def patch(stack: ExitStack, owner: Any, name: str, wrap: Callable[[Any], Any]) -> None:
    """Wrap a function until a stack is closed. Then it is put back, unless somebody else has replaced the wrapper.

    Args:
        stack: The stack.
        owner: The class or module.
        name: The name of the function.
        wrap: Makes the wrapper of the function.
    """
    before = _left.below(vars(owner).get(name, _ABSENT))
    ours = wrap(before if before is not _ABSENT else _inherited(owner, name))
    _left.discard(ours)
    setattr(owner, name, ours)
    stack.callback(_put_back, owner, name, ours, before)


def _put_back(owner: Any, name: str, ours: Any, before: Any) -> None:
    if vars(owner).get(name) is not ours:
        _left.add(ours, before)
    elif before is _ABSENT:
        delattr(owner, name)
    else:
        setattr(owner, name, before)


def _inherited(owner: Any, name: str) -> Any:
    return next(vars(cls)[name] for cls in owner.__mro__[1:] if name in vars(cls))

"""The receiver of a call: the first argument, if the function is a method of that object or class.

A decorator can't tell: it sees the function before there is a class, and `@staticmethod` may be above it. So the
class of the argument is searched for the function when the call is made.
"""

from __future__ import annotations

import functools
import inspect
from types import FunctionType
from typing import Any

_LONGEST_CHAIN = 20
"""The number of decorators to look through; a chain that goes in circles ends there."""


def is_method_of(function: Any, receiver: Any) -> bool:
    """Return whether a call of `function` with `receiver` as its first argument is the call of a method of it.

    Args:
        function: The function that is called.
        receiver: Its first positional argument.
    """
    if not isinstance(function, FunctionType):
        return False  # a bound method and a callable object have their receiver already
    if isinstance(receiver, type) and _has(receiver, function, of_class=True):
        return True
    return _has(type(receiver), function, of_class=False)


def _has(cls: type, function: FunctionType, *, of_class: bool) -> bool:
    """Return whether a class, or one it derives from, has the function: for itself, or for its instances."""
    return any(
        isinstance(attribute, classmethod) is of_class and _holds(attribute, function)
        for base in cls.__mro__
        if base.__module__ != "builtins"  # these cannot hold a function of Python, and are the most frequent arguments
        for attribute in list(vars(base).values())
    )


def _holds(attribute: Any, function: FunctionType) -> bool:
    """Return whether an attribute of a class is the function, however decorated, and binds its first argument."""
    for _ in range(_LONGEST_CHAIN):
        if attribute is function:
            return True
        match attribute:
            case None | staticmethod():
                return False
            case classmethod():
                attribute = attribute.__func__
            case property():
                attribute = attribute.fget
            case functools.cached_property() | functools.partialmethod():  # noqa: TID251 - of a user
                attribute = attribute.func
            case _:
                attribute = inspect.getattr_static(attribute, "__wrapped__", None)
    return False

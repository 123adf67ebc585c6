"""Attributes of classes that are written in C, which `setattr` refuses to touch.

Why the class itself is changed, and not the names that refer to it: a class is more than something to call. It is a
base, an annotation, a key, what `isinstance` and C code compare with.

A class of ours in its place must fail somewhere: extension modules take their base from `sys.modules["datetime"]` and
check its layout, others compare the type of an annotation by identity, and a class with a metaclass cannot be mixed
with another. With one method replaced, the class keeps its identity for all of them, and every reference to it is
covered, whenever it was taken.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Iterable, Mapping
from typing import Any

_IMMUTABLE = 1 << 8
"""`Py_TPFLAGS_IMMUTABLETYPE`: https://docs.python.org/3/c-api/typeobj.html#c.Py_TPFLAGS_IMMUTABLETYPE."""


class Exchange:
    """Methods of classes, each with its stand-in: put in and taken out together.

    Every session does both, so the lookups are cached, and the loops call none of our functions.

    Args:
        methods: The class that defines a method, the method's name, and what takes its place. A name that the class
            itself does not define is left alone, as versions of Python differ.
    """

    def __init__(self, methods: Iterable[tuple[type, str, Any]]) -> None:
        by_owner: dict[type, list[tuple[str, Any, Any]]] = {}
        for owner, name, stand_in in methods:
            if name in vars(owner):
                by_owner.setdefault(owner, []).append((name, vars(owner)[name], stand_in))
        self._owners = [(owner, _content(owner), named) for owner, named in by_owner.items()]

    def swap_in(self) -> None:
        """Put the stand-ins in."""
        forget = _forgetting()
        for owner, content, named in self._owners:
            for name, real, stand_in in named:
                # Anything else that is there by now is somebody else's.
                if content.get(name) is not real:
                    continue
                if type(content) is dict:
                    content[name] = stand_in
                else:
                    setattr(owner, name, stand_in)
            forget(owner)

    def swap_out(self) -> None:
        """Put the real methods back."""
        forget = _forgetting()
        for owner, content, named in self._owners:
            for name, real, stand_in in named:
                if content.get(name) is not stand_in:
                    continue
                if type(content) is dict:
                    content[name] = real
                else:
                    setattr(owner, name, real)
            forget(owner)


@functools.cache
def _content(owner: type) -> Mapping[str, Any]:
    """Return the dict behind `vars(owner)` for a class that `setattr` refuses; else the view of it.

    Code that writes into it must invalidate the interpreter's cache of the class. `PyType_Modified` "must be called
    after any manual modification of the attributes or base classes of the type":
    https://docs.python.org/3/c-api/type.html#c.PyType_Modified. It reaches the subclasses too.
    """
    if not owner.__flags__ & _IMMUTABLE:
        return vars(owner)
    (content,) = gc.get_referents(vars(owner))
    found: dict[str, Any] = content
    return found


@functools.cache
def _forgetting() -> Callable[[type], object]:
    """Return `PyType_Modified`. It is kept: if a process ends in the middle of a session, imports no longer work."""
    import ctypes  # only here: it takes milliseconds, and not every process opens a session

    modified = ctypes.pythonapi["PyType_Modified"]  # a function of our own: others may give it other arguments
    modified.argtypes, modified.restype = (ctypes.py_object,), None
    return modified

"""Attributes of classes that are written in C, which `setattr` refuses to touch.

Why the class itself is changed, and not the names that refer to it: a class is more than something to call. It is a
base, an annotation, a key, what `isinstance` and C code compare with. A class of ours in its place must fail somewhere:
extension modules take their base from `sys.modules["datetime"]` and check its layout, others compare the type of an
annotation by identity, and a class with a metaclass cannot be mixed with another. With one method exchanged, the class
stays what it is for all of them, and every reference to it is covered, whenever it was taken.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any


class Exchange:
    """Methods of classes, each with its stand-in: put in and taken out together.

    Args:
        methods: The class that defines a method, the method's name, and what takes its place. A name that the class
            itself does not define is left alone, as versions of Python differ.
    """

    def __init__(self, methods: Iterable[tuple[type, str, Any]]) -> None:
        self._methods = [
            (owner, name, vars(owner)[name], stand_in) for owner, name, stand_in in methods if name in vars(owner)
        ]

    def swap_in(self) -> None:
        """Put the stand-ins in."""
        for owner, name, real, stand_in in self._methods:
            _exchange(owner, name, real, stand_in)

    def swap_out(self) -> None:
        """Put the real methods back."""
        for owner, name, real, stand_in in self._methods:
            _exchange(owner, name, stand_in, real)


def _exchange(owner: type, name: str, old: Any, new: Any) -> None:
    # Anything else that is there by now is somebody else's.
    if vars(owner).get(name) is not old:
        return
    _assign(owner, {name: new})


@contextmanager
def replaced(owner: type, methods: Mapping[str, Any]) -> Iterator[None]:
    """Replace methods of a class that may be written in C during the block: all together, as that takes time."""
    before = {name: vars(owner)[name] for name in methods}
    _assign(owner, methods)
    try:
        yield
    finally:
        _assign(owner, before)


def _assign(owner: type, methods: Mapping[str, Any]) -> None:
    try:
        for name, method in methods.items():
            setattr(owner, name, method)
    except TypeError:
        _assign_in_c(owner, methods)


def _assign_in_c(owner: type, methods: Mapping[str, Any]) -> None:
    """Write into the dict behind `vars(owner)`, and drop what the interpreter remembers of the class.

    `PyType_Modified` "must be called after any manual modification of the attributes or base classes of the type":
    https://docs.python.org/3/c-api/type.html#c.PyType_Modified. It reaches the subclasses too.
    """
    (content,) = gc.get_referents(vars(owner))
    content.update(methods)
    _forgetting()(owner)


@functools.cache
def _forgetting() -> Callable[[type], object]:
    """Return `PyType_Modified`. It is kept: where a process ends in the midst of a session, nothing can be imported."""
    import ctypes  # only here: it takes milliseconds, and not every process opens a session

    modified, as_object = ctypes.pythonapi.PyType_Modified, ctypes.py_object
    return lambda owner: modified(as_object(owner))

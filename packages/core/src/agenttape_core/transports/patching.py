"""Methods of HTTP clients, replaced while a session records requests; mocks of other libraries keep their place."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from agenttape_core.guard.patching import Wrappers


def is_genuine(cls: type, name: str) -> bool:
    """Return whether a method is the library's own, or wraps that, as tracers do; a mock is neither."""
    place = next((each for each in cls.__mro__ if name in vars(each)), None)
    if place is None:
        return False
    method = inspect.unwrap(vars(place)[name])
    return _library(getattr(method, "__module__", None)) == _library(place.__module__)


def _library(module: Any) -> str:
    return str(module).partition(".")[0]


@contextmanager
def replacing(cls: type, name: str, around: Callable[[Any], Any]) -> Iterator[None]:
    """Replace a method while inside, unless it is another one's mock already.

    `cls` is the class in which it is written; `around` returns the method that takes the place of a real one.
    """
    if not is_genuine(cls, name):
        yield
        return
    wrappers = Wrappers()
    wrappers.patch(cls, name, lambda real: functools.wraps(real)(around(real)))
    with wrappers:
        yield

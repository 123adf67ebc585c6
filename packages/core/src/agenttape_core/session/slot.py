"""A typed place for what an integration keeps with each session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Slot(Generic[T]):
    """A typed place for what an integration keeps with each session. Define one as a constant of a module.

    Args:
        make: Makes what is kept with a session, given the session, when it is first asked for.
    """

    __slots__ = ("make",)

    def __init__(self, make: Callable[[Any], T]) -> None:
        self.make = make

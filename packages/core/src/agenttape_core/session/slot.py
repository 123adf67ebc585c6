"""A typed place for the data that an integration keeps with each session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Slot(Generic[T]):
    """A typed place for an integration's data about each session. Define one as a constant of a module.

    Args:
        make: Makes the value for a session when it is first read.
    """

    __slots__ = ("make",)

    def __init__(self, make: Callable[[Any], T]) -> None:
        self.make = make

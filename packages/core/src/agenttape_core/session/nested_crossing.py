"""A crossing that other crossings lie inside of: the chain from an executing call to the outermost one around it."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator
from typing import Any, ClassVar

from agenttape_core.matching import CanonicalRequest, Position
from agenttape_core.session.base_session import BaseSession
from agenttape_core.session.boundary import Boundary
from agenttape_core.session.ending_crossing import EndingCrossing


class NestedCrossing(EndingCrossing, ABC):
    """A call that executes, perhaps inside others that do.

    Args:
        session: The session it belongs to.
        boundary: The family of the call.
        request: The request.
        position: Where the call is made.
        owner: The object whose call it is; calls that the same object makes inside are part of this one.
        parent: The crossing that is executing around this one.
    """

    __slots__ = ("has_ended", "parent")

    is_real: ClassVar[bool] = True
    """True if the call does what it does outside; false if its code is only run through."""

    def __init__(
        self,
        session: BaseSession,
        boundary: Boundary,
        request: CanonicalRequest,
        position: Position,
        *,
        owner: Any,
        parent: NestedCrossing | None,
    ) -> None:
        super().__init__(session, boundary, request, position, owner=owner)
        self.parent = parent
        self.has_ended = False
        """True once its code has ended, however it did."""

    @property
    def is_of_program(self) -> bool:
        """True if a replay may step into it: a tool, a retriever, or other code of the program."""
        return self.boundary.may_be_stepped_into

    def is_below(self, other: NestedCrossing) -> bool:
        """True if this crossing is the other one or was begun inside it."""
        return any(crossing is other for crossing in self._outwards())

    def is_inside(self, owner: Any) -> bool:
        """True if this crossing or one around it belongs to the owner."""
        return any(crossing.owner is owner for crossing in self._outwards())

    def reaches_out(self) -> bool:
        """True if what runs for it now may reach the outside: it or one around it is executed for real, and goes on."""
        chain = list(self._outwards())
        return not any(crossing.has_ended for crossing in chain) and any(crossing.is_real for crossing in chain)

    @property
    def may_be_run_again(self) -> bool:
        """True if a replay may run its code and the code of all calls around it."""
        return all(crossing.is_of_program for crossing in self._outwards())

    @property
    def is_run_now(self) -> bool:
        """True if its code is run in a replay, and that of all calls around it."""
        return not any(crossing.is_real for crossing in self._outwards())

    def _outwards(self) -> Iterator[NestedCrossing]:
        crossing: NestedCrossing | None = self
        while crossing is not None:
            yield crossing
            crossing = crossing.parent

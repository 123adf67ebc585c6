"""A call that may be neither served nor executed, in a run that lives on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agenttape_core.errors import DriftError
from agenttape_core.matching import CanonicalRequest, Position
from agenttape_core.schema import Outcome
from agenttape_core.session.base_session import BaseSession
from agenttape_core.session.boundary import AnsweredCrossing, Boundary
from agenttape_core.session.kept_answers import keep_answer


class RefusedCrossing(AnsweredCrossing):
    """A call that may be neither served nor executed, in a run that lives on with an error result.

    Args:
        session: The session it belongs to.
        boundary: The family of the call.
        request: The request.
        position: Where the call is made.
        owner: The object whose call it is.
        drift: The error that stands for the miss.
        number: Its number in this run.
        parent: The number of the call that is executing around it.
    """

    __slots__ = ("_number", "_parent", "drift")

    def __init__(
        self,
        session: BaseSession,
        boundary: Boundary,
        request: CanonicalRequest,
        position: Position,
        *,
        owner: Any,
        drift: DriftError,
        number: int,
        parent: int | None = None,
    ) -> None:
        super().__init__(session, boundary, request, position, owner=owner)
        self.drift = drift
        self._number = number
        self._parent = parent

    def paced(self) -> None:
        """Return at once: no time was recorded."""

    def replay(self) -> Any:
        """Return the error result of the boundary, or raise a `DriftError`."""
        said = self.session.redactor.text(self.drift.said)
        keep_answer(self, self._number, self._parent, Outcome(status="refused", value=said))
        return self.boundary.missed(self, self.drift)

    def replay_chunks(self) -> Iterator[Any]:
        """Yield the error result in chunks."""
        yield from self._split(self.replay())

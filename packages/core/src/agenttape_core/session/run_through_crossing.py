"""A crossing of a recorded call whose code is run, while the calls that it makes are served."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, ClassVar

from agenttape_core.freeze import Frozen
from agenttape_core.matching import Candidate, CanonicalRequest, Position
from agenttape_core.scheduling import Awaited
from agenttape_core.schema import Outcome
from agenttape_core.session.base_session import BaseSession
from agenttape_core.session.boundary import Boundary
from agenttape_core.session.executed_crossing import ExecutedCrossing


class RunThroughCrossing(ExecutedCrossing):
    """A recorded call whose code is run. The calls that it makes cross as they did when it was recorded.

    It is recorded anew where the session writes, if something else came of it than was recorded.

    Args:
        session: The session it belongs to.
        boundary: The family of the call.
        request: The request.
        position: Where the call is made.
        number: The number by which calls inside name it.
        owner: The object whose call it is.
        parent: The crossing that is executing around this one.
        found: Its recording.
    """

    __slots__ = ("found",)

    is_real: ClassVar[bool] = False
    """True if the call does what it does outside; false if its code is only run through."""

    def __init__(
        self,
        session: BaseSession,
        boundary: Boundary,
        request: CanonicalRequest,
        position: Position,
        *,
        number: int,
        owner: Any = None,
        parent: ExecutedCrossing | None = None,
        found: Candidate,
    ) -> None:
        self.found = found
        super().__init__(session, boundary, request, position, number=number, owner=owner, parent=parent)

    def awaiting(self) -> AbstractContextManager[Awaited]:
        """Wait for nothing: the call ends when its code does."""
        return self.arrivals.stepping_into(self.session.source.interaction(self.found.number).address)

    @property
    def is_of_program(self) -> bool:
        """True: a replay runs its code."""
        return True

    @property
    def is_run_again(self) -> bool:
        """True: it was run through, and will be."""
        return True

    def _new_world(self, frozen: Frozen) -> Frozen:
        """Begin at the moment that was recorded, with the ids that were recorded."""
        recorded = self.session.timing_of(self.found.number)
        self.nonce = recorded.nonce if recorded is not None else ""
        self.moment = recorded.moment if recorded is not None else None
        moment = self.moment if self.moment is not None else frozen.clock
        recorded_at = self.session.source.interaction(self.found.number).address  # the ids were made of it
        return frozen.within(recorded_at, moment, self.nonce)

    def frozen_inside(self) -> Frozen | None:
        """Return what is kept fixed for the code that is run: as it was until the tool acted, if it did."""
        return self._own_world()

    def _keep(self, outcome: Outcome) -> None:
        """Note what came of it now, if that is not what was recorded."""
        self.has_ended = True
        ledger, number = self.session.ledger, self.found.number
        recorded = self.session.source.interaction(number)
        now = self._interaction(self._whole(outcome))
        if now.outcome != recorded.outcome:
            kept = {key: getattr(recorded, key) for key in ("number", "parent", "address")}
            ledger.again[number] = now.model_copy(update={**kept, "acts": now.acts or recorded.acts})

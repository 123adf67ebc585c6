"""A call without a recording that a function of the user answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from agenttape_core.matching import CanonicalRequest, Position
from agenttape_core.schema import FAKED, Outcome
from agenttape_core.session.base_session import BaseSession
from agenttape_core.session.boundary import AnsweredCrossing, Boundary
from agenttape_core.session.kept_answers import keep_answer
from agenttape_core.session.recorded_errors import record_error


class FakedCrossing(AnsweredCrossing):
    """A call that a function of the user answers, for want of a recording.

    Args:
        session: The session it belongs to.
        boundary: The family of the call.
        request: The request.
        position: Where the call is made.
        owner: The object whose call it is.
        fake: The function. It gets the arguments of the call as it was made.
        body: The request before it was redacted.
        number: Its number in this run.
        parent: The number of the call that is executing around it.
    """

    __slots__ = ("_body", "_fake", "_number", "_parent")

    def __init__(
        self,
        session: BaseSession,
        boundary: Boundary,
        request: CanonicalRequest,
        position: Position,
        *,
        owner: Any,
        fake: Callable[..., Any],
        body: Mapping[str, Any],
        number: int,
        parent: int | None,
    ) -> None:
        super().__init__(session, boundary, request, position, owner=owner)
        self._fake = fake
        self._body = body
        self._number = number
        self._parent = parent

    def paced(self) -> None:
        """Return at once: no time was recorded."""

    def replay(self) -> Any:
        """Return what the function returns, as the callers of this boundary expect it, or raise what it raises."""
        try:
            value = self.boundary.faked(self, self._called())
        except Exception as error:
            with self.session.latching():
                record = record_error(error, self.session.codec)
                redacted = type(record).model_validate(self.session.redactor.value(record.model_dump()))
            self._keep(Outcome(status="raised", error=redacted))
            raise
        with self.session.latching():
            plain = self.session.redactor.value(self.session.codec.encode(value))
        self._keep(Outcome(status="returned", value=plain))
        return value

    def replay_chunks(self) -> Iterator[Any]:
        """Yield what the function returns in chunks."""
        yield from self._split(self.replay())

    def _called(self) -> Any:
        given = self._body.get("arguments", self._body)
        if isinstance(given, Mapping):
            return self._fake(**given)
        return self._fake(*given) if isinstance(given, list | tuple) else self._fake(given)

    def _keep(self, outcome: Outcome) -> None:
        keep_answer(self, self._number, self._parent, outcome, [FAKED])

"""Listeners to the calls of a session, for rare features: in the common case, there are none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agenttape_core.engine import Decision
from agenttape_core.matching import Candidate as Match
from agenttape_core.matching import CanonicalRequest, Position
from agenttape_core.session.report import CallRecord

if TYPE_CHECKING:  # a miss is rare
    from agenttape_core.matching import Nearest


class Listener:
    """Listens to the calls of one session, in many threads; a subclass overrides the methods it needs."""

    def begins(self, kind: str, name: str) -> None:
        """Note that a call is made, or end it by an error."""

    def decided(self, position: Position, body: Mapping[str, Any], decision: Decision) -> None:
        """Note what happens on a call, given its request before it was redacted."""

    def answered(self, request: CanonicalRequest, found: Match, call_record: CallRecord, *, is_replayed: bool) -> None:
        """Note that a recording answers a call, or, if it isn't replayed, that its code is run again."""

    def executed(self, request: CanonicalRequest, position: Position) -> None:
        """Note that a call is executed for real."""

    def missed(self, request: CanonicalRequest, position: Position, near: Nearest | None, *, is_fatal: bool) -> None:
        """Note that a call has no recording, and which is nearest. If it isn't fatal, the run lives on."""

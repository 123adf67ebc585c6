"""The base of replay objects, which automatic sessions don't record."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agenttape_core.integration.stand_ins.recorded import Recorded
    from agenttape_core.session import Report


class StandIn:
    """The base of stand-ins, which take no part in a session.

    Each keeps the recordings that it answers from, a `RecordedPart` or a `RecordedModel`, as `_recorded`.
    """

    @property
    def report(self) -> Report:
        """The report of the calls replayed so far."""
        recorded: Recorded = self._recorded  # type: ignore[attr-defined]  # declared by each, with its own type
        return recorded.report

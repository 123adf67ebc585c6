"""The schedules of a session, as one of its event loops sees them."""

from __future__ import annotations

from typing import Protocol

from agenttape_core.scheduling.delivery_log import Folding
from agenttape_core.scheduling.phases import Phase
from agenttape_core.scheduling.script import Script
from agenttape_core.schema import Scheduled


class Scheduling(Protocol):
    """The schedules of a session, as one of its loops sees them."""

    @property
    def is_kept(self) -> bool:
        """True if the order of what is executed is recorded."""

    @property
    def is_virtual(self) -> bool:
        """True if time passes in a loop only where it has nothing to do."""

    def script_of(self, address: str, made: int = 0) -> Script | None:
        """Return the script of the group that a recording belongs to."""

    def script(self, group: Scheduled | None, begins: str, made: int = 0) -> Script | None:
        """Return the script of a group, from where it was left."""

    def script_around(self, address: str) -> Script | None:
        """Return the script of the group that calls inside of a recording belong to."""

    def has_inside(self, address: str) -> bool:
        """Return True if the recorded order has calls that were made inside of a call."""

    def script_of_job(self, job: str) -> Script | None:
        """Return the script of the group that began with a job of a thread."""

    def keep(self, folding: Folding) -> None:
        """Keep what was recorded of a loop."""

    def answered(self, address: str, phase: Phase | None) -> None:
        """Note that a call was answered from its recording, or that a chunk or an effect of it came."""

    def note(self, what: str) -> None:
        """Note that the recorded order could not be kept, and why."""

    def note_unseen(self, what: str) -> None:
        """Note what the order says nothing of, if the run was only observed."""

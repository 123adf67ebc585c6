"""A session before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from agenttape_core.guard import of_program
from agenttape_core.named_tuples import NamedTuple

if TYPE_CHECKING:  # most sessions change nothing, and no run was cut off before
    from agenttape_core.engine import Policy
    from agenttape_core.interventions import Placed
    from agenttape_core.lifecycle.request import SessionRequest
    from agenttape_core.redaction import Redactor
    from agenttape_core.schema import Header, Timing
    from agenttape_core.session.candidates import Candidates
    from agenttape_core.settings import Settings
    from agenttape_core.storage import Cassette, LeftOver, Location


class Prepared(NamedTuple):
    """A session before anything is written: all that is decided by the request, the settings and the file."""

    request: SessionRequest
    settings: Settings  # the settings of the project, with the options of the request in their place
    path: Location  # the cassette
    cassette: Cassette | None  # its recordings, if there are any to read
    is_broken: bool  # whether there is a file that cannot be read, and is to be replaced
    policy: Policy  # what the session allows
    redactor: Redactor  # replaces secrets
    header: Header  # the header at the start
    began: float  # when the run began, in seconds of `perf_counter`
    candidates: Candidates | None = None  # the models to try instead of the program's own
    changes: Mapping[int, Placed] = {}  # other answers for recorded calls, by their numbers
    # Calls that earlier runs have recorded over the cassette which did not end. They are replayed like its own.
    left_over: Sequence[LeftOver] = ()

    @property
    def shown(self) -> Location:
        """The cassette as messages name it."""
        return self.request.shown_as or self.path

    @property
    def has_live(self) -> bool:
        """True for a replay in which calls may be live, if only after it has diverged from its recording."""
        return not self.policy.records and (not self.policy.offline or not isinstance(self.request.on_new_call, str))

    @property
    def hosts_of_program(self) -> tuple[str, ...]:
        """The hosts that the whole program may reach: all of `allow_hosts`, if no call of the session can be live."""
        hosts = self.settings.hosts
        return of_program(hosts, has_live=self.has_live) if hosts else ()

    def timings(self) -> Mapping[int, Timing]:
        """Return the recorded times, by the numbers of their interactions. They are at the end of the file."""
        recorded = self.cassette.header.volatile.timings if self.cassette is not None else {}
        left = {one.interaction.number: one.timing for one in self.left_over}
        return {**recorded, **left} if left else recorded

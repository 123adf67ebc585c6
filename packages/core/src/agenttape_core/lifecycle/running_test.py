"""The surroundings of a session in its process: the test that runs, if one does, and a difference of its replays.

The plugin of pytest sets it around each test of any project, so this module has no slow imports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from agenttape_core.named_tuples import NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

    from agenttape_core.engine import Mode
    from agenttape_core.session import Report, Session
    from agenttape_core.storage import Location


class FailedBlock(NamedTuple):
    """A block with a cassette that has failed or couldn't begin; without the error, which keeps all it made alive."""

    cassette: str
    session: Session | None  # the session of the block; `None` if it could not be opened
    said: str  # the message of the failure, whether or not the program catches it
    file: str  # the file with the code of the block
    missing: Path | None  # the file that isn't there, resolved, if the block required one

    @property
    def line(self) -> str:
        """The first line of the message, with the cassette."""
        from agenttape_core.errors import shown_path

        first, shown = self.said.partition("\n")[0], shown_path(self.cassette)
        return first if shown in first else f"{shown}: {first}"


def _beside(_: Location) -> None:
    return None


@dataclass(eq=False, repr=False, slots=True)
class RunningTest:
    """The test that runs, as far as it matters to sessions that it or its fixtures open."""

    folder: Path  # the folder of the test's module, around which the settings are looked for
    started_in: Path  # the folder in which pytest was started
    # Returns the mode that the command line gives to a cassette; `None` leaves it to the settings.
    mode_of: Callable[[Location], Mode | None]
    leaves_pending: bool = False  # whether the command line lets new recordings wait for review
    # Returns the temporary folders that the test has so far, by the names of their fixtures.
    places: Callable[[], Mapping[str, str]] = dict
    reports: list[Report] = field(default_factory=list)  # the reports of its sessions that have ended
    # Its blocks with a cassette that have failed, or could not begin.
    failed: list[FailedBlock] = field(default_factory=list)
    # The recordings that wait for review since a session of the test, by their cassettes.
    pending: dict[Location, Location] = field(default_factory=dict)
    sessions: list[Session] | None = None  # its sessions that have ended, if a caller wants them
    # The options of replays that it opens itself, which then need no cassette; `None` leaves them to the program. One
    # that names a mode keeps its own.
    options: Mapping[str, Any] | None = None
    pace: str | None = None  # the time that its replays take, if the command line sets it
    order: str | None = None  # the order in which calls of its replays are answered, if the command line sets it
    # The differences of its replays from plain ones, the innermost last.
    varied: list[Any] = field(default_factory=list)
    # Returns the file for a replay of a cassette with live calls; `None` leaves it beside.
    derive_to: Callable[[Location], Location | None] = _beside
    # Returns whether a session that is opened now serves several tests, of which only some run here.
    is_part: Callable[[], bool] = bool


_running: list[RunningTest | None] = [None]  # the one test that pytest runs in this process

# The method itself, as each session asks ten times.
this_test: Callable[[], RunningTest | None] = partial(_running.__getitem__, 0)  # return the test that runs


@contextmanager
def during(test: RunningTest) -> Iterator[None]:
    """Let the sessions that are opened in the block belong to a test, in whatever thread that is."""
    before, _running[0] = _running[0], test
    try:
        yield
    finally:
        _running[0] = before


# -- The difference between replays and plain ones, where something surrounds them that varies them.


class Around(NamedTuple):
    """A difference that holds for what is replayed inside: see `varying`."""

    variation: Any  # a `Variation`, whose module most sessions do without
    cassette: str | None


AROUND: ContextVar[Around | None] = ContextVar("agenttape_variation", default=None)


def variation_for(path: str) -> Any:
    """Return the `Variation` that holds for replays of a cassette; `None` if they are plain."""
    around = AROUND.get()
    if around is None and (test := this_test()) is not None and test.varied:
        around = test.varied[-1]
    return around.variation if around is not None and around.cassette in {None, path} else None

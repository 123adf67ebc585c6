"""A session to open: its cassette and options, and its differences from `use_cassette`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agenttape_core.engine import Mode, parse_mode
from agenttape_core.errors import ConfigurationError
from agenttape_core.lifecycle.project import Project
from agenttape_core.lifecycle.remedy import Remedy
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.redaction import Rule
from agenttape_core.schema import Plain, Step
from agenttape_core.storage import Location

if TYPE_CHECKING:  # most sessions change nothing
    from agenttape_core.interventions import Changes, OnNewCall
    from agenttape_core.lifecycle.chosen_order import Imposing, Order
    from agenttape_core.lifecycle.sinks import EventsOption


SELECTING = frozenset({"live", "replay_only", "step_into"})  # the options that select calls


def _no_origin() -> Plain:
    return None


def _never(_: BaseException) -> bool:
    return False


def no_remedy(_: bool) -> list[str]:
    """Return no remedy."""
    return []


def unchanged(step: Step) -> Step | None:
    """Return a step unchanged."""
    return step


def checked_fakes(fakes: Mapping[str, Callable[..., Any]]) -> Mapping[str, Callable[..., Any]]:
    """Return the functions that answer unrecorded calls. Raises `ConfigurationError` unless each returns right away."""
    if not isinstance(fakes, Mapping):
        raise ConfigurationError(f"fakes={fakes!r}: expected a mapping of names of tools to functions")
    for name, fake in fakes.items():
        if not callable(fake) or inspect.iscoroutinefunction(fake):
            raise ConfigurationError(
                f"fakes={{{name!r}: {fake!r}}}: expected a function that is not awaited\n"
                f"  such as fakes={{{name!r}: lambda **arguments: 'nothing found'}}"
            )
    return dict(fakes)


class Derivation(NamedTuple):
    """The difference between a replay and a run that diverges from it."""

    # Returns a note for the header about the change, as plain data; called, and redacted, on writing.
    origin: Callable[[], Plain] = _no_origin
    # Called when a change is about to be reached; by default the run diverges there.
    on_reached: Callable[[], None] | None = None
    # Returns the step to keep, or `None` for one that the change itself broke off.
    revise: Callable[[Step], Step | None] = unchanged
    is_begun: bool = False  # whether the run diverges as soon as it begins


def checked_target(to: str | Path | None, mode: str | Mode | None) -> str | Path | None:
    """Return the file of a derived cassette. Raises `ConfigurationError` if it's given and the mode only records."""
    if to is not None and mode is not None and (given := parse_mode(mode)).always_records:
        raise ConfigurationError(
            f"to={str(to)!r}: only a replay derives a cassette\n"
            f"  mode={given.value!r} records to the cassette itself: "
            "leave one of the two out"
        )
    return to


class SessionRequest(NamedTuple):
    """A session to open. The defaults match `use_cassette`."""

    cassette: str | Path  # a bare name under the cassette folder, a path or a URL
    # Returns how to record a missing call, a line each; empty if every call is made for real.
    remedy: Remedy = no_remedy
    options: Mapping[str, Any] = {}  # explicit settings: they win over the project's
    # The names of the options whose selectors are meant for this cassette: each must select a recorded call.
    selects: Collection[str] = ()
    added: Mapping[str, Sequence[str]] = {}  # items that are added to settings that are lists, whoever gave those
    redact: bool | Sequence[Rule] = True  # the user's rules, or whether to redact at all
    # Paths that differ in each run, by name: requests are compared without them, and answers get the paths of this
    # run.
    places: Mapping[str, str] = {}
    mode: Mode | None = None  # the mode, where no option and no setting may choose another one
    # Whether the session surrounds a block of code, with freeze and guard. The session of a stand-in, a cache or an
    # observer doesn't: it has no live or replay-only calls, and doesn't freeze.
    is_current: bool = True
    # Whether all that the process does belongs to the session, in threads without a context too.
    is_of_process: bool = False
    # Whether a thread without a context belongs to the session where it is the only open one. For a server's request
    # it doesn't.
    takes_strays: bool = True
    # Whether the name of the cassette was drawn for this recording, as for a request of a server.
    is_unique: bool = False
    auto: bool = True  # whether integrations record objects in it that the user didn't wrap
    reads: bool = True  # whether recordings that are there are opened; if not, they are replaced unread
    may_be_missing: bool = False  # whether a replay without a cassette begins all the same: each call is then a miss
    leaves_empty: bool = False  # whether to leave the file unchanged if no call was recorded or replayed
    # Returns whether the run made calls in sessions it opened itself: an empty recording is whole then.
    has_others: Callable[[], bool] = bool
    # Returns whether a first recording is kept if its run failed like this. All its calls have ended.
    keeps_first: Callable[[BaseException], bool] = _never
    write_to: Location | None = None  # the file to write; by default the cassette itself, or a derived one beside it
    shown_as: Location | None = None  # the cassette as messages name it; by default its path
    key: str | None = None  # the key of pseudonyms for a new cassette; by default a new one
    # The time at which the clock of an imported program stood still, in seconds since the epoch.
    clock: float | None = None
    # The name of one of several processes that share the cassette: each has its own location and seed.
    process: str = ""
    events: EventsOption | None = None  # receives events as they happen; by default as set in the settings
    project: Project | None = None  # the project; by default the current one
    derivation: Derivation | None = None  # how the run diverges from its recording, if it does
    candidate: Any = None  # the model to try instead of the program's own, or several by place; by default the setting
    # Functions that answer calls without a recording, by the name of the boundary.
    fakes: Mapping[str, Callable[..., Any]] = {}
    # The part of calls that is recorded: `full`, or `none` for their shape alone.
    payload: Literal["full", "none"] = "full"
    # The file of the derived cassette, as the user names it; by default beside the cassette.
    derived_as: str | Path | None = None
    changes: Changes | None = None  # other outcomes for recorded calls; `None` for a session without changes
    on_new_call: OnNewCall = "stop"  # the answer to calls without a recording, once a change was reached
    judges_changes: bool = True  # whether it is an error if a change isn't reached
    judges_unused: bool = True  # whether the setting `on_unused` applies to unused recordings
    # The calls in the order in which they are to be answered; by default the recorded one.
    order: Order | Imposing | None = None

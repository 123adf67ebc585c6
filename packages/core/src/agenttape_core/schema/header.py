"""The first record of a cassette."""

from typing import Annotated, Any, Literal

from pydantic import Field

from agenttape_core.schema.interaction import Moment, Timing
from agenttape_core.schema.record import Items, Record
from agenttape_core.schema.schedule import Admissions, Scheduled
from agenttape_core.schema.step import StepTiming

FORMAT_VERSION = 2  # the integer version that this library writes, and the newest it reads

_READINGS = r"^(?:@\d+|\d+(?:\.\d+)?(?:\*\d+)?)(?: (?:@\d+|\d+(?:\.\d+)?(?:\*\d+)?))*$"
"""Readings of the clock, such as `0*3 0.2001 @1 0.4002*2`: see `freeze.readings`."""


class Freeze(Record):
    """The facts that the session kept fixed, so that a replay can fix them to the same values."""

    kinds: Items[str] = Field(default_factory=list)
    """Any of `clock` or `clock:ticking`, `uuid`, `random`, `numpy`, `env`."""
    seed: str = ""  # the seed of ids and random numbers
    environment: dict[str, str | None] = Field(default_factory=dict)
    """The environment variables that the run read, redacted; `None` for an absent one. Only if `env` is frozen."""


class Redaction(Record):
    """The way in which pseudonyms were made."""

    key: str | None = None  # hex of the HMAC key; `None` if the key is kept in the environment
    rules: Items[str] = Field(default_factory=list)  # the names of the user's own rules that were in force
    off: Items[str] = Field(default_factory=list)  # the kinds of secrets that were not looked for
    forms: bool = False  # true if pseudonyms have the form of the original; in older cassettes, all are in brackets
    places: bool = False  # true if the folders of the run, such as the home folder, are pseudonyms of their names


class Entry(Record):
    """The program's call that began the run, in addition to its input."""

    method: str = ""  # the method, where the kind of the program has several, such as `query` or `chat`
    awaited: bool = False
    """True if an event loop ran where it was called, so that it was probably awaited."""
    inside: bool = False  # true if the session was entered within the event loop, and not around it
    configurable: dict[str, Any] = Field(default_factory=dict)
    """The configurable values that it was given, such as the id of a conversation."""


class Volatile(Record):
    """Facts that differ between two recordings of the same run; the rest of the file is equal."""

    created: str = ""  # the time at which the recording began: UTC, ISO 8601
    run_id: str = ""  # the id of the run that was recorded, as its events have it
    entry: Entry = Entry.model_construct()
    """The call that began the run: two recordings of it may be synchronous and asynchronous, or of two threads."""
    clock: Moment | None = None  # the frozen time at which the run began, if either clock is frozen
    zone: str = Field(default="", pattern=r"^(?:[+-]\d{4}(?: \S+)?)?$")
    """The local time zone of the process at that time, as `+0900 JST`."""
    python: str = ""
    hash_seed: int | None = None  # the hash seed of the process, if it was given one
    packages: dict[str, str] = Field(default_factory=dict)  # versions of the distributions that shaped the recording
    turns: Items[Items[str]] = Field(default_factory=list)
    """Groups of addresses of calls that overlapped, each in the order in which they ended: of observed runs. A stream
    that was read in an event loop has an entry for each of its chunks, and for its end."""
    schedule: Items[Scheduled] = Field(default_factory=list)
    """Groups of calls that overlapped, and the order of what event loops waited for: of older and observed runs."""
    readings: dict[str, Annotated[str, Field(pattern=_READINGS)]] = Field(default_factory=dict)
    """The moments at which interleaved tasks and threads read the frozen clock, by their labels and package."""
    threads: str = Field(default="", pattern=r"^(?:0(?:[.:][1-9]\d*)*(?:\*[1-9]\d*|!)?(?: |$))*$")
    """The order of threads in an older cassette: it is not kept any more, and a replay reports that."""
    loose: str = Field(default="", pattern=r"^(?:(?:-|O?\d+(?:[.:][1-9]\d*)*)(?: |$))*$")
    """The labels of threads that did something in no order; `-` for those that take no part."""
    admissions: Admissions | None = None
    """The order in which all that came from outside was admitted, where a scheduled run has one."""
    steps: dict[int, StepTiming] = Field(default_factory=dict)  # by the number of the step
    timings: dict[int, Timing] = Field(default_factory=dict)  # by interaction number

    def answers(self) -> list[list[str]]:
        """Return the addresses of calls that overlapped, in the order in which they were answered."""
        if self.admissions is not None:
            return [self.admissions.answers()]
        return [*self.turns, *map(Scheduled.answers, self.schedule)]

    def at_once(self) -> frozenset[str]:
        """Return the addresses of calls that answered without yielding to their event loop: for observed runs."""
        found = [(group.calls[each.which], each.at_once) for group in self.schedule for each in group.answered()]
        return frozenset([address for address, at_once in found if at_once])


class Header(Record):
    """The facts about a cassette as a whole."""

    name: str
    derived_from: str | None = None  # the cassette that this one was derived from, by a replay with something live
    origin: Any = None
    """The changes that turned that run into this one, as plain data: the location of the fork, and the changed
    values."""
    tags: Items[str] = Field(default_factory=list)
    input: Any = None  # the inbound input of the run as plain data, so that it can be started again without the test
    payload: Literal["full", "none"] = "full"
    """`none` if the calls were recorded without their content: such a cassette cannot be replayed."""
    freeze: Freeze = Freeze.model_construct()
    redaction: Redaction = Redaction.model_construct()
    ignore: Items[str] = Field(default_factory=list)
    """The paths of requests that the fingerprints of this file leave out."""
    http: bool = False
    """True if requests of HTTP clients were taped that the user had not taped; a replay then does the same."""
    volatile: Volatile = Volatile.model_construct()

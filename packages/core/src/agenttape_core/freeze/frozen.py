"""The facts that one session keeps fixed: a moment, a seed, the ids that each scope has taken, and the environment."""

from __future__ import annotations

import hashlib
import json
import time
import types
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextvars import Context
from typing import TYPE_CHECKING, Any, TypeVar

from agenttape_core.errors import ConfigurationError
from agenttape_core.freeze.branches import BegunWork, Branch, Branches, begun_scope, label_of
from agenttape_core.freeze.callers import ask, calling_frame, imports_under_way
from agenttape_core.freeze.other_clock_tools import travelled_time
from agenttape_core.freeze.readings import ReadingLog
from agenttape_core.locks import RLock
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema.freeze_kinds import TICKING, families

if TYPE_CHECKING:
    from agenttape_core.freeze.environment import Environment

# -- Pseudo-random bytes that don't depend on the order of parallel tasks, and the UUIDs that are made of them.


_RANDOM, _UNIX_TIME = 4, 7
VERSIONS = (1, 4, 6, 7)  # the UUID versions that can be laid out

TIME_ORDERED = (1, 6, 7)  # the versions that contain a time

_GREGORIAN_OFFSET = 0x01B21DD213814000
"""100 ns intervals between 1582-10-15, where the time of versions 1 and 6 starts, and 1970-01-01."""
_TICKS_PER_MILLISECOND = 10_000
_VARIANT = 0b10 << 62
_FREE = (1 << 128) - 1 - (0b1111 << 76) - (0b11 << 62)  # the bits beside version and variant
_BELOW_TIME = (1 << 80) - 1
_MULTICAST = 1 << 40  # marks a node that isn't a hardware address (RFC 9562, section 6.10)

_new = object.__new__
_set_int = vars(uuid.UUID)["int"].__set__  # of a slot
_set_is_safe = vars(uuid.UUID)["is_safe"].__set__
_UNKNOWN = uuid.SafeUUID.unknown


class Stream:
    """Pseudo-random bytes of one maker in one scope: sha256 over the caller, the ordinal of the call, and a block."""

    def __init__(self, seed: str, scope: str, maker: str) -> None:
        # JSON keeps the parts apart, and has an ASCII form for every string.
        self._start = json.dumps([seed, scope, maker]).encode("ascii")
        self._taken = 0

    def next(self, size: int) -> bytes:
        """Give the next bytes. The n-th ask gives the start of the same bytes, however many the asks before it took."""
        nth = self._taken
        self._taken = nth + 1
        found, block = hashlib.sha256(b"%b%d.0" % (self._start, nth)).digest(), 0
        while len(found) < size:
            block += 1
            found += hashlib.sha256(b"%b%d.%d" % (self._start, nth, block)).digest()
        return found[:size]


class _Streams(dict[tuple[str, str], Stream]):
    """The streams of a session by scope and maker, each made when it's first used."""

    def __init__(self, seed: str) -> None:
        super().__init__()
        self._seed = seed

    def __missing__(self, key: tuple[str, str]) -> Stream:
        stream = self[key] = Stream(self._seed, *key)
        return stream


def uuid_from(
    noise: bytes, version: int, milliseconds: int, node: int | None = None, clock_seq: int | None = None
) -> uuid.UUID:
    """Lay out a UUID.

    `noise` has 16 bytes for the fields that are random by default; `milliseconds` are since the epoch, for versions 1,
    6 and 7; `node` (48 bits) and `clock_seq` (14 bits) replace noise in versions 1 and 6.
    """
    value = int.from_bytes(noise, "big")
    if version == _UNIX_TIME:
        value = milliseconds << 80 | value & _BELOW_TIME
    elif version != _RANDOM:
        node = (value & 0xFFFF_FFFF_FFFF) | _MULTICAST if node is None else node & 0xFFFF_FFFF_FFFF
        clock_seq = (value >> 48 if clock_seq is None else clock_seq) & 0x3FFF
        high = _gregorian(version, (milliseconds * _TICKS_PER_MILLISECOND + _GREGORIAN_OFFSET) & ((1 << 60) - 1))
        value = high << 64 | clock_seq << 48 | node
    made = _new(uuid.UUID)  # its constructor takes six times as long, to find out which of its arguments is given
    _set_int(made, value & _FREE | version << 76 | _VARIANT)
    _set_is_safe(made, _UNKNOWN)
    return made


def _gregorian(version: int, ticks: int) -> int:
    """The upper half: version 6 has the time in order, version 1 has its low part first."""
    if version == 6:  # noqa: PLR2004 - the version's own number
        return (ticks >> 12) << 16 | ticks & 0xFFF
    return (ticks & 0xFFFF_FFFF) << 32 | (ticks >> 32 & 0xFFFF) << 16 | ticks >> 48


# -- Loops that only read a standing clock, and so wait for it: `while time.time() < deadline: pass`.


PATIENCE = 100_000
"""Readings of one line, without any other event of the session between them, that are taken for a loop that waits. A
loop that only reads the clock gets there in a tenth of a second; a program that timestamps its data hardly ever
does."""
TICK = 0.01  # seconds by which the clock passes each time


class Spinning:
    """The readings of one session's clock since something else happened in it. Not exact where threads compete.

    `is_under_way` returns True while a call of the session is, which takes no frozen time, however long it is.
    """

    def __init__(self, is_under_way: Callable[[], bool]) -> None:
        self._is_under_way = is_under_way
        self._readings: dict[tuple[int, int], int] = {}
        self._due: float | None = None
        self._calls = 0

    def reset(self) -> None:
        """Begin again: something else happened."""
        self._readings.clear()
        self._due = None

    def read(self, passed: float, frame: types.FrameType | None, calls: int) -> float:
        """Count a reading by the line that reads.

        `calls` counts the calls of the session that have begun: each is something else that happened. Returns the
        seconds by which the clock has passed now.
        """
        if calls != self._calls:
            self._calls = calls
            self.reset()
        place = (id(frame.f_code), frame.f_lasti) if frame is not None else (0, 0)
        readings = self._readings.get(place, 0)
        if readings < PATIENCE:
            self._readings[place] = readings + 1
            return passed
        if self._is_under_way():
            self._due = None
            return passed
        now = _REAL_MONOTONIC()
        if self._due is None:
            self._due = now + TICK
        if now < self._due:
            return passed
        self._due += TICK
        return round(passed + TICK, 6)


Source = TypeVar("Source")

_REAL_MONOTONIC = time.monotonic
_WAKING = 0.0001  # seconds by which every sleep is longer than requested, as real sleeps are
_SEED_BITS = 256
_DIGITS = 6  # the clock is exact to the microsecond, as `datetime` is
_PASSING = frozenset(
    f"agenttape_core.freeze.{name}" for name in ("frozen", "frozen_function", "references", "clock", "dates")
)


class BegunWait(NamedTuple):
    """The beginning of a wait."""

    since: float  # the seconds by which the clock had passed by then
    branch: Branch  # the branch that waits
    switches: int  # the turns that branches had had by then
    calls: int  # the number of calls that had begun by then
    beside_call: bool  # whether a call was under way


class Frozen:
    """The facts that one session keeps fixed; safe to use from many threads.

    A *scope* is a part of the run that is sequential in itself, such as the address of a task. Everything is derived
    from the seed, the scope and a count within the scope, never from a global counter, so it does not depend on the
    order in which parallel tasks happen to run.

    Args:
        kinds: Which of `KINDS` are frozen.
        seed: What ids and random numbers are derived from; kept in the cassette's header.
        clock: The moment at which the session begins, in seconds since the epoch. From there `clock` passes only while
            the session's own code waits: a loop that waits for a moment doesn't wait forever, and everything between
            two waits happens at one moment, in every run. `clock:ticking` runs on as fast as the monotonic clock does.
        scope: Gives the scope of the calling context.
        scope_seen: Gives a name of that scope, and begins no branch.
        environment: The environment variables of the session, if `env` is frozen.
        skips_backoff: Whether frameworks do not really sleep between two attempts. See `backoff`.
        outer: For the code of a tool: the frozen state around it. See `within`.
        place: For the code of a tool: the address of the call.
        was_observed: Whether no draw of the program is frozen, because the recorder of the run couldn't see them.
        is_under_way: Returns True while a call of the session is under way beside the caller. See `waiting`.
        readings: What branches that were interleaved read in the recording, by branch and package. See `readings`.

    Raises:
        ConfigurationError: A kind is not known, or two of them exclude each other.
    """

    def __init__(
        self,
        *,
        kinds: Collection[str],
        seed: str,
        clock: float,
        scope: Callable[[], str],
        scope_seen: Callable[[], str] = str,
        environment: Environment | None = None,
        skips_backoff: bool = False,
        outer: Frozen | None = None,
        is_under_way: Callable[[], bool] = lambda: False,
        readings: Mapping[str, str] | None = None,
        place: str = "",
        was_observed: bool = False,
    ) -> None:
        self.was_observed = was_observed
        self.kinds = families(tuple(kinds))
        self.seed = seed
        self.environment = environment
        self._skips_backoff = skips_backoff
        self._outer = outer
        self._began = clock
        self._began_at = _nanoseconds(clock) // 1_000_000
        self._is_ticking = TICKING in kinds
        self._passed = 0.0
        self.tell_draw: Callable[[str], object] | None = outer.tell_draw if outer is not None else None
        """Called with the kind of each id, number or time that is drawn; `None` if no one wants to know."""
        self.tell_local: Callable[[], object] | None = outer.tell_local if outer is not None else None
        """Called when the moment is read as a local time; `None` if that is the recorded one."""
        self.calls = 0  # the number of calls that have begun
        self._is_under_way = is_under_way
        self._spinning = Spinning(self.is_under_way)
        self._branches: Branches = outer._branches if outer is not None else Branches()  # noqa: SLF001 - its own class
        self._log: ReadingLog = outer._log if outer is not None else ReadingLog(readings)  # noqa: SLF001 - its own class
        self._readings = self._log.readings(place)
        self._scope, self._scope_seen = scope, scope_seen
        self._streams = _Streams(seed)
        self._ticks: dict[str, int] = {}
        self._works: Counter[str] = Counter()
        self._sources: dict[tuple[str, str], Any] = {}
        # Reentrant: a finalizer or signal handler may ask for an id in the middle of another request for one.
        self._lock = RLock()
        self._count_from_here()

    def begin(self) -> None:
        """Count the time, and the imports that are under way, from here, where the run begins.

        A session is opened before it is entered, and sometimes in another thread.
        """
        self._count_from_here()
        self._branches.begin()

    def _count_from_here(self) -> None:
        self._imports_around: int = imports_under_way() if self._outer is None else self._outer._imports_around  # noqa: SLF001
        self._ticks_since = _REAL_MONOTONIC() if self._is_ticking else None

    def end(self) -> None:
        """Leave the context that has begun."""
        self._branches.end()

    def within(self, place: str, moment: float, nonce: str) -> Frozen:
        """Return the frozen state for the code of one tool: its own clock, its own ids and random numbers.

        `moment` is when its code began, in seconds since the epoch; no other recording has the text `nonce`, so that no
        two recordings make the same ids.
        """
        return Frozen(
            kinds=[TICKING if self._is_ticking and kind == "clock" else kind for kind in sorted(self.kinds)],
            seed=f"{self.seed}:{place}:{nonce}",
            clock=moment,
            scope=self._scope,
            scope_seen=self._scope_seen,
            environment=self.environment,
            outer=self,
            is_under_way=self._is_under_way,
            place=place,
            was_observed=self.was_observed,
        )

    @property
    def skips_backoff(self) -> bool:
        """True if frameworks do not really sleep between two attempts."""
        return self._skips_backoff if self._outer is None else self._outer.skips_backoff

    def wait_between_attempts(self) -> None:
        """Let frameworks really sleep between two attempts from now on."""
        self._skips_backoff = False

    @property
    def clock(self) -> float:
        """The frozen moment in seconds since the epoch, unless a test travels in time by its own clock."""
        travelled = travelled_time()
        if travelled is not None:
            return travelled
        if self._ticks_since is not None:
            return self._began + _REAL_MONOTONIC() - self._ticks_since
        frame = calling_frame(_PASSING)
        passed = self._spinning.read(self._passed, frame, self.calls)
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0] if frame is not None else ""
        passed = self._readings.read(self._branches.touch().name, package, passed)
        if passed > self._passed:
            with self._lock:
                self._passed = max(self._passed, passed)
        return self._began + passed

    @property
    def local_clock(self) -> float:
        """The frozen moment, for code that shows it in the local time zone."""
        if self.tell_local is not None:
            ask(self.tell_local)
        return self.clock

    @property
    def passed(self) -> float:
        """The seconds by which the standing clock has passed since the session began."""
        return self._passed

    def readings(self) -> dict[str, str]:
        """Return what branches that were interleaved have read, by branch and package."""
        return self._log.made()

    def diverged_readings(self) -> dict[str, tuple[str, str]]:
        """Return the readings of this run that are not the recorded ones, each after those, by branch and package."""
        return self._log.diverged()

    def prepare(self, context: Context, work: Callable[..., Any]) -> Callable[[], None]:
        """Count work that will run in a context as its own branch, begun here; call the result at its end."""
        if "clock" in self.kinds and not self._is_ticking:
            return self._branches.prepare(context, work).set
        return lambda: None

    def begin_work(self, work: Any) -> BegunWork:
        """Give work that will run without a context a scope and its own branch, counted here."""
        label = label_of(work)
        begun = f"{begun_scope()}>{ask(self._scope_seen)}>{label}"
        with self._lock:
            self._works[begun] += 1
            number = self._works[begun]
        is_standing = "clock" in self.kinds and not self._is_ticking
        return BegunWork(f"{begun}#{number}", self._branches.fork(label) if is_standing else None)

    @property
    def clock_ns(self) -> int:
        """The frozen moment in nanoseconds since the epoch, exact to the microsecond, as `datetime` is."""
        return _nanoseconds(self.clock)

    def begin_wait(self) -> BegunWait:
        """Begin a wait of the session's own code."""
        branch = self._branches.touch()
        return BegunWait(self._passed, branch, self._branches.switches, self.calls, self.is_under_way())

    def end_wait(self, begun: BegunWait, seconds: float, *, is_own: bool = True) -> None:
        """Move the standing clock on, as a wait has ended. One of no time only lets others have their turn.

        The code wanted to wait for `seconds`. `is_own` is false for a timer, beside which the branch may do something
        else.
        """
        if seconds <= 0:
            return
        branches, passes = self._branches, seconds + _WAKING
        is_beside = (
            branches.are_parallel
            or begun.beside_call
            or begun.calls != self.calls
            or begun.switches != branches.switches
        )
        self._log.is_interleaved = self._log.is_interleaved or is_beside or self.is_under_way()
        if is_own:
            self._readings.waited(begun.branch.name, passes)
        self.pass_time(seconds, since=begun.since)

    def pass_time(self, seconds: float, *, since: float) -> None:
        """Move the standing clock on.

        Waits side by side take as long as the longest of them. `since` are the seconds by which it had passed when the
        wait for them began.
        """
        if seconds > 0:
            with self._lock:
                self._passed = max(self._passed, round(since + seconds + _WAKING, _DIGITS))
                self._spinning.reset()

    def is_under_way(self) -> bool:
        """Return True while a call is under way beside the caller: what waits for it takes no frozen time."""
        return ask(self._is_under_way)

    def is_importing(self) -> bool:
        """Return True if the caller runs because a module is imported within the session.

        What a module makes or reads then is the process's: only the first session would see it, and all later ones
        would count differently.
        """
        return imports_under_way() > self._imports_around

    def next_bits(self, maker: str, bits: int) -> int:
        """Give the next pseudo-random number of a maker in the current scope.

        Each `maker`, such as `random.Random`, has its own count; the number has at most so many `bits`.
        """
        size = -(-bits // 8)
        scope = ask(self._scope)
        with self._lock:
            noise = self._streams[scope, maker].next(size)
        return int.from_bytes(noise, "big") >> (size * 8 - bits)

    def next_uuid(
        self,
        maker: str,
        version: int,
        *,
        node: int | None = None,
        clock_seq: int | None = None,
        milliseconds: int | None = None,
        after: int | None = None,
        scope: str | None = None,
    ) -> uuid.UUID:
        """Give the next id of a maker in the current scope, with the version and variant bits of RFC 9562.

        The time in versions 1, 6 and 7 is the session's beginning in milliseconds plus the number of such ids that the
        scope has taken before, from any maker: within a scope these ids sort in the order in which they were made. Ids
        of different scopes are not ordered among each other, because no order between them is deterministic.

        `maker` is the name of what asks, such as `uuid.uuid4`; each has its own count. `version` is 1, 4, 6 or 7.
        `node` (48 bits) and `clock_seq` (14 bits) replace derived ones in versions 1 and 6; `milliseconds` is the time
        since the epoch that the caller chose for versions 1, 6 and 7; the id's own must be later than `after`
        (milliseconds). `scope` replaces the current one: ids drawn in one scope are in order. Raises
        `ConfigurationError` if the version is none of these.
        """
        if version not in VERSIONS:
            raise ConfigurationError(f"cannot derive ids of UUID version {version}; expected one of {VERSIONS}")
        if scope is None:
            scope = ask(self._scope)
        with self._lock:
            if milliseconds is None:
                milliseconds = self._began_at
                if version in TIME_ORDERED:
                    tick = self._ticks.get(scope, 0)
                    self._ticks[scope] = tick + 1
                    milliseconds += tick
            noise = self._streams[scope, maker].next(16)
        if after is not None:
            milliseconds = max(milliseconds, after + 1)
        return uuid_from(noise, version, milliseconds, node, clock_seq)

    def source(self, maker: str, make: Callable[[int], Source]) -> Source:
        """Give the generator that serves the functions of one module in the current scope.

        `make` makes it on the scope's first draw, from a derived seed of 256 bits.
        """
        scope = ask(self._scope)
        with self._lock:
            source: Source | None = self._sources.get((scope, maker))
            if source is None:
                seed = int.from_bytes(Stream(self.seed, scope, maker).next(_SEED_BITS // 8), "big")
                source = self._sources[scope, maker] = make(seed)
            return source


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1_000_000) * 1_000


Lookup = Callable[[], Frozen | None]
"""Returns the frozen state of the calling context's session, or `None` if it belongs to none that freezes."""

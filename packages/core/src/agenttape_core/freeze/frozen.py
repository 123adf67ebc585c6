"""What one session keeps fixed: a moment, a seed, and how many ids each scope has taken."""

from __future__ import annotations

import hashlib
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from agenttape_core.errors import ConfigurationError
from agenttape_core.freeze.asking import ask
from agenttape_core.freeze.layout import TIME_ORDERED, VERSIONS, uuid_from

if TYPE_CHECKING:
    import uuid

_REAL_TIME = time.time
_WAKING = 0.0001
"""Seconds by which every sleep is longer than was asked for, as real ones are."""

KINDS = ("clock", "uuid", "random")
"""What can be frozen."""


class Frozen:
    """What one session keeps fixed; safe to use from many threads.

    A *scope* is a part of the run that is sequential in itself, such as the address of a task. Everything is derived
    from the seed, the scope and a count within the scope, never from a global counter, so it does not depend on the
    order in which parallel tasks happen to run.

    Args:
        kinds: Which of `KINDS` are frozen.
        seed: What ids and random numbers are derived from; kept in the cassette's header.
        clock: The moment at which the session begins, in seconds since the epoch. It passes only while the session's
            own code sleeps: what waits for a moment to come does not wait for ever, and what the run does between two
            sleeps happens at one moment, in every run.
        scope: Gives the scope of the calling context.

    Raises:
        ConfigurationError: A kind is not known.
    """

    def __init__(self, *, kinds: Collection[str], seed: str, clock: float, scope: Callable[[], str]) -> None:
        check_kinds(kinds)
        self.kinds = frozenset(kinds)
        self.seed = seed
        self._began = clock
        self._slept = 0.0
        self._scope = scope
        self._streams: dict[tuple[str, str], _Stream] = {}
        self._ticks: Counter[str] = Counter()
        self._sources: dict[str, random.Random] = {}
        # Reentrant: a finalizer or signal handler may ask for an id in the middle of another request for one.
        self._lock = threading.RLock()

    @property
    def clock(self) -> float:
        """The frozen moment in seconds since the epoch.

        A clock that was put in the place of `time.time` while the session is open, by a test that travels in time,
        wins over the frozen one.
        """
        current = time.time
        if current is not _REAL_TIME and not hasattr(current, "is_stand_in"):
            return current()
        return self._began + self._slept

    @property
    def clock_ns(self) -> int:
        """The frozen moment in nanoseconds since the epoch, exact to the microsecond, as `datetime` is."""
        return _nanoseconds(self.clock)

    def pass_time(self, seconds: float) -> None:
        """Move the frozen clock on; called when a sleep of the session's own code has ended."""
        with self._lock:
            self._slept += max(0.0, seconds) + _WAKING

    def next_bytes(self, maker: str, size: int) -> bytes:
        """Give the next pseudo-random bytes of a maker in the current scope.

        Args:
            maker: The name of what asks, such as `uuid.uuid4`; each has a count of its own.
            size: How many bytes.
        """
        return self._next(maker, ask(self._scope), size)

    def next_uuid(
        self,
        maker: str,
        version: int,
        *,
        node: int | None = None,
        clock_seq: int | None = None,
        scope: str | None = None,
    ) -> uuid.UUID:
        """Give the next id of a maker in the current scope, with the version and variant bits of RFC 9562.

        The time in versions 1, 6 and 7 is the session's beginning in milliseconds plus the number of such ids that the
        scope has taken before, from any maker: within a scope these ids sort in the order in which they were made.
        Ids of different scopes are not ordered among each other, because no order between them is deterministic.

        Args:
            maker: The name of what asks, such as `uuid.uuid4`; each has a count of its own.
            version: 1, 4, 6 or 7.
            node: 48 bits for the node of versions 1 and 6, instead of derived ones.
            clock_seq: 14 bits for the clock sequence of versions 1 and 6, instead of derived ones.
            scope: A scope to draw in, instead of the current one: ids drawn in one scope are in order.

        Raises:
            ConfigurationError: The version is none of these.
        """
        if version not in VERSIONS:
            raise ConfigurationError(f"cannot derive ids of UUID version {version}; expected one of {VERSIONS}")
        if scope is None:
            scope = ask(self._scope)
        tick = self._tick(scope) if version in TIME_ORDERED else 0
        milliseconds = _nanoseconds(self._began) // 1_000_000 + tick
        return uuid_from(self._next(maker, scope, 16), version, milliseconds, node, clock_seq)

    def random_source(self) -> random.Random:
        """Give the generator that serves the module-level functions of `random` in the current scope."""
        scope = ask(self._scope)
        with self._lock:
            source = self._sources.get(scope)
            if source is None:
                seed = int.from_bytes(_Stream(self.seed, scope, "random").next(32), "big")
                source = self._sources[scope] = random.Random(seed)  # noqa: S311 - frozen, not for secrets
            return source

    def _tick(self, scope: str) -> int:
        with self._lock:
            tick = self._ticks[scope]
            self._ticks[scope] = tick + 1
        return tick

    def _next(self, maker: str, scope: str, size: int) -> bytes:
        with self._lock:
            stream = self._streams.get((scope, maker))
            if stream is None:
                stream = self._streams[scope, maker] = _Stream(self.seed, scope, maker)
            return stream.next(size)


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1_000_000) * 1_000


class _Stream:
    """The pseudo-random bytes of one maker in one scope: sha256 over who asks, the how-manieth time, and a block."""

    def __init__(self, seed: str, scope: str, maker: str) -> None:
        # JSON keeps the parts apart, and has an ASCII form for every string.
        self._start = hashlib.sha256(json.dumps([seed, scope, maker]).encode("ascii"))
        self._taken = 0

    def next(self, size: int) -> bytes:
        nth = self._taken
        self._taken = nth + 1
        blocks = [self._block(nth, block) for block in range(-(-size // self._start.digest_size))]
        return b"".join(blocks)[:size]

    def _block(self, nth: int, block: int) -> bytes:
        digest = self._start.copy()
        digest.update(b"%d.%d" % (nth, block))
        return digest.digest()


Lookup = Callable[[], Frozen | None]
"""Gives what the calling context's session keeps fixed, or `None` when it belongs to none that does."""


def check_kinds(kinds: Collection[str]) -> None:
    """Refuse kinds that cannot be frozen.

    Raises:
        ConfigurationError: A kind is not known.
    """
    unknown = sorted(set(kinds) - set(KINDS))
    if unknown:
        raise ConfigurationError(f"cannot freeze {', '.join(unknown)}; expected only: {', '.join(KINDS)}")

"""A ticking clock starts at the recorded moment and runs on at the speed of the real one."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from agenttape_core.errors import ConfigurationError
from agenttape_core.freeze import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    OpenSession = Callable[..., AbstractContextManager[Frozen]]

MOMENT = 1_700_000_000.25


def test_it_runs_as_fast_as_the_monotonic_clock(session: OpenSession) -> None:
    """Between two looks at the monotonic clock lies the time that the ticking clock shows, from the moment on."""
    before = time.monotonic()
    with session(kinds=["clock:ticking"]):
        inside = time.monotonic()
        seconds, moment = time.time(), datetime.now(UTC).timestamp()
        after = time.monotonic()
    assert MOMENT <= seconds <= moment
    # Half a microsecond: the resolution of floats at this magnitude, and of `datetime`.
    assert seconds - MOMENT >= -5e-7
    assert moment - MOMENT <= after - before + 5e-7
    assert inside >= before


def test_it_passes_without_a_sleep(session: OpenSession) -> None:
    """A loop that waits for a moment to come ends."""
    with session(kinds=["clock:ticking"]):
        deadline = time.time() + 0.002
        while time.time() < deadline:
            pass
        assert time.time_ns() >= round(deadline * 1e9) - 1_000


def test_a_sleep_counts_once(session: OpenSession) -> None:
    """What a sleep takes is on the monotonic clock already."""
    with session(kinds=["clock:ticking"]):
        began = time.monotonic()
        first = time.time()
        time.sleep(0.005)
        passed = time.time() - first
        assert passed <= time.monotonic() - began + 5e-7


def test_it_never_goes_back(session: OpenSession) -> None:
    """A later look is never an earlier moment, whatever the clock of the wall does meanwhile."""
    with session(kinds=["clock:ticking"]):
        looks = [time.time() for _ in range(100)]
    assert looks == sorted(looks)


def test_ids_do_not_tick(session: OpenSession) -> None:
    """Ids with a time are those of the session's beginning, so that they are equal in every run."""
    made = []
    for _ in range(2):
        with session(kinds=["clock:ticking", "uuid"]) as frozen:
            made.append([frozen.next_uuid("m", 7) for _ in range(3)])
    assert made[0] == made[1]


def test_it_is_one_of_two_clocks() -> None:
    """A session has one clock; the message names both."""
    with pytest.raises(ConfigurationError, match=r"both clock and clock:ticking"):
        Frozen(kinds=["clock", "clock:ticking"], seed="s", clock=0.0, scope=str)

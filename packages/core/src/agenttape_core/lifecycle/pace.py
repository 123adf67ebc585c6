"""The speed of a session, as its settings say it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from agenttape_core.engine import Policy
from agenttape_core.errors import ConfigurationError, counted
from agenttape_core.schema import IndexRow, Timing
from agenttape_core.session import Tempo

_SHOWN = 5


def tempo_of(
    pace: float | Literal["virtual"],
    rows: Sequence[IndexRow],
    timings: Callable[[], Mapping[int, Timing]],
    policy: Policy,
    *,
    is_held: bool,
) -> Tempo | None:
    """Return the speed of a session; `None` if there are no waits.

    Args:
        pace: The setting.
        rows: The recordings.
        timings: Returns their times.
        policy: The permissions of the session.
        is_held: Whether a context enters it, and it does not depart from its recording.

    Raises:
        ConfigurationError: If it is to have virtual time, and its time cannot be held.
    """
    if pace != "virtual":
        return Tempo(pace, timings()) if pace else None
    if policy.replaces:
        return None  # a recording takes the time that it takes
    if not is_held:
        raise ConfigurationError("pace='virtual': the time of a stand-in, a cache or a fork cannot be held")
    if not policy.offline:
        raise ConfigurationError(
            "pace='virtual': what is executed takes real time\n"
            "  leave out `live` and `candidate`, and replay with mode='replay'"
        )
    known = timings()
    if missing := [row.number for row in rows if row.number not in known]:
        which = ", ".join(map(str, missing[:_SHOWN])) + (", …" if len(missing) > _SHOWN else "")
        raise ConfigurationError(
            f"pace='virtual': the cassette does not say how long {counted(len(missing), 'call')} took ({which})\n"
            "  it was observed, imported or written by hand; record it, or leave pace out"
        )
    return Tempo(1.0, known, is_virtual=True)

"""The local time zone of a recording and of its replay.

A frozen clock is a moment. What `datetime.now()` shows of a moment depends on the zone of the process, which no session
can set for it: the zone belongs to the machine, as a file or as `TZ`. So a replay in another zone reports that it is.
"""

from __future__ import annotations

import time

from agenttape_core.lazy_patterns import Lazy

_OFFSET = Lazy(r"([+-])(\d\d)(\d\d)(?: \S+)?")
_UTC = "+0000"


def zone_at(moment: float) -> str:
    """Return the local zone of this process at a moment, as `+0900 JST`."""
    local = time.localtime(moment)
    return f"{time.strftime('%z', local)} {local.tm_zone}"


def another_zone(recorded: str, moment: float | None) -> str:
    """Return how a time zone differs from the recorded one, and how to replay in that one; "" if it doesn't.

    `recorded` is empty if it is not known; `moment` is the frozen moment at which the recording began, `None` if its
    clock is not frozen.
    """
    found = _OFFSET.fullmatch(recorded)
    if found is None or moment is None:
        return ""
    now = zone_at(moment)
    if now.partition(" ")[0] == recorded.partition(" ")[0]:
        return ""
    sign, hours, minutes = found.groups()
    # In TZ, the offset is what has to be added to the local time: the other way round.
    posix = f"'<{sign}{hours}{minutes}>{'-' if sign == '+' else '+'}{hours}:{minutes}'"
    variable = "UTC" if recorded.startswith(_UTC) else posix
    return f"recorded in the time zone {recorded}, replayed in {now}: local times differ; replay with TZ={variable}"

"""The calls of a session that are decided or answered at this moment, beside those that are executed.

Waiting for a call takes no frozen time: a call takes none when it is executed, so it takes none when it is served.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from agenttape_core.session.base_session import BaseSession, Slot


def _none(_session: BaseSession) -> list[None]:
    return []


ANSWERING = Slot(_none)
"""An entry for each such call: a list, as appending and removing are safe from any thread."""


@contextmanager
def under_way(session: BaseSession) -> Iterator[None]:
    """While inside, a call of a session is being decided or answered."""
    answering = session.extension(ANSWERING)
    answering.append(None)
    try:
        yield
    finally:
        answering.pop()

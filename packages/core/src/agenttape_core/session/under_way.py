"""The calls of a session that are decided or answered at this moment, beside those that are executed.

Waiting for a call takes no frozen time: a call takes none when it is executed, so it takes none when it is served.
"""

from __future__ import annotations

from agenttape_core.session.base_session import BaseSession


class under_way:  # noqa: N801 - used like a function: a context manager, several times for each call
    """While inside, a call of a session is being decided or answered.

    Args:
        session: The session.
    """

    __slots__ = ("_answering",)

    def __init__(self, session: BaseSession) -> None:
        self._answering = session.answering

    def __enter__(self) -> None:
        self._answering.append(None)

    def __exit__(self, *_: object) -> None:
        self._answering.pop()

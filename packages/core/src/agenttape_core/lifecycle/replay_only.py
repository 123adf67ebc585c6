"""Sessions that are nobody's current one: of a model that is made of a cassette, of a cache that is on one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from agenttape_core.engine import Mode
from agenttape_core.lifecycle.commit import settle
from agenttape_core.lifecycle.open_session import open_session
from agenttape_core.lifecycle.remedy import Remedy
from agenttape_core.lifecycle.request import SessionRequest
from agenttape_core.matching import STRICT, Exhausted
from agenttape_core.redaction import Rule
from agenttape_core.session import Session
from agenttape_core.settings import Pace, explicit


def open_replay(
    name_or_path: str | Path,
    *,
    exhausted: Exhausted | None = None,
    redact: bool | Sequence[Rule] = True,
    pace: Pace | None = None,
) -> Session:
    """Return a session that replays a cassette for one object; it is never the current session of a context.

    Args:
        name_or_path: A bare name under the project's cassette folder, or a path.
        exhausted: What to do when a request is asked more often than it was recorded.
        redact: The rules that the cassette was recorded with, beyond the built-in ones.
        pace: How long it takes, as in `use_cassette`; by default as the project's settings say.

    Raises:
        CassetteError: If there is no such cassette, or it cannot be read.
        ConfigurationError: If it was recorded with a redaction key or rules that are not given now, or the pace is
            not valid.
    """
    request = SessionRequest(
        cassette=name_or_path,
        options=explicit({"exhausted": exhausted, "pace": pace}),
        redact=redact,
        remedy=_record_again,
        mode=Mode.NONE,
        is_current=False,
    )
    return open_session(request).session


def _record_again(_: bool) -> list[str]:
    return ["record the agent again, and replay the new cassette"]


_AS_A_CACHE: Mapping[str, object] = {
    "match_on": STRICT,  # it answers a request and not a place in a run: another request gets another answer
    "on_error": "keep",  # it has no block that could fail
}


class Recording:
    """A cassette that one object serves from and records to, beside all sessions. End it with `close`.

    What it says of the modes is what sessions say, except that nothing is frozen, guarded or judged unused.

    Args:
        name_or_path: A bare name under the project's cassette folder, or a path.
        mode: As in `use_cassette`; by default as the project's settings say.
        exhausted: What to do when a request is asked more often than it was recorded.
        redact: Rules beyond the built-in ones, or `False` to keep secrets as they are.
        tags: Words for the header.
        remedy: Says how to record what is missing, a line each.

    Raises:
        CassetteError: If there is nothing to replay, it cannot be read, or it is being recorded elsewhere.
        ConfigurationError: If an option, a rule or a setting is not valid.
    """

    def __init__(
        self,
        name_or_path: str | Path,
        *,
        mode: str | Mode | None,
        exhausted: Exhausted,
        redact: bool | Sequence[Rule],
        tags: Sequence[str],
        remedy: Remedy,
    ) -> None:
        given = {"mode": mode, "exhausted": exhausted, "tags": tags or None}
        request = SessionRequest(
            cassette=name_or_path,
            options={**explicit(given), **_AS_A_CACHE},
            redact=redact,
            remedy=remedy,
            is_current=False,
            leaves_empty=True,
        )
        self._opened = open_session(request)
        self._is_closed = False

    @property
    def session(self) -> Session:
        """The session that serves and records."""
        return self._opened.session

    def close(self) -> None:
        """Write what was recorded; without anything recorded the file is left as it is. Once is enough.

        Raises:
            CassetteWriteError: If the file cannot be written; the message says where the recording is kept.
        """
        if not self._is_closed:
            self._end()
            settle(self._opened, None)

    def abandon(self) -> None:
        """End without touching the cassette, and forget what was recorded."""
        if not self._is_closed:
            self._end()
            self._opened.abandon()

    def _end(self) -> None:
        self._is_closed = True
        self.session.close()

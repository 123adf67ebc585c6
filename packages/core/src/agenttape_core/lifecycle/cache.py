"""Cassettes that one object replays, beside all sessions: as a cache (`Recording`), or as a stand-in's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agenttape_core.engine import Mode
from agenttape_core.lifecycle.commit import settle
from agenttape_core.lifecycle.open_session import open_session
from agenttape_core.lifecycle.presence import end
from agenttape_core.lifecycle.remedy import Remedy
from agenttape_core.lifecycle.request import SessionRequest
from agenttape_core.matching import STRICT, OnRepeat
from agenttape_core.redaction import Rule
from agenttape_core.session import Session
from agenttape_core.settings import explicit

_AS_A_CACHE: Mapping[str, object] = {
    "match_on": STRICT,  # it answers a request and not a place in a run: another request gets another answer
    "on_error": "keep",  # it has no block that could fail
}


class Recording:
    """A cassette that one object replays and records to. End it with `close`.

    The modes are the same as for sessions, except that a cache doesn't freeze, guard or judge unused recordings.

    Args:
        name_or_path: A bare name under the project's cassette folder, or a path.
        mode: The mode, as in `use_cassette`; by default as in the project's settings.
        on_repeat: The reaction to a request that is repeated more often than it was recorded.
        redact: Rules beyond the built-in ones, or `False` to keep secrets in plain text.
        tags: Words for the header.
        remedy: Returns how to record missing calls, a line each.

    Raises:
        CassetteError: If there is no cassette to replay, it can't be read, or it is being recorded elsewhere.
        ConfigurationError: If an option, a rule or a setting is not valid.
    """

    def __init__(
        self,
        name_or_path: str | Path,
        *,
        mode: str | Mode | None,
        on_repeat: OnRepeat,
        redact: bool | Sequence[Rule],
        tags: Sequence[str],
        remedy: Remedy,
    ) -> None:
        given = {"mode": mode, "on_repeat": on_repeat, "tags": tags or None}
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
        """The session that replays and records."""
        return self._opened.session

    def close(self) -> None:
        """Write the recorded calls; without any, the file doesn't change. Once is enough.

        Raises:
            CassetteWriteError: If the file can't be written; the message shows where the recording is kept.
        """
        if not self._is_closed:
            self._end()
            settle(self._opened, None)

    def abandon(self) -> None:
        """End without touching the cassette, and drop the recorded calls."""
        if not self._is_closed:
            self._end()
            self._opened.abandon()

    def _end(self) -> None:
        self._is_closed = True
        end(self.session)


# -- `open_replay`: the session of a stand-in, which answers from a cassette and is never the current session.


def open_replay(
    name_or_path: str | Path, options: Mapping[str, Any] | None = None, *, redact: bool | Sequence[Rule] = True
) -> Session:
    """Return a session that replays a cassette for one object; it is never the current session of a context.

    Args:
        name_or_path: A bare name under the project's cassette folder, or a path.
        options: Options of `use_cassette`, such as `on_repeat` and `pace`; by default as in the project's settings.
        redact: The rules that the cassette was recorded with, beyond the built-in ones.

    Raises:
        CassetteError: If the cassette doesn't exist, or can't be read.
        ConfigurationError: If it was recorded with a redaction key or rules that are not given now, or an option is
            not valid.
    """
    request = SessionRequest(
        cassette=name_or_path,
        options=explicit(options or {}),
        redact=redact,
        remedy=_record_again,
        mode=Mode.REPLAY,
        is_current=False,
    )
    return open_session(request).session


def settings_of_replay(session: Session) -> dict[str, Any]:
    """Return the options that open a replay like this one where the project has other settings."""
    setup, policy = session.setup, session.policy
    return {
        "on_repeat": policy.on_repeat,
        "match_on": policy.match_on,
        "on_miss": policy.on_miss,
        "ignore": setup.ignored.spelled,
        "accept": ("lossy",) if policy.accepts_lossy else (),
        "unavailable": setup.unavailable,
        "pace": setup.pace.scale if setup.pace is not None else 0.0,
    }


def _record_again(_: bool) -> list[str]:
    return ["record the agent again, and replay the new cassette"]

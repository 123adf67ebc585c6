"""`open_replay`: the session of a stand-in, which answers from a cassette and is never the current session."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agenttape_core.engine import Mode
from agenttape_core.lifecycle.open_session import open_session
from agenttape_core.lifecycle.request import SessionRequest
from agenttape_core.matching import OnRepeat
from agenttape_core.redaction import Rule
from agenttape_core.session import Session
from agenttape_core.settings import Pace, explicit


def open_replay(
    name_or_path: str | Path,
    *,
    on_repeat: OnRepeat | None = None,
    redact: bool | Sequence[Rule] = True,
    pace: Pace | None = None,
) -> Session:
    """Return a session that replays a cassette for one object; it is never the current session of a context.

    Args:
        name_or_path: A bare name under the project's cassette folder, or a path.
        on_repeat: The reaction to a request that is repeated more often than it was recorded; by default as in the
            project's settings.
        redact: The rules that the cassette was recorded with, beyond the built-in ones.
        pace: The time that an answer takes, as in `use_cassette`; by default as in the project's settings.

    Raises:
        CassetteError: If the cassette doesn't exist, or can't be read.
        ConfigurationError: If it was recorded with a redaction key or rules that are not given now, or an option is
            not valid.
    """
    request = SessionRequest(
        cassette=name_or_path,
        options=explicit({"on_repeat": on_repeat, "pace": pace}),
        redact=redact,
        remedy=_record_again,
        mode=Mode.REPLAY,
        is_current=False,
    )
    return open_session(request).session


def _record_again(_: bool) -> list[str]:
    return ["record the agent again, and replay the new cassette"]

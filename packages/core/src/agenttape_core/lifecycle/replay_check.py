"""The replay check of a decorated function: called again right away, it has to replay its recording."""

from __future__ import annotations

import warnings
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Self

from agenttape_core.errors import (
    AgentTapeHalt,
    ConfigurationError,
    RecordingDoesNotReplayWarning,
    VerificationError,
    shown_path,
)
from agenttape_core.lifecycle.project import replaying_only
from agenttape_core.lifecycle.request import SessionRequest, no_remedy
from agenttape_core.matching import differences
from agenttape_core.session import Session, plain_value
from agenttape_core.settings import check_replay_of
from agenttape_core.storage import is_pending

_SHOWN = 5  # the most differences of two results that are shown


def checks_replay(request: SessionRequest) -> bool:
    """Return whether the call that gave the options wants its recordings checked."""
    return check_replay_of(request.options.get("check_replay", False)) is not False


def has_recorded(session: Session) -> bool:
    """Return whether a session, which has ended, wrote its recording."""
    return session.policy.records and session.written is not None


class ReplayCheck:
    """A replay check: a context manager around the second call, whose result is to be `compare`d inside it.

    The function `recorded` in a session that has ended, which `request` had opened; `result` is its result.
    Raises `VerificationError` with `check_replay="fail"` if the second call differs.
    """

    def __init__(self, request: SessionRequest, recorded: Session, result: object) -> None:
        self._fails = check_replay_of(request.options["check_replay"]) == "fail"
        self._session = recorded
        self._result = result
        self._replaying = replaying_only(everywhere=False)
        # What was just recorded is what is replayed, also where it waits for review.
        self.request = request._replace(remedy=no_remedy, cassette=_recorded_in(request, recorded))
        """The session of any later run; recording again doesn't help."""

    def __enter__(self) -> Self:
        self._replaying.__enter__()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        self._replaying.__exit__(None, None, None)
        if not isinstance(error, Exception | AgentTapeHalt) or isinstance(error, VerificationError):
            return False
        self._report([f"{type(error).__name__}: {error}"], error)
        return True

    def compare(self, replayed: object) -> None:
        """Compare the results of the second call and the first."""
        before, now = (self._session.redactor.value(plain_value(value)) for value in (self._result, replayed))
        found = islice(differences(before, now, "result"), _SHOWN)
        lines = [f"{each.path}\n  recorded  {each.recorded}\n  replayed  {each.asked}" for each in found]
        if lines:
            self._report(lines)

    def _report(self, found: list[str], cause: BaseException | None = None) -> None:
        lines = "\n  ".join("\n".join(found).splitlines())
        message = f"{shown_path(self._session.path)} does not replay\n  {lines}"
        if self._fails:
            raise VerificationError(message) from cause
        warnings.warn(RecordingDoesNotReplayWarning(message), stacklevel=4)  # the line of the first call


def _recorded_in(request: SessionRequest, recorded: Session) -> str | Path:
    written = recorded.written
    return written if isinstance(written, Path) and is_pending(written.name) else request.cassette


def refuse_block(request: SessionRequest) -> None:
    """Refuse, with `ConfigurationError`, to check a block of code if requested: it can't be run again."""
    if checks_replay(request):
        raise ConfigurationError(
            "check_replay: a block of code can't run again to check its recording\n"
            "  decorate a function instead:  @use_cassette(..., check_replay=True)\n"
            "  or mark a test (@pytest.mark.cassette), or record a command:  agenttape record --check-replay -- COMMAND"
        )

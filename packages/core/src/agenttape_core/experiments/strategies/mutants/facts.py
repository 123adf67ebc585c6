"""The facts of one run of a test or a function: how it ended, and which recorded calls it made."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from agenttape_core.errors import AgentTapeError, AgentTapeHalt, UnusedInteractionsError
from agenttape_core.session import Session

How = Literal["passed", "miss", "unused", "assertion", "raised", "skipped"]
"""The end of a run: it passed; it asked for something else than was recorded (a miss, or an attempt to reach the
outside); recordings were left unused; an assertion failed; something else was raised; or it was skipped."""
_ADDRESS = re.compile(r"\b0x[0-9a-f]+")


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of one run of a test or a function.

    Args:
        how: How it ended.
        words: The first line of what ended it.
        cassettes: The cassettes that it replayed.
        calls: The calls that were served or run through: the cassette, the number, the address and the match_rule.
        unused: The recordings that were not used: their addresses.
        drift: The calls that got an error result for want of a recording.
        executed: The number of calls that were executed.
        not_run: The tools that were served, each with the reason why its code was not run.
        ignored: The paths of requests that were not compared.
        value: The value that a function returned, as a text; empty for a test.
        seconds: The duration of the run.
    """

    how: How
    words: str = ""
    cassettes: tuple[str, ...] = ()
    calls: tuple[tuple[str, int, str, str], ...] = ()
    unused: tuple[str, ...] = ()
    drift: tuple[str, ...] = ()
    executed: int = 0
    not_run: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    value: str = ""
    seconds: float = 0.0

    @classmethod
    def of(
        cls,
        sessions: Sequence[Session],
        error: BaseException | None,
        *,
        ours: AgentTapeError | AgentTapeHalt | None = None,
        value: str = "",
        seconds: float = 0.0,
    ) -> Facts:
        """Return the facts of a run.

        Args:
            sessions: Its sessions, which have ended.
            error: The exception that it ended with, if it did.
            ours: The error of ours in it, if it has one.
            value: The value that it returned, as a text.
            seconds: Its duration.
        """
        replays = [one for one in sessions if one.is_replay]
        missed = [line for one in replays for line in (*one.report.missed, *one.report.blocked)]
        return cls(
            how=_how(error, ours, missed),
            words=_first(missed) if error is not None and missed else _said(error),
            cassettes=tuple(dict.fromkeys(str(one.path) for one in replays if one.report.replayed)),
            calls=tuple(
                (str(one.path), each.number, each.address, str(each.match_rule or ""))
                for one in replays
                for each in sorted((*one.report.replayed, *one.report.stepped_into), key=lambda call: call.number)
            ),
            unused=tuple(each.address for one in replays for each in one.report.judged),
            drift=tuple(_first([str(each)]) for one in replays for each in one.report.drift),
            executed=sum(len(one.report.recorded) for one in sessions),
            not_run=tuple(dict.fromkeys(str(tool) for one in replays for tool in one.report.not_run)),
            ignored=tuple(dict.fromkeys(path for one in replays for path in one.setup.ignored.spelled)),
            value=_ADDRESS.sub("0x…", value),
            seconds=round(seconds, 4),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data; `from_dict` reads it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Facts:
        """Return the facts that `to_dict` made plain, also after a way through JSON."""
        made: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in plain.items()
        }
        return cls(**{**made, "calls": tuple(map(tuple, plain["calls"]))})


def _how(error: BaseException | None, ours: BaseException | None, missed: Sequence[str]) -> How:
    if error is None:
        return "passed"
    if missed:
        return "miss"
    if isinstance(ours, UnusedInteractionsError):
        return "unused"
    if isinstance(ours, AgentTapeHalt):
        return "miss"
    return "assertion" if isinstance(error, AssertionError) else "raised"


def _said(error: BaseException | None) -> str:
    if error is None:
        return ""
    name = type(error).__name__
    return _first([str(error) if name.startswith("_") else f"{name}: {error}"])


def _first(lines: Sequence[str]) -> str:
    return lines[0].partition("\n")[0] if lines else ""

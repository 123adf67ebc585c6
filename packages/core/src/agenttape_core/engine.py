"""Decide what happens on a call: replay it, step into it, execute it or refuse it. Pure, without side effects.

The decision follows from the policy of the session: its mode, and the options that bend it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from agenttape_core.errors import ConfigurationError
from agenttape_core.matching import NO_CALLS, STRICT, WAYS, Candidate, MatchOn, OnRepeat, Selector
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import PURE_KINDS


class Mode(StrEnum):
    """The mode of a session: it decides on calls that are recorded, and on those that aren't."""

    REPLAY = "replay"
    """Replay recorded calls; any other call is a miss."""
    ONCE = "once"
    """Record if there's no cassette yet, else replay."""
    ADD = "add"
    """Replay recorded calls, and record the rest."""
    UPDATE = "update"
    """Replay recorded calls, record the rest, and drop recordings that the run no longer uses."""
    RECORD = "record"
    """Record everything; the old recordings are replaced."""

    @property
    def always_records(self) -> bool:
        """True where calls are recorded even if there's a cassette."""
        return self in {Mode.ADD, Mode.UPDATE, Mode.RECORD}


_OF_VCR = {"none": Mode.REPLAY, "new_episodes": Mode.ADD, "all": Mode.RECORD}


def parse_mode(word: str | Mode) -> Mode:
    """Return the mode that a word, ours or VCR's, names. Raises `ConfigurationError` if it names none."""
    if word in _OF_VCR:
        return _OF_VCR[word]
    try:
        return Mode(word)
    except ValueError:
        words = ", ".join([*Mode, *(f"{theirs} (VCR's name for {mode})" for theirs, mode in _OF_VCR.items())])
        raise ConfigurationError(f"{word!r} isn't a mode; choose one of: {words}") from None


OnMiss = Literal["raise", "return"]
"""The answer to a call that can be neither replayed nor executed: a miss, or an error result that the run gets."""


IDEMPOTENT = "idempotent"
"""The word in `live` for boundaries that say that a call of them may be made again, or only reads."""

_REPLAYED_WHOLE = frozenset({"call"})
"""The kinds that are replayed whole unless `step_into` names them: you marked the function, so its code doesn't run."""


@dataclass(eq=False, repr=False)
class Policy:
    """The permissions of one session, and their consequences: computed once, since every call needs them."""

    mode: Mode  # the mode it was opened in
    recorded: bool  # whether a cassette was there when it was opened
    live: Selector = NO_CALLS  # the calls that are executed for real in any mode
    replay_only: Selector = NO_CALLS  # the calls that are only ever replayed, in any mode
    # The calls that are stepped into, whatever they did; `None` if there is none, because it has no code.
    step_into: Selector | None = NO_CALLS
    on_repeat: OnRepeat = "fail"  # the answer when a sequence of equal requests runs out
    match_on: MatchOn = STRICT  # how a recording is found, tried in turn
    on_miss: OnMiss = "raise"  # the answer to a call that has no recording
    accepts_lossy: bool = False  # true if recordings are replayed that hold less than the call returned
    repeats: frozenset[str] = PURE_KINDS  # the kinds of which a recording answers every equal request
    is_shared: bool = False  # whether other runs may ask for what this one does not: the cassette serves several
    executable: Selector | None = None
    """The calls that may be executed if they have no recording; `None` if the mode alone decides."""
    unrecorded: frozenset[str] = frozenset()
    """The kinds that are executed if they have no recording, even in a replay: the other calls while a candidate model
    is tried."""

    replaces: bool = field(init=False)  # true if the recorded calls replace the whole old cassette
    records: bool = field(init=False)  # true if calls without a recording may be executed
    adds: bool = field(init=False)  # true if the run is added to those that are recorded: none of these goes
    updates: bool = field(init=False)
    """True if the run replaces the recorded one, and keeps the recordings of calls that it still makes."""
    offline: bool = field(init=False)  # true if no call may be executed
    replays: bool = field(init=False)  # true if anything may be replayed
    runs_idempotent: bool = field(init=False)
    """True if boundaries that declare their calls repeatable are executed if they have no recording."""

    def __post_init__(self) -> None:
        """Compute what follows."""
        mode, recorded = self.mode, self.recorded
        replaces = mode is Mode.RECORD or (mode in {Mode.ONCE, Mode.UPDATE} and not recorded)
        records = replaces or mode in {Mode.ADD, Mode.UPDATE}
        vars(self).update(
            replaces=replaces,
            records=records,
            adds=mode is Mode.ADD or (mode is Mode.UPDATE and recorded and self.is_shared),
            updates=mode is Mode.UPDATE and recorded and not self.is_shared,
            offline=not records and not self.live and not self.unrecorded,
            replays=not replaces or (recorded and bool(self.replay_only)),
            runs_idempotent=IDEMPOTENT in self.live,
        )

    def may_replay(self, kind: str, name: str, address: str = "") -> bool:
        """True if a recording would be replayed if there is one; else there is no need to look for it."""
        return not (self.replaces or self.is_live(kind, name, address)) or self.is_replay_only(kind, name, address)

    def is_replay_only(self, kind: str, name: str, address: str = "") -> bool:
        """True if a boundary is only ever replayed."""
        return self.is_barred(kind, name, address) or self._is_named_replay_only(kind, name, address)

    def is_barred(self, kind: str, name: str, address: str = "") -> bool:
        """True if a run that has diverged from its recording may not execute a boundary."""
        return self.executable is not None and not self.executable.selects(kind, name, address)

    def _is_named_replay_only(self, kind: str, name: str, address: str) -> bool:
        return bool(self.replay_only) and self.replay_only.selects(kind, name, address)

    def may_step_into(self, kind: str, name: str, address: str = "") -> bool:
        """True if you have named no recorded call like this as one whose code is never run."""
        return self.step_into is not None and not self._is_named_replay_only(kind, name, address)

    def steps_into(self, kind: str, name: str, candidate: Candidate, address: str = "") -> bool:
        """True if the code of a recorded call is run, and the calls that it makes are decided on one by one."""
        if not self.may_step_into(kind, name, address):
            return False
        return self.must_step_into(kind, name, address) or (kind not in _REPLAYED_WHOLE and candidate.contained)

    def must_step_into(self, kind: str, name: str, address: str = "") -> bool:
        """True if the user wants the code of a recorded call to run."""
        return self.step_into is not None and bool(self.step_into) and self.step_into.selects(kind, name, address)

    def is_live(self, kind: str, name: str, address: str = "") -> bool:
        """True if a boundary is executed in any mode. What is named as both is replay-only."""
        is_named = bool(self.live) and self.live.selects(kind, name, address)
        return is_named and not self.is_replay_only(kind, name, address)


def parse_match_on(chosen: object) -> MatchOn:
    """Return the ways that an option names: words or functions. Raises `ConfigurationError` for others."""
    several = tuple(chosen) if isinstance(chosen, list | tuple) else (chosen,)
    for way in several:
        if not callable(way) and way not in WAYS:
            raise ConfigurationError(
                f"match_on={way!r}: expected one of {', '.join(WAYS)}, or a function of (asked, recorded)"
            )
    if not several:
        raise ConfigurationError(f"match_on=() can find no recording; expected one or more of {', '.join(WAYS)}")
    return several


class Replay(NamedTuple):
    """Answer from the cassette."""

    found: Candidate


class StepInto(NamedTuple):
    """Run the code of the call; the calls that it makes are decided on one by one, and replayed."""

    found: Candidate


class Execute(NamedTuple):
    """Call the real thing."""

    live: bool  # true if it is executed because it is named as live, not because it is being recorded


class Refuse(NamedTuple):
    """Neither: it is a miss."""

    found: Candidate | None  # the recording that may not be replayed because it is lossy, if there is one


Decision = Replay | StepInto | Execute | Refuse


def decide(
    policy: Policy,
    kind: str,
    name: str,
    candidate: Candidate | None,
    *,
    address: str = "",
    is_tried: bool = False,
    is_idempotent: bool = False,
) -> Decision:
    """Decide what happens on a call. Pure: to use up the recording that answers it is the session's business."""
    if (is_tried and not policy.is_replay_only(kind, name, address)) or not policy.may_replay(kind, name, address):
        return Execute(live=is_tried or policy.is_live(kind, name, address))
    if candidate is None:
        return _unrecorded(policy, kind, name, address, is_idempotent=is_idempotent)
    if policy.steps_into(kind, name, candidate, address):
        return StepInto(candidate)
    return Replay(candidate) if policy.accepts_lossy or not candidate.lossy else Refuse(candidate)


def _unrecorded(policy: Policy, kind: str, name: str, address: str, *, is_idempotent: bool) -> Decision:
    """Decide what happens on a call that has no recording."""
    if policy.is_replay_only(kind, name, address):
        return Refuse(None)
    if policy.records:
        return Execute(live=False)
    may_run = kind in policy.unrecorded or ((is_idempotent or kind in PURE_KINDS) and policy.runs_idempotent)
    return Execute(live=True) if may_run else Refuse(None)

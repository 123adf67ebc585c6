"""The report of a session: the fate of each interaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Literal, Self

from agenttape_core.lazy_patterns import Lazy
from agenttape_core.matching import MatchRule
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import FAKED, PURE_KINDS, Interaction, Plain, SideEffect

# -- UnrecordedCall: the calls of a run that lived on although they had no recording.


class UnrecordedCall(str):
    """A call that got an error result because there was no recording. Its text is the line of the report.

    Args:
        summary: The line.
        kind: The kind of boundary.
        name: The name of the boundary.
        address: Where the call was made.
        reason: Why it has no recording, in a few words.
        request: The request: redacted plain data, as a cassette holds it.
        nearest: The number of the recording nearest to it; `None` if no call of its kind was recorded.
        differences: The parts in which that differs: path, as recorded, as asked.
    """

    __slots__ = ("address", "differences", "kind", "name", "nearest", "reason", "request")

    def __new__(cls, summary: str, **_: Any) -> Self:
        """Make the line."""
        return super().__new__(cls, summary)

    def __init__(
        self,
        summary: str,  # noqa: ARG002 - the text itself
        *,
        kind: str,
        name: str,
        address: str,
        reason: str,
        request: Plain,
        nearest: int | None = None,
        differences: Sequence[tuple[str, Any, Any]] = (),
    ) -> None:
        self.kind = kind
        self.name = name
        self.address = address
        self.reason = reason
        self.request = request
        self.nearest = nearest
        self.differences = tuple(differences)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return its fields, so that it can be pickled and sent to another process."""
        return _made, (str(self), self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        return {
            "kind": self.kind,
            "name": self.name,
            "address": self.address,
            "reason": self.reason,
            "request": self.request,
            "nearest": self.nearest,
            "differences": [
                {"path": path, "recorded": _shown(recorded), "asked": _shown(asked)}
                for path, recorded, asked in self.differences
            ],
        }


def _made(summary: str, fields: dict[str, Any]) -> UnrecordedCall:
    differences = [(part["path"], part["recorded"], part["asked"]) for part in fields.pop("differences")]
    return UnrecordedCall(summary, differences=differences, **fields)


def _shown(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | list | dict | None) else str(value)


class CallRecord(NamedTuple):
    """One interaction and what became of it.

    Args:
        kind: The kind of boundary.
        name: The name of the boundary.
        address: Its location in the run.
        number: Its number in the cassette; while recording, the order of its start.
        match_rule: How its recording was found; `None` if it was executed or not used at all.
        same: Whether the recording has the same request.
    """

    kind: str
    name: str
    address: str
    number: int
    match_rule: MatchRule | None = None
    same: bool = True

    def __str__(self) -> str:
        found = f" ({self.match_rule})" if self.match_rule is not None else ""
        return f"{self.number:>4}  {self.kind} {self.name} at {self.address}{found}"


class SkippedTool(NamedTuple):
    """A tool that was replayed in a run, although its code might have been run."""

    name: str
    why: str  # the reason, such as `wrote report.md`

    def __str__(self) -> str:
        return f"{self.name} ({self.why})"


class ReachedChange(NamedTuple):
    """A change that was reached: a call that got another outcome than its recording."""

    kind: str  # the kind of boundary
    name: str  # the name of the boundary
    address: str  # where the call was made
    number: int  # the number of its recording
    change: str  # what came of it instead, in words

    def __str__(self) -> str:
        return f"{self.number:>4}  {self.kind} {self.name} at {self.address}: {self.change}"


class Divergence(NamedTuple):
    """A call that differs from its recording, after something was changed."""

    # `changed` if its request differs from the recording that answered it, `missed` if it had none, and `executed` if
    # it was made for real because it had none.
    what: Literal["changed", "missed", "executed"]
    kind: str  # the kind of boundary
    name: str  # the name of the boundary
    address: str  # where the call was made
    # The number of the recording that answered it, or that is nearest to it; `None` if there is none.
    number: int | None = None
    # The parts of its request that differ: path, recorded value, present value.
    differences: tuple[tuple[str, str, str], ...] = ()

    def __str__(self) -> str:
        number = f"{self.number:>4}" if self.what == "changed" else "   +"
        differs = "; ".join(f"{path}: {old!s} → {new!s}" for path, old, new in self.differences[:_SHOWN])
        return f"{number}  {self.kind} {self.name} at {self.address}{': ' if differs else ''}{differs}"


_LOOSE = {"address": "by address", "ordered": "in order", "matcher": "by a matcher"}
"""The ways to find a recording of another request, in words."""
_SHOWN = 3
NO_SIDE_EFFECTS = ("(calls nothing that is recorded)", "(its side effects weren't observed)")
"""The ends of lines about tools that a summary leaves out: as far as we can see, no side effect was skipped."""
_REFUSED, _FAKED = "refused because it had no recording", "answered by a fake"
_WITHOUT_SIDE_EFFECTS = (*NO_SIDE_EFFECTS, f"({_REFUSED})", f"({_FAKED})")
"""The ends of lines about tools that list no side effect."""
_PARTICIPLES = {"wrote": "written", "did": "done"}
_IRREGULAR = Lazy(r"(?:^|(?<=, ))(?:wrote|did)\b")  # the verbs of side effects whose participle isn't their past form
_WITH_CODE = frozenset({"tool", "retrieval"})  # the kinds of calls that a replay may step into


def why_not_run(side_effects: Sequence[SideEffect] | None) -> str:
    """Return why the code of a recorded call was not run.

    Args:
        side_effects: Its recorded side effects outside the process.
    """
    if side_effects is None:
        return "its side effects weren't observed"
    if side_effects:
        more = [f"{len(side_effects) - _SHOWN} more"] if len(side_effects) > _SHOWN else []
        return ", ".join([*(effect.what for effect in side_effects[:_SHOWN]), *more])
    return "calls nothing that is recorded"


def answered_without(recorded: Interaction) -> str:
    """Return how a recorded call was answered without its code; empty if its code ran when it was recorded."""
    if recorded.outcome.status == "refused":
        return _REFUSED
    return _FAKED if FAKED in recorded.tags else ""


def side_effects_skipped(tools: Iterable[object]) -> str:
    """Return the line with the tools whose code didn't run in a replay, with each reason once, if any."""
    names: dict[str, list[str]] = {}
    for tool in tools:
        name, bracket, why = str(tool).partition(" (")
        names.setdefault(_skipped(bracket + why), []).append(name)
    return f"side effects skipped: {'; '.join(', '.join(of_one) + why for why, of_one in names.items())}"


def _skipped(why: str) -> str:
    """Return a reason with its side effects, if it lists any, in the conditional: a replay doesn't have them."""
    if not why or why.endswith(_WITHOUT_SIDE_EFFECTS):
        return why
    return f" (would have {_IRREGULAR.sub(lambda verb: _PARTICIPLES[verb[0]], why.removeprefix(' ('))}"


def not_as_recorded(nondeterminism: Iterable[str], entropy: Collection[str], unobserved: Iterable[str]) -> list[str]:
    """Return the lines about parts of a replay that may differ from the recording; an empty list if there are none.

    The arguments are as in `Report`, of one replay or of several.
    """
    said = (
        ("the recorded order could not be imposed: ", ", ", [line for line in nondeterminism if line not in entropy]),
        ("not replayed (real clock or random numbers): ", "; ", list(entropy)),
        ("the run was only observed, and a handler does not see all (a session does): ", "; ", list(unobserved)),
    )
    return [f"{heading}{between.join(lines)}" for heading, between, lines in said if lines]


def _number(call_record: CallRecord) -> int:
    return call_record.number


def _not_known(_: CallRecord) -> str:
    return "replayed"


def _none() -> list[CallRecord]:
    return []


class Report:
    """The interactions that a session replayed, executed, missed and left unused. Grows while the session is open.

    Args:
        why_replayed: Says why the code of a call was not run.
        find_unused: Returns the recordings that the run hasn't used yet.
        run_id: The id of this run, which no other run has: one that replays a cassette has another one than the
            recording.
    """

    def __init__(
        self,
        why_replayed: Callable[[CallRecord], str] = _not_known,
        find_unused: Callable[[], list[CallRecord]] = _none,
        *,
        run_id: str = "",
    ) -> None:
        self._why_replayed = why_replayed
        self._find_unused = find_unused
        self.run_id = run_id
        self._replayed: list[CallRecord] = []
        self._stepped_into: list[CallRecord] = []
        self._executed: list[CallRecord] = []
        self._unused: list[CallRecord] | None = None
        self._missed: list[str] = []
        self._faked: list[CallRecord] = []
        self._unrecorded: list[UnrecordedCall] = []
        self._blocked: list[str] = []
        self._uncovered: dict[str, None] = {}
        self._nondeterminism: dict[str, None] = {}
        self._entropy: dict[str, bool] = {}
        """The draws and readings that were real, each with whether calls may come in another order for it."""
        self._unobserved: dict[str, None] = {}
        self._reached: list[ReachedChange] = []
        self._divergences: list[Divergence] = []

    def __getstate__(self) -> dict[str, Any]:
        """Return its lists, without the session that explains why code was not run."""
        return {**vars(self), "_why_replayed": _not_known, "_find_unused": _none, "_unused": list(self.unused)}

    @property
    def replayed(self) -> tuple[CallRecord, ...]:
        """The calls that got their recorded answer, in the order of the run."""
        return tuple(self._replayed)

    @property
    def stepped_into(self) -> tuple[CallRecord, ...]:
        """The recorded calls whose code was run, while the calls that it made were replayed."""
        return tuple(self._stepped_into)

    @property
    def not_run(self) -> tuple[SkippedTool, ...]:
        """The tools that were replayed, each with the reason why its code was not run, in recorded order.

        A retriever is one of them if its code had side effects beside the calls that it made.
        """
        tools = sorted([call_record for call_record in self._replayed if call_record.kind in _WITH_CODE], key=_number)
        replayed = [SkippedTool(call_record.name, self._why_replayed(call_record)) for call_record in tools]
        return tuple(dict.fromkeys([tool for tool in replayed if tool.why]))

    @property
    def recorded(self) -> tuple[CallRecord, ...]:
        """The calls that were made for real, in the order of the run: recorded ones, or live ones in a replay."""
        return tuple(self._executed)

    @property
    def unused(self) -> tuple[CallRecord, ...]:
        """The recorded interactions that were not used; while the session is open, those that were not used yet."""
        return tuple(self._find_unused() if self._unused is None else self._unused)

    @property
    def judged(self) -> tuple[CallRecord, ...]:
        """The unused interactions that fail a replay: all except pure kinds (embeddings)."""
        return tuple([call_record for call_record in self.unused if call_record.kind not in PURE_KINDS])

    @property
    def missed(self) -> tuple[str, ...]:
        """The calls that had no recording, a line each."""
        return tuple(self._missed)

    @property
    def faked(self) -> tuple[CallRecord, ...]:
        """The calls without a recording that a function of the user answered (`fakes=`)."""
        return tuple(self._faked)

    @property
    def unrecorded(self) -> tuple[UnrecordedCall, ...]:
        """The calls that got an error result for lack of a recording (`on_miss="return"`): a line each, with facts."""
        return tuple(self._unrecorded)

    @property
    def blocked(self) -> tuple[str, ...]:
        """The attempts to reach the outside that the guard refused, a line each."""
        return tuple(self._blocked)

    @property
    def uncovered(self) -> tuple[str, ...]:
        """The connections of a recording that no boundary covers, a line each: the host, and the line of code.

        They are not recorded, and a replay refuses them.
        """
        return tuple(self._uncovered)

    @property
    def nondeterminism(self) -> tuple[str, ...]:
        """The parts of a replay that may differ from the recording, a line each with its cause.

        An order of concurrent parts that the replay couldn't repeat, and everything in `entropy`. For an observed run,
        also see `unobserved`.
        """
        return (*self._nondeterminism, *self._entropy)

    @property
    def entropy(self) -> tuple[str, ...]:
        """The part of `nondeterminism` that isn't an order: real ids, random numbers and clocks, a line each."""
        return tuple(self._entropy)

    @property
    def unobserved(self) -> tuple[str, ...]:
        """The parts of a run that was only observed which a handler cannot see, as far as this replay came to them."""
        return tuple(self._unobserved)

    @property
    def lost_order(self) -> tuple[str, ...]:
        """The part of `nondeterminism` that leaves open in which order the calls of this run come."""
        return (*self._nondeterminism, *(line for line, moves_calls in self._entropy.items() if moves_calls))

    @property
    def reached(self) -> tuple[ReachedChange, ...]:
        """The changes that were reached, in the order of the calls; each changed attempt is one."""
        return tuple(self._reached)

    @property
    def divergences(self) -> tuple[Divergence, ...]:
        """The calls that differ from their recordings, in the order of the run; empty in a replay without changes."""
        return tuple(self._divergences)

    def add_reached(self, change: ReachedChange) -> None:
        """Note a change that was reached."""
        self._reached.append(change)

    def add_divergence(self, divergence: Divergence) -> None:
        """Note a call that differs from its recording."""
        self._divergences.append(divergence)

    def add_nondeterminism(self, line: str) -> None:
        """Note that a part of the recorded order could not be imposed; without a lock, as a signal may come in here."""
        self._nondeterminism[line] = None

    def add_entropy(self, line: str, *, moves_calls: bool = False) -> None:
        """Note that the program was given something real; without a lock, as above.

        Args:
            line: What it is.
            moves_calls: Whether calls may come in another order for it.
        """
        self._entropy[line] = moves_calls

    def add_unobserved(self, line: str) -> None:
        """Note a part of an observed run that its handler couldn't see, and that this replay reached."""
        self._unobserved[line] = None

    def add_uncovered(self, line: str) -> None:
        """Note a connection that no boundary covers."""
        self._uncovered[line] = None

    def add(
        self,
        *,
        replayed: CallRecord | None = None,
        executed: CallRecord | None = None,
        stepped_into: CallRecord | None = None,
        faked: CallRecord | None = None,
    ) -> None:
        """Note an interaction."""
        if stepped_into is not None:
            self._stepped_into.append(stepped_into)
        if replayed is not None:
            self._replayed.append(replayed)
        if faked is not None:
            self._faked.append(faked)
        if executed is not None:
            self._executed.append(executed)

    def add_failure(
        self, *, missed: str | None = None, unrecorded: UnrecordedCall | None = None, blocked: str | None = None
    ) -> None:
        """Note a call that was refused."""
        if unrecorded is not None:
            self._unrecorded.append(unrecorded)
        if missed is not None:
            self._missed.append(missed)
        if blocked is not None:
            self._blocked.append(blocked)

    def leave_unused(self) -> None:
        """Take no recording for unused: the session replays one part of a run, and doesn't see its end."""
        self._unused = []

    def close(self) -> None:
        """Note the recordings that were not used: the session has ended."""
        self._unused = self._find_unused()

    def __str__(self) -> str:
        parts = [f"{len(self._replayed)} replayed", f"{len(self._executed)} recorded"]
        parts += [said] if (said := self.answered_otherwise) else []
        parts += [f"{len(items)} {word}" for items, word in self._exceptional() if items]
        return "\n  ".join([", ".join(parts), *self._uncovered])

    @property
    def answered_otherwise(self) -> str:
        """Say how many calls got the answer to another request, and how it was found; empty if none did.

        That takes looser rules than the default of `match_on`.
        """
        found = [*self._replayed, *self._stepped_into]
        loose = [_LOOSE.get(str(one.match_rule), str(one.match_rule)) for one in found if not one.same]
        ways = Counter(loose) if loose else {}
        parts = [f"{count} of {len(found)} {way}" for way, count in ways.items()]
        return f"{', '.join(parts)}, to another request" if parts else ""

    def _exceptional(self) -> list[tuple[Sequence[object], str]]:
        return [
            (self._stepped_into, "stepped into"),
            (self._unused or (), "unused"),  # in the text once the session has ended
            (self._missed, "missed"),
            (self._unrecorded, "unrecorded"),
            (self._faked, "faked"),
            (self._blocked, "blocked"),
            (list(self._uncovered), "reached outside every boundary"),
        ]

"""The output of a replay, the places where two replays differ, and the result of all."""

from __future__ import annotations

import hashlib
import json
import re
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from agenttape_core.errors import VerificationError
from agenttape_core.experiments.result import Result, Summary
from agenttape_core.experiments.verify.environment import ALL_FACTORS, BY_FACTOR, Cause, Environment, Factor, Noise
from agenttape_core.experiments.worker import ChildResult
from agenttape_core.matching import ABSENT, differing_key_orders, differing_leaves, is_identical
from agenttape_core.matching.difference import differing_words
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.redaction import Redactor
from agenttape_core.schema import Plain
from agenttape_core.session.report import not_as_recorded
from agenttape_core.tools.reporting import Finding

ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{4,}\b")
_ID = re.compile(r"\b[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}\b")
TAG = re.compile(r"\.\$(?!\$)\w+")  # a tag of a value, such as `$tuple`: no step of the path that a reader would take
_MAX_PLACES = 20
_MAX_SHOWN = 2000
_MAX_VALUE = 300
_NOTHING = "(nothing)"
_HIDDEN = "(differs only in what is redacted)"


_MAX_TEXT = 1_000_000  # bytes of a file beyond which it is compared by its hash and shown as that


@dataclass(frozen=True, slots=True)
class Output:
    """The output of one replay. Its child process reports it, but for the streams and files."""

    outcome: str  # `returned`, `raised` with type and message, or how the process ended without either
    failed: bool  # whether the replay itself failed: an error of AgentTape, a crash, no end in time
    stdout: str = ""  # the standard output; bytes that aren't UTF-8 are surrogates
    stderr: str = ""  # the standard error, as text
    files: dict[str, str] = field(default_factory=dict)
    """The files in the working directory by their names: their text, or hash and size."""
    value: Plain = None  # the return value as plain data, or its repr
    calls: dict[str, list[str]] = field(default_factory=dict)
    """The request of each call and what answered it, and its fingerprint, by cassette and address."""
    order: list[list[str]] = field(default_factory=list)
    """The addresses of the calls in each branch, branches in no order."""
    sessions: dict[str, str] = field(default_factory=dict)  # the unused, missed and blocked calls of the sessions
    divergences: dict[str, list[str]] = field(default_factory=dict)
    """The divergences from the recording: the recorded side, and the replayed one."""
    nondeterminism: list[str] = field(default_factory=list)
    """The remarks of the sessions on what may not be as it was recorded: see `Report.nondeterminism`."""
    unobserved: list[str] = field(default_factory=list)
    """The parts that the handler that recorded them could not see, and that the sessions came to, a line each."""
    entropy: list[str] = field(default_factory=list)  # the part of it that isn't an order
    rules: list[dict[str, Any]] = field(default_factory=list)  # the redaction rules of the sessions
    earlier: list[Output] = field(default_factory=list)
    """The outputs of the replays before it in its process, without their streams and files."""
    explored: dict[str, Any] = field(default_factory=dict)
    """The result of the exploration of other orders, as plain data, if there was one."""


def output_of(child: ChildResult, folder: Path | None, timeout: float) -> Output | str:
    """Return the output of a child, or why it couldn't find the function."""
    around: dict[str, Any] = {"stdout": _decoded(child.stdout), "stderr": _decoded(child.stderr)}
    around["files"] = files_in(folder) if folder is not None else {}
    if child.code is None:
        return Output(f"had not ended after {timeout:g} s", failed=True, **around)
    if not child.report:
        names = {-one.value: f"was killed by {one.name}" for one in signal.Signals}
        how = f"exited with code {child.code}" if child.code >= 0 else f"was killed by signal {-child.code}"
        return Output(f"{names.get(child.code, how)} without a result", failed=True, **around)
    report: dict[str, Any] = json.loads(child.report)
    if "unusable" in report:
        return str(report["unusable"])
    earlier = [Output(**one) for one in report.pop("earlier")]
    return Output(**report, earlier=earlier, **around)


def files_in(folder: Path) -> dict[str, str]:
    """Return the files below a folder by their names: text, or hash and size; links are not followed."""
    return {path.relative_to(folder).as_posix(): _content(path) for path in sorted(folder.rglob("*"))}


def _content(path: Path) -> str:
    if path.is_symlink():
        return f"(link to {path.readlink()})"
    if path.is_dir():
        return "(folder)"
    if not path.is_file():
        return "(no regular file)"
    if path.stat().st_size <= _MAX_TEXT:
        return _decoded(path.read_bytes())
    with path.open("rb") as file:
        return f"({path.stat().st_size} bytes, sha256 {hashlib.file_digest(file, 'sha256').hexdigest()})"


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class Place:
    """One place where two replays differ."""

    what: str  # the place, such as `stdout, line 3` or `return value at $.items[3]`
    first: str  # what the first replay has there, redacted and shortened
    other: str  # what the other has there
    noise: Noise = ""  # what the only difference of two texts is: a memory address, an id, or something else


Pair = tuple[str, str, str, Noise]  # the place, both values, and the noise


def places(first: Output, other: Output, redactor: Redactor) -> list[Place]:
    """Return the places where two replays differ, the ones that come first in a run first: at most a few per aspect.

    To the other one's own come the differences of the replays before it in its process.
    """
    found = _places(first, other, redactor)
    known = {place.what for place in found}
    for earlier in other.earlier:
        shown = replace(earlier, stdout=first.stdout, stderr=first.stderr, files=first.files)
        more = [place for place in _places(first, shown, redactor) if place.what not in known]
        known |= {place.what for place in more}
        found += more
    return found


def divergences(one: Output, redactor: Redactor) -> list[Place]:
    """Return the places where a replay, or one before it in its process, diverges from the recording."""
    if one.failed:  # which says more
        return []
    found = {what: pair for each in (one, *one.earlier) if not each.failed for what, pair in each.divergences.items()}
    texts = ((what, *(redactor.text(printable(side)) for side in pair)) for what, pair in found.items())
    return [Place(*_texts(what, recorded, now)) for what, recorded, now in texts]


def _places(first: Output, other: Output, redactor: Redactor) -> list[Place]:
    found: list[Place] = []
    for aspect, values, spell in _ASPECTS:
        pair = values(first), values(other)
        if not is_identical(*pair):
            hidden = (redactor.value(printable(side)) for side in pair)
            spelled = islice(spell(aspect, *hidden), _MAX_PLACES)
            found += [Place(*parts) for parts in spelled] or [Place(aspect, _HIDDEN, _HIDDEN)]
    return found


def printable(plain: Plain) -> Plain:
    """Return plain data whose strings can be printed: bytes that aren't UTF-8 are escaped."""
    if isinstance(plain, str):
        return plain if plain.isascii() else plain.encode("utf-8", "backslashreplace").decode()
    if isinstance(plain, list):
        return [printable(item) for item in plain]
    return {printable(key): printable(item) for key, item in plain.items()} if isinstance(plain, dict) else plain


def _outcomes(aspect: str, first: str, other: str) -> Iterator[Pair]:
    one_line = "\n" not in first + other
    if one_line and first.partition(":")[0] == other.partition(":")[0]:
        yield _texts(aspect, first, other)
    else:  # a miss explains itself, and one that raised stands beside one that returned
        yield aspect, first[:_MAX_SHOWN], other[:_MAX_SHOWN], ""


def _values(aspect: str, first: Plain, other: Plain) -> Iterator[Pair]:
    return _leaves(first, other, f"{aspect} at $")


def _calls(aspect: str, first: dict[str, list[str]], other: dict[str, list[str]]) -> Iterator[Pair]:
    for at in [*first, *(at for at in other if at not in first)]:
        old, new = first.get(at, [""]), other.get(at, [""])
        if old != new:  # the fingerprint is shown only if nothing else tells them apart
            shown = 2 if old[0] == new[0] else 1
            yield _texts(f"{aspect} at {at}", ", fingerprint ".join(old[:shown]), ", fingerprint ".join(new[:shown]))


def _named(_: str, first: dict[str, str], other: dict[str, str]) -> Iterator[Pair]:
    for name in [*first, *(name for name in other if name not in first)]:
        if first.get(name) != other.get(name):
            yield _texts(name, first.get(name), other.get(name))


def _orders(aspect: str, first: list[list[str]], other: list[list[str]]) -> Iterator[Pair]:
    none: list[str] = []
    for old, new in zip_longest(first, other, fillvalue=none):
        if old != new:
            yield _texts(aspect, " → ".join(old), " → ".join(new))


def _lines(aspect: str, first: str, other: str) -> Iterator[Pair]:
    """Only the first differing line: those after it mostly differ because of it."""
    pairs = zip_longest(first.splitlines(keepends=True), other.splitlines(keepends=True))
    for number, (old, new) in enumerate(pairs, start=1):
        if old != new:
            yield _texts(f"{aspect}, line {number}", old, new)
            return


def _files(_: str, first: dict[str, str], other: dict[str, str]) -> Iterator[Pair]:
    for name in sorted({*first, *other}):
        old, new = first.get(name), other.get(name)
        if old is None or new is None:
            yield f"file {name}", _presence(old), _presence(new), ""
        else:
            yield from _lines(f"file {name}", old, new)


def _presence(text: str | None) -> str:
    return "(absent)" if text is None else "(written)"


_Spell = Callable[..., Iterator[Pair]]
_ASPECTS: Sequence[tuple[str, Callable[[Output], Plain], _Spell]] = (
    ("outcome", lambda produced: produced.outcome, _outcomes),
    ("call", lambda produced: produced.calls, _calls),
    ("order of calls", lambda produced: produced.order, _orders),
    ("return value", lambda produced: produced.value, _values),
    ("stdout", lambda produced: produced.stdout, _lines),
    ("stderr", lambda produced: produced.stderr, _lines),
    ("file", lambda produced: produced.files, _files),
    ("report", lambda produced: produced.sessions, _named),
)
"""The aspects that are compared, in the order in which a run comes to them."""


def _leaves(first: Plain, other: Plain, path: str) -> Iterator[Pair]:
    """Yield the differing leaves of two plain values, then the mappings whose keys are in another order."""
    for at, old, new in differing_leaves(first, other, path):
        what = TAG.sub("", at)
        if isinstance(old, str) and isinstance(new, str):
            yield _texts(what, old, new)
        else:
            yield what, _shown(old), _shown(new), ""
    for at, old, new in differing_key_orders(first, other, path):
        what = f"order of keys in the {TAG.sub('', at)}"
        yield what, ", ".join(old)[:_MAX_VALUE], ", ".join(new)[:_MAX_VALUE], ""


def _texts(what: str, first: str | None, other: str | None) -> Pair:
    if not first or not other:
        return what, _shown(first or ABSENT), _shown(other or ABSENT), ""
    noise: Noise = ""
    if ADDRESS.sub("", first) == ADDRESS.sub("", other):
        noise = "address"
    elif _ID.sub("", first) == _ID.sub("", other):
        noise = "id"
    return what, *differing_words(first, other), noise


def _shown(value: Plain) -> str:
    if value is ABSENT:
        return _NOTHING
    text = value.replace("\n", "⏎") if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_VALUE else f"{text[: _MAX_VALUE - 1]}…"


_MOST_PLACES = 6
RECORDING = 0  # the number of the run that was recorded


class Run(NamedTuple):
    """One replay of a verification."""

    number: int  # from 1
    environment: Environment
    outcome: str  # `returned`, `raised` with type and message, or how the process ended. Redacted
    same: bool  # whether its output equals the first one's


class RunDifference(NamedTuple):
    """One place where two replays differ."""

    what: str  # the place, such as `return value at $.items[3]` or `stdout, line 3`
    first: str
    """The value of the first replay, or of the recording: redacted, and shortened to the difference and a little around
    it."""
    other: str  # the value of the other replay
    runs: tuple[int, int]  # the numbers of the two replays; 0 is the recording
    cause: Cause

    def __str__(self) -> str:
        runs = [f"run {number}" if number != RECORDING else "recorded" for number in self.runs]
        if len(set(runs)) == 1:  # in another order of its answers
            runs = ["recorded", "otherwise"]
        rows = [*zip(runs, (self.first, self.other), strict=True), ("cause", self.cause.name)]
        return "\n".join([self.what, *_table(rows)])


@dataclass(frozen=True, slots=True)
class Verification(Result):
    """The result of replaying a function several times.

    Args:
        function: The name of the function.
        runs: The replays.
        differences: The differences of the first replay that differs from run 1, in the order of the run; then those
            of the first one that diverges from the recording.
        failure: The failure of the replay itself, if any: an error of AgentTape, a crash, no end in time. Redacted.
        varied: The values that each factor took.
        nondeterminism: The parts of the recorded order that a replay couldn't repeat, and the real clocks and random
            numbers, a line each. If `ok`, the replays are still equal to each other.
        unobserved: The parts of an observed run that its handler couldn't see and a replay reached, a line each. The
            replays may be equal to each other, but not to the observed run.
        entropy: The part of `nondeterminism` that isn't an order: ids, random numbers and clocks that were real.
    """

    function: str
    runs: Sequence[Run]
    differences: Sequence[RunDifference]
    failure: str | None
    varied: Mapping[Factor, Sequence[object]]
    nondeterminism: Sequence[str] = ()
    unobserved: Sequence[str] = ()
    entropy: Sequence[str] = ()

    experiment = "verify"

    @property
    def first(self) -> RunDifference | None:
        """The first difference, if there is one."""
        return self.differences[0] if self.differences else None

    def raise_if_different(self) -> Verification:
        """Return this verification if all is well.

        Raises:
            VerificationError: If a replay failed or differed; the message is the report.
        """
        if not self.ok:
            raise VerificationError(str(self))
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        return {
            "function": self.function,
            "same": self.ok,
            "failure": self.failure,
            "runs": [{**run._asdict(), "environment": run.environment._asdict()} for run in self.runs],
            "differences": [{**each._asdict(), "cause": each.cause._asdict()} for each in self.differences],
            "varied": {factor: list(values) for factor, values in self.varied.items()},
            "nondeterminism": list(self.nondeterminism),
            "unobserved": list(self.unobserved),
            "entropy": list(self.entropy),
        }

    def summary(self) -> Summary:
        """Return whether the replays are the same, where they differ and why, and what was varied."""
        lines = _indented(self.failure or "")
        for difference in self.differences[:_MOST_PLACES]:
            lines += _indented(str(difference))
        if len(self.differences) > _MOST_PLACES:
            lines.append(f"  … and {len(self.differences) - _MOST_PLACES} more places")
        lines += [f"  {line}" for line in not_as_recorded(self.nondeterminism, self.entropy, self.unobserved)]
        lines += ["  varied", *_indented("\n".join(self._environment()))]
        if causes := {difference.cause.name: difference.cause for difference in self.differences}:
            advice = [(name, f"{cause.why}\n{cause.remedy}") for name, cause in causes.items()]
            lines += ["  to do", *_indented("\n".join(_table(advice)))]
        found = [Finding(each.what, each.first, each.other) for each in self.differences]
        return Summary(
            self.function, "", self._line(), lines, found or [Finding(self.failure)] if self.failure else found
        )

    def _line(self) -> str:
        times, different = len(self.runs), [run.number for run in self.runs if not run.same]
        if different:
            several = f"{', '.join(map(str, different[:-1]))} and {different[-1]}"
            some = f"run {different[0]} differs" if len(different) == 1 else f"runs {several} differ"
            return f"{self.function} is not the same in {times} replays: {some} from run 1"
        if self.differences and self.differences[0].cause == BY_FACTOR["completion_order"]:
            return f"{self.function} is the same in {times} replays, but not where calls are answered in another order"
        if self.differences:
            return f"{self.function} is the same in {times} replays, but not what was recorded"
        if self.failure is not None:
            return f"{self.function} cannot be replayed:"
        return f"{self.function} is the same in {times} replays: it {self.runs[0].outcome}"

    def _environment(self) -> list[str]:
        several = [factor for factor, values in self.varied.items() if len(values) > 1]
        rows = [(BY_FACTOR[factor].name, _shown_values(factor, self.varied[factor])) for factor in several]
        if same := [BY_FACTOR[factor].name for factor in ALL_FACTORS if factor not in several]:
            rows.append(("not varied", ", ".join(same)))
        return _table(rows)


def _shown_values(factor: Factor, values: Sequence[object]) -> str:
    if factor == "switch_interval":
        return ", ".join(f"{value:g} s" for value in values if isinstance(value, float))
    return "new and empty each time" if factor == "working_directory" else ", ".join(map(str, values))


def _table(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Return rows as lines; the further lines of a long value are below its first one."""
    width = max((len(name) for name, _ in rows), default=0)
    return [
        f"  {name if n == 0 else '':<{width}}  {line}".rstrip()
        for name, text in rows
        for n, line in enumerate(text.split("\n"))
    ]


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]

"""The result of a verification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from agenttape_core.errors import VerificationError
from agenttape_core.experiments.verify.environment import ALL_FACTORS, BY_FACTOR, Cause, Environment, Factor
from agenttape_core.session import not_as_recorded

_MAX_SHOWN = 6
RECORDING = 0
"""The number of the run that was recorded."""


class Run(NamedTuple):
    """One replay of a verification.

    Args:
        number: From 1.
        environment: Its environment.
        outcome: `returned`, `raised` with type and message, or how the process ended. Redacted.
        same: Whether its output equals the first one's.
    """

    number: int
    environment: Environment
    outcome: str
    same: bool


class RunDifference(NamedTuple):
    """One place where two replays differ.

    Args:
        what: The place, such as `return value at $.items[3]` or `stdout, line 3`.
        first: The value of the first replay, or of the recording: redacted, and shortened to the difference and a
            little around it.
        other: The value of the other replay.
        runs: The numbers of the two replays; 0 is the recording.
        cause: The cause of the difference.
    """

    what: str
    first: str
    other: str
    runs: tuple[int, int]
    cause: Cause

    def __str__(self) -> str:
        runs = [f"run {number}" if number != RECORDING else "recorded" for number in self.runs]
        if len(set(runs)) == 1:  # in another order of its answers
            runs = ["recorded", "otherwise"]
        rows = [*zip(runs, (self.first, self.other), strict=True), ("cause", self.cause.name)]
        return "\n".join([self.what, *_table(rows)])


@dataclass(frozen=True, slots=True)
class Verification:
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

    @property
    def ok(self) -> bool:
        """True if all replays worked as recorded, and their output was the same byte for byte."""
        return self.failure is None and not self.differences

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

    def __str__(self) -> str:
        lines = [self._summary(), *_indented(self.failure or "")]
        for difference in self.differences[:_MAX_SHOWN]:
            lines += _indented(str(difference))
        if len(self.differences) > _MAX_SHOWN:
            lines.append(f"  … and {len(self.differences) - _MAX_SHOWN} more places")
        lines += [f"  {line}" for line in not_as_recorded(self.nondeterminism, self.entropy, self.unobserved)]
        lines += ["  varied", *_indented("\n".join(self._environment()))]
        if causes := {difference.cause.name: difference.cause for difference in self.differences}:
            advice = [(name, f"{cause.why}\n{cause.remedy}") for name, cause in causes.items()]
            lines += ["  to do", *_indented("\n".join(_table(advice)))]
        return "\n".join(lines)

    def _summary(self) -> str:
        times, different = len(self.runs), [run.number for run in self.runs if not run.same]
        if different:
            some = f"run {different[0]} differs" if len(different) == 1 else f"runs {_listed(different)} differ"
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
        rows = [(BY_FACTOR[factor].name, _values(factor, self.varied[factor])) for factor in several]
        if same := [BY_FACTOR[factor].name for factor in ALL_FACTORS if factor not in several]:
            rows.append(("not varied", ", ".join(same)))
        return _table(rows)


def _listed(numbers: Sequence[int]) -> str:
    return f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def _values(factor: Factor, values: Sequence[object]) -> str:
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

"""The result of an exploration: how many orders change the outcome, and the smallest that does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from agenttape_core.errors import VerificationError, counted

What = Literal["miss", "exception", "result"]
"""A finding: a call without a recording, another exception, or another result."""

_WORDS: dict[What, str] = {
    "miss": "a call is made that was not recorded",
    "exception": "it raises otherwise",
    "result": "it comes out otherwise",
}


@dataclass(frozen=True, slots=True)
class Call:
    """A recorded call, named for people.

    Args:
        number: Its number.
        kind: The kind of its boundary.
        name: The name of its boundary.
        address: Where it stands in the run.
    """

    number: int
    kind: str
    name: str
    address: str

    def __str__(self) -> str:
        return f"{self.number:>4}  {self.kind} {self.name} at {self.address}"


@dataclass(frozen=True, slots=True)
class Finding:
    """A change of the outcome by an order, and the smallest order that was found for it.

    Args:
        what: The sort of the change.
        told: What has come out, and for a result what comes out in the recorded order. Redacted.
        times: How many of the orders have this change.
        order: The calls to answer first, as `order=` takes them.
        overtaken: How many waiting calls are overtaken by others in that order.
        reproduce: The command that replays in that order.
    """

    what: What
    told: str
    times: int
    order: str
    overtaken: int
    reproduce: str


@dataclass(frozen=True, slots=True)
class Exploration:
    """The result of an exploration.

    Args:
        function: The name of what was replayed.
        cassette: The cassette.
        seed: The seed of the orders that were chosen by chance.
        orders: The number of different orders that were tried.
        is_exhaustive: Whether these are all that there are.
        overlapping: The calls that wait side by side with another one.
        findings: The changes of the outcome, those by the smallest orders first.
        unstable: Why the program has no outcome to compare with; empty if it has one.
        order: The only order that was tried; empty for a search.
        unreachable: The calls of that order that cannot be answered when it says: they are made after others that were
            to wait for them, or not at all.
    """

    function: str
    cassette: str
    seed: int
    orders: int
    is_exhaustive: bool
    overlapping: Sequence[Call]
    findings: Sequence[Finding]
    unstable: str = ""
    order: str = ""
    unreachable: Sequence[int] = ()

    @property
    def ok(self) -> bool:
        """True if every order had the same outcome, and one that was given could be imposed."""
        return not (self.findings or self.unstable or self.unreachable)

    @property
    def failing(self) -> int:
        """The number of orders that change the outcome."""
        return sum(finding.times for finding in self.findings)

    @property
    def asking(self) -> int:
        """The number of those in which the program makes a call that was not recorded: their outcome is not known."""
        return sum(finding.times for finding in self.findings if finding.what == "miss")

    @property
    def smallest(self) -> Finding | None:
        """The change by the smallest order; `None` if there is none."""
        return self.findings[0] if self.findings else None

    def raise_if_different(self) -> Exploration:
        """Return this exploration if all is well.

        Raises:
            VerificationError: If an order changes the outcome, or there is none; the message is the report.
        """
        if not self.ok:
            raise VerificationError(str(self))
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        return {
            "function": self.function,
            "cassette": self.cassette,
            "same": self.ok,
            "seed": self.seed,
            "orders": self.orders,
            "exhaustive": self.is_exhaustive,
            "failing": self.failing,
            "asking": self.asking,
            "overlapping": [asdict(call) for call in self.overlapping],
            "findings": [asdict(finding) for finding in self.findings],
            "unstable": self.unstable,
            "order": self.order,
            "unreachable": list(self.unreachable),
        }

    def __str__(self) -> str:
        if self.unstable:
            return "\n".join([f"{self.function} cannot be explored:", *_indented(self.unstable)])
        where = f"{self.function} over {self.cassette}:"
        if self.order:
            return "\n".join([f"{where} {self._of_order()}", *self._findings()])
        if not self.overlapping:
            return f"{where} no calls wait side by side, so there is one order only"
        how = "all that there are" if self.is_exhaustive else f"nearest first and by chance, seed {self.seed}"
        tried = f"{counted(self.orders, 'order')} of {counted(len(self.overlapping), 'call')} ({how})"
        if not self.findings:
            return f"{where} the same in {tried}"
        return "\n".join([f"{where} {self._changes(tried)}", *self._findings()])

    def _changes(self, tried: str) -> str:
        """Return how many orders change the outcome, and how many lead to requests without a recorded answer."""
        changing = self.failing - self.asking
        if not changing:
            return f"{self.asking} of {tried} change a request, so it has no recorded answer"
        also = f"; {self.asking} more change a request, so it has no recorded answer" if self.asking else ""
        return f"{changing} of {tried} change the outcome{also}"

    def _of_order(self) -> str:
        told = f"in the order {self.order}, " + (_WORDS[self.findings[0].what] if self.findings else "the same")
        if not self.unreachable:
            return told
        calls = ", ".join(f"call {number}" for number in self.unreachable)
        return f"{told}\n  not reachable: {calls}, made after what was to wait for it, or not at all"

    def _findings(self) -> list[str]:
        return [line for finding in self.findings for line in ("", *_indented("\n".join(self._lines(finding))))]

    def _lines(self, finding: Finding) -> list[str]:
        known = {call.number: call for call in self.overlapping}
        first = [str(known[int(number)]) for number in finding.order.split(",") if int(number) in known]
        return [
            f"{_WORDS[finding.what]} in {counted(finding.times, 'order')}; in the smallest, first of all that wait:",
            *first,
            *_indented(finding.told),
            f"again:  {finding.reproduce}",
        ]


def _indented(text: str) -> list[str]:
    return [f"  {line}".rstrip() for line in text.splitlines()]

"""How a command under AgentTape ended: for people, for programs, and as an exit code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from agenttape_core.settings import Unused
from agenttape_core.tools.processes.merge import Joined
from agenttape_core.tools.processes.run_folder import Account, Orders

_FINDING, _CASSETTE, _INTERRUPTED = 1, 3, 130
_SHOWN = 10
"""How many unused recordings are listed of one cassette."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended, and what its processes asked for.

    Args:
        command: The words that were given.
        code: Its own exit code.
        orders: What its processes were told.
        records: Whether anything could be recorded, so that nothing is judged.
        unused: What is done about recordings that were not asked for.
        accounts: What its processes told.
        made: The cassettes that were written.
        removed: The cassettes of processes that it does not have any more.
        findings: What a replay found.
        notes: What no process could tell in its account.
        blocked: What was refused to processes that have none.
    """

    command: Sequence[str]
    code: int
    orders: Orders
    records: bool
    unused: Unused
    accounts: Sequence[Account]
    made: Sequence[Joined]
    removed: Sequence[Path]
    findings: Findings
    notes: Sequence[str]
    blocked: Sequence[str]

    @property
    def exit_code(self) -> int:
        """What `agenttape` ends with: 3 for a cassette, 1 for a finding, else what the command ended with."""
        if self.code == _INTERRUPTED:
            return self.code
        if any(account.problem for account in self.accounts):
            return _CASSETTE
        return _FINDING if any(self.failures()) else self.code

    def failures(self) -> Iterator[str]:
        """Yield what is wrong, each as it explains itself."""
        found = [*self._failed(), *([] if self.records else self._killed())]
        yield from found
        if self.unused == "fail" and not found:
            yield from self._unused()

    def _failed(self) -> Iterator[str]:
        yield from self.blocked
        for account in self.accounts:
            if account.failure:
                yield account.failure
            elif account.blocked:
                yield f"{self._who(account.address)}: {account.blocked[0]}"

    def _killed(self) -> Iterator[str]:
        for address in self.findings.killed:
            yield f"{self._who(address)} was killed or lives on, so nobody knows what it asked for"

    def lines(self) -> Iterator[str]:
        """Yield the summary: a line for each process, then what else there is to say."""
        for account in self.accounts:
            yield f"{self._path(account.address)}: {_counts(account)}"
        if not self.accounts:
            yield f"no Python process of it asked for anything{' that can be recorded' if self.records else ''}"
        for one in self.made:
            if one.is_aside:
                yield self._aside(one)
            if one.broken is not None:
                yield f"{self._path(one.address)} could not be read; what it was is kept as {one.broken.name}"
        for path in self.removed:
            yield f"removed {self.orders.shown(path)}, as there is no such process any more"
        yield from self.notes
        unmatched = [set(account.unmatched) for account in self.accounts]
        for name in sorted(set.intersection(*unmatched)) if unmatched else ():
            yield f"the live or frozen name {name} is that of no boundary of the command"
        if self.unused == "warn":
            yield from self._unused()

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        return {
            "command": list(self.command),
            "code": self.code,
            "processes": [
                {
                    "process": account.address,
                    "cassette": str(self._path(account.address)),
                    "served": len(account.served),
                    "executed": account.executed,
                    "missed": account.missed,
                    "drift": account.drift,
                    "blocked": account.blocked,
                    "failure": account.failure or None,
                    "killed": account.state == "open",
                }
                for account in self.accounts
            ],
            "unused": {str(self._path(address)): lines for address, lines in self.findings.unused.items()},
            "written": [str(self.orders.shown(one.path)) for one in self.made],
            "removed": [str(self.orders.shown(path)) for path in self.removed],
            "notes": list(self.notes),
            "failures": list(self.failures()),
        }

    def _unused(self) -> Iterator[str]:
        """Yield what nobody asked for; of a command that did not get to its end, that says nothing."""
        if self.records or self.code:
            return
        for address, lines in self.findings.unused.items():
            more = [f"      … and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
            what = f"{self._path(address)}: {len(lines)} recorded interactions were never asked for"
            remedy = f"the command no longer does what was recorded: fix it, or {self.orders.remedies[1][0]}"
            yield "\n  ".join([what, *(line.rstrip() for line in lines[:_SHOWN]), *more, remedy])

    def _aside(self, one: Joined) -> str:
        own, path = self._path(one.address), self.orders.shown(one.path)
        if not self.records:
            return f"{path} holds what was served and what was executed; {own} is as it was"
        return (
            f"the command ended with {self.code}, so {own} was left as it was; what was recorded is in {path}\n"
            "  to replace it even so, record with --on-error keep"
        )

    def _path(self, address: str) -> Path:
        return self.orders.shown(self.orders.cassette_of(address))

    def _who(self, address: str) -> str:
        return f"the process of {self._path(address)}"


def _counts(account: Account) -> str:
    if account.state == "open":
        return "killed, or still running"
    counts = [
        (len(account.missed), "missed"),
        (len(account.drift), "drifted"),
        (len(account.blocked), "blocked"),
    ]
    parts = [f"{len(account.served)} served", f"{account.executed} executed"]
    return ", ".join([*parts, *(f"{count} {word}" for count, word in counts if count)])


class Findings(NamedTuple):
    """What was found.

    Args:
        unused: By the address of the processes, what their cassette holds and none of them asked for, a line each.
        killed: The addresses of processes that did not tell how they ended.
    """

    unused: Mapping[str, Sequence[str]]
    killed: Sequence[str]


def findings_of(accounts: Sequence[Account], recorded: Mapping[str, Sequence[tuple[int, str, str]]]) -> Findings:
    """Judge a replay.

    Args:
        accounts: What its processes told.
        recorded: By address, the recordings of its cassette: number, fingerprint, and a line about each.
    """
    by_address: dict[str, list[Account]] = {}
    for account in accounts:
        by_address.setdefault(account.address, []).append(account)
    unused = {address: _unused(by_address.get(address, ()), rows) for address, rows in recorded.items()}
    return Findings(
        unused={address: lines for address, lines in unused.items() if lines},
        killed=[account.address for account in accounts if account.state == "open"],
    )


def _unused(accounts: Iterable[Account], rows: Sequence[tuple[int, str, str]]) -> list[str]:
    """Return what none of the processes that share a cassette has asked for.

    Two of them may have been served one recording of a request, and none the other, which is not unused for that.
    """
    told = [account for account in accounts if account.state == "ended"]
    left = {number: line for number, _, line in rows}
    served: Counter[str] = Counter()
    fingerprints = {number: fingerprint for number, fingerprint, _ in rows}
    for account in told:
        left = {number: line for number, line in left.items() if number in account.unused}
        served.update(fingerprints[number] for number in account.served if number in fingerprints)
    times = Counter(fingerprints.values())
    return [line for number, line in left.items() if served[fingerprints[number]] < times[fingerprints[number]]]

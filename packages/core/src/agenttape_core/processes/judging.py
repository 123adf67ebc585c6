"""What a replay of a command comes to: which processes missed, left or tried what they should not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from agenttape_core.processes.papers import Account


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

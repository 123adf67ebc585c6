"""The verdict on the cassette of a test: one word and some numbers, which can be sent to another process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path, PurePath
from typing import Any

from agenttape_core.lifecycle.project import project_settings
from agenttape_core.schema import Interaction
from agenttape_core.session import Session
from agenttape_core.storage import is_pending
from agenttape_core.tools.reading.prices import Prices, load_prices
from agenttape_core.tools.reading.provider_calls import MODELS
from agenttape_core.tools.reading.summary import cost_of

_PREFIX = "cassette."
_SHOWN = 3  # the most refused calls that are shown of a test
_COUNTED = ("missed", "blocked", "unrecorded", "unused")


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on the cassette of a test."""

    path: str  # the cassette, relative to the root of the tests if it's inside
    # The worst event: `missed`, `blocked`, `unrecorded calls`, `unused`, `live` (real calls in a replay), `updated`,
    # `recorded`, `to review` (recorded, and waiting for review), `replayed`, or `no calls`; `failed, recording kept`,
    # `failed, not saved` or `skipped, not saved` if the test ended like this while it recorded. For a cassette that
    # wasn't opened: `missing` if there is none, else `cannot open`.
    word: str
    replayed: int = 0  # the number of calls answered from the cassette
    stepped_into: int = 0  # the number of recorded calls whose code was run
    not_run: str = ""  # the tools that were replayed, each with the reason why its code was not run; between semicolons
    recorded: int = 0  # the number of calls that were made for real and recorded
    live: int = 0  # the number of calls that were made for real in a replay
    missed: int = 0  # the number of calls without a recording
    blocked: int = 0  # the number of refused attempts to reach the outside
    unrecorded: int = 0  # the number of calls that got an error result because they had no recording
    unused: int = 0  # the number of recordings that were not used
    dropped: int = 0  # the number of recordings that an update removed because no call used them
    seconds: float = 0.0  # the recorded duration of the replayed calls
    dollars: float = 0.0  # the cost of the replayed calls when they were recorded, for models with a known price
    unpriced: int = 0  # the number of replayed calls of models without a known price
    put_aside: str = ""  # the name under which an unreadable file in its place was kept
    refused: str = ""  # the first calls that got an error result, a line each
    replay_check: str = ""  # the result of running the test again right after it recorded: `same`, `differs`, or empty
    difference: str = ""  # the difference that was found, a line each; empty if the test fails with these lines
    renewable: bool = False  # whether recording again would fix a cassette that wasn't opened: it's broken, or too old
    otherwise: str = ""  # the number of calls that got the answer to another request, in words; empty if none did
    keyless: bool = False  # whether the test failed because a client of a provider had no key

    @classmethod
    def of(
        cls,
        session: Session,
        replayed: Sequence[Interaction],
        seconds: float,
        root: Path,
        *,
        uncounted: int = 0,
        prices: Prices | None = None,
        ended: str = "",
    ) -> Verdict:
        """Judge a session that has ended.

        `replayed` are those recordings that are billed by counted tokens, with their recorded duration in `seconds`;
        `uncounted` is the number of the other calls that are billed. `prices` are by default the project's. `ended` is
        `failed` or `skipped` if the recording ended with its test.
        """
        report = session.report
        updates = session.policy.updates
        unrecorded, unused = report.unrecorded, report.unused
        counts: dict[str, Any] = {
            "missed": len(report.missed),
            "blocked": len(report.blocked),
            "unrecorded": len(unrecorded),
            "unused": 0 if updates else len(unused),
            "replayed": len(report.replayed),
            "stepped_into": len(report.stepped_into),
            "recorded" if session.policy.records else "live": len(report.recorded),
        }
        prices = prices or load_prices(project_settings().prices)
        costs = _costs(replayed, prices)
        return cls(
            path=_relative(session.path, root),
            word=_word(counts, session, ended),
            **counts,
            otherwise=report.answered_otherwise,
            not_run="; ".join(map(str, report.not_run)),
            seconds=round(seconds, 3),
            dollars=round(sum([cost for cost in costs if cost is not None]), 6),
            unpriced=costs.count(None) + (uncounted if prices.are_there else 0),
            refused="\n".join([line.splitlines()[0] for line in unrecorded[:_SHOWN]]),
            dropped=len(unused) if updates and session.written is not None else 0,
            put_aside=PurePath(session.put_aside).name if session.put_aside is not None else "",
        )

    @classmethod
    def unopened(cls, path: Path | str, root: Path, *, is_there: bool, renewable: bool = False) -> Verdict:
        """Judge a cassette that could not be opened. `renewable` is whether recording it again is the remedy."""
        return cls(_relative(path, root), "cannot open" if is_there else "missing", renewable=renewable)

    @classmethod
    def from_properties(cls, properties: Iterable[tuple[str, object]]) -> Verdict | None:
        """Read the verdict that `added_to` wrote, in whatever process; `None` for a test without a cassette."""
        found: Mapping[str, Any] = {
            name.removeprefix(_PREFIX): value for name, value in properties if name.startswith(_PREFIX)
        }
        names = [field.name for field in fields(cls) if field.name in found]
        return cls(**{name: found[name] for name in names}) if {"path", "word"} <= found.keys() else None

    def added_to(self, properties: Iterable[tuple[str, object]]) -> list[tuple[str, object]]:
        """Return properties of a test report, which JUnit files show, with this verdict in place of an earlier one."""
        others = [(name, value) for name, value in properties if not name.startswith(_PREFIX)]
        own = [
            (f"{_PREFIX}{name}", value) for name, value in asdict(self).items() if value != "" and value is not False
        ]
        return others + own

    def refused_lines(self) -> list[str]:
        """Return a line for each of the first calls that got an error result, as the summary shows them."""
        lines = [f"          unrecorded: {line}" for line in self.refused.splitlines()]
        more = self.unrecorded - len(lines)
        return [*lines, f"          and {more} more"] if more and lines else lines

    def __str__(self) -> str:
        names = ("replayed", "recorded", "live", "stepped_into", *_COUNTED, "dropped")
        counts = [f"{getattr(self, name)} {name.replace('_', ' ')}" for name in names if getattr(self, name)]
        counts += [self.otherwise] if self.otherwise else []
        aside = f"; the unreadable file is kept as {self.put_aside}" if self.put_aside else ""
        word = "does not replay" if self.replay_check == "differs" else self.word
        said = f"  {', '.join(counts)}" if counts else ""
        return f"{word:<9} {self.path}{said}{aside}"


def _word(counts: Mapping[str, int], session: Session, ended: str) -> str:
    for name in _COUNTED:
        if counts[name] and (name != "unused" or session.report.judged):
            return "unrecorded calls" if name == "unrecorded" else name
    if counts.get("live"):
        return "live"
    if counts.get("recorded") or (session.policy.updates and session.written is not None):
        waits = session.written is not None and is_pending(PurePath(session.written).name)
        kept = "to review" if waits else "updated" if session.policy.updates else "recorded"
        if session.written is None:
            return f"{ended or 'failed'}, not saved"
        return f"{ended}, recording kept" if ended else kept
    return "replayed" if counts["replayed"] or counts["stepped_into"] else "no calls"


def _relative(path: Path | str, root: Path) -> str:
    if isinstance(path, Path) and path.is_relative_to(root):
        return path.relative_to(root).as_posix()
    return str(path)


def _costs(replayed: Sequence[Interaction], prices: Prices) -> list[float | None]:
    """Return the costs of the calls of models; an empty list without prices, so that none are missed."""
    return [cost_of(item, prices) for item in replayed if item.kind in MODELS] if prices.are_there else []

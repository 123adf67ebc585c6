"""The outcome of a command under AgentTape: for people, for programs, and as an exit code."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agenttape_core.engine import Mode
from agenttape_core.errors import counted
from agenttape_core.lifecycle.missing import explain
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import Header, Step, Timing
from agenttape_core.session.report import not_as_recorded, side_effects_skipped
from agenttape_core.settings import OnUnrecorded, OnUnused
from agenttape_core.storage import (
    Carried,
    Cassette,
    Journal,
    Location,
    is_pending,
    leftover_journals,
    open_cassette,
    pending_path,
    put_aside,
    recording_process,
    recover,
    with_infix,
)
from agenttape_core.storage.asset_files import AssetFolder
from agenttape_core.storage.atomic import real_path
from agenttape_core.storage.lock import lock_path
from agenttape_core.tools.processes.run_folder import ProcessReport, RunConfig, SessionEnd
from agenttape_core.tools.processes.startup.agenttape_startup import REFUSED

# -- Merge the recordings of a command's processes into a cassette each.


class Merged(NamedTuple):
    """A cassette that was merged from the recordings of processes."""

    address: str  # the address of the processes
    path: Path  # the file
    is_aside: bool  # whether it is next to a cassette that didn't change
    broken: Location | None = None  # the new place of the unreadable file that it replaces, if there was one


def merged(
    reports: Sequence[ProcessReport], config: RunConfig, *, replaces: bool, derives: bool, waits: bool = False
) -> list[Merged]:
    """Make the cassettes of a run.

    If `replaces` is false, a recording is written beside the present cassette; with `derives`, a replay made them,
    which does not change its cassettes; with `waits`, a recording waits for review. Raises `CassetteError` if one
    cannot be read or written; the parts are kept.
    """
    parts: defaultdict[str, list[Path]] = defaultdict(list)
    only_new = set()
    for report in reports:
        if report.part:
            found, recovered = _parts(Path(report.part))
            parts[report.address] += [*found, *recovered]
            if recovered and config.options["mode"] in {Mode.ADD.value, Mode.UPDATE.value}:
                only_new.add(report.address)  # a session takes over what was there at its end, and it had none
    made = []
    for address, paths in parts.items():
        if paths:
            target = config.cassette_of(address)
            is_aside = derives or (target.exists() and (not replaces or address in only_new))
            path = _beside(target, "derived" if derives else "recovered") if is_aside else target
            if waits and not is_aside and target.exists():
                is_aside, path = True, pending_path(target)
            made.append(Merged(address, path, is_aside, broken=_merge(paths, path)))
    return made


def _parts(part: Path) -> tuple[list[Path], list[Path]]:
    """Return the recordings of a process: those that it wrote, and those that were recovered from its journals."""
    if recording_process(part) is not None:
        return [], []  # it lives on, and its recording stays where it is
    found = [part] if part.exists() else []
    recovered = []
    for journal in leftover_journals(part):
        written = Path(recover(journal))
        if open_cassette(written).entries:
            recovered.append(written)
        else:
            remove(written)
    lock_path(real_path(part)).unlink(missing_ok=True)  # of a process that was killed
    return found, recovered


def _beside(target: Path, word: str) -> Path:
    """Return the path of a file next to a cassette; a derived one replaces the one before it."""
    numbers = itertools.chain([""], (f"-{number}" for number in itertools.count(2)))
    paths = (with_infix(target, f"{word}{number}") for number in numbers)
    return next(path for path in paths if word == "derived" or not path.exists())


def _merge(parts: Sequence[Path], target: Path) -> Location | None:
    """Make one cassette of several, and remove those. Return where that went that could not be read in its place."""
    cassettes = [open_cassette(part) for part in parts]
    header = _header([cassette.header for cassette in cassettes])
    journal = Journal(target, header)
    seen: Counter[str] = Counter()
    try:
        for place, cassette in enumerate(cassettes):
            seen |= _append(journal, place, cassette, seen)
        aside = put_aside(journal.target)
        journal.commit(header)
    finally:
        journal.abandon(keep=False)
    for part in parts:
        remove(part)
    return aside


def remove(path: Path) -> None:
    """Remove a cassette with its assets."""
    AssetFolder(path).sweep(())
    path.unlink()


def _append(journal: Journal, place: int, cassette: Cassette, seen: Counter[str]) -> Counter[str]:
    """Append the records of one cassette that those before it do not have, and return how often it has each.

    What a part has in common with others was there before the run, and was taken over by each of them.
    """
    volatile = cassette.header.volatile
    mine: Counter[str] = Counter()
    for index, record in enumerate(cassette.records()):
        content = record.model_dump_json(exclude={"number", "parent"})
        mine[content] += 1
        if mine[content] <= seen[content]:
            continue
        order = (place, index)
        if isinstance(record, Step):
            journal.append_step(record, volatile.steps[record.number], order)
        else:
            timing = volatile.timings.get(record.number, Timing(duration_ms=0.0))
            journal.carry(Carried(record, timing, order, source=place + 1))
    return mine


def _header(headers: Sequence[Header]) -> Header:
    """Return the header of cassettes that were recorded by equal processes in one run."""
    first = min(headers, key=lambda header: header.volatile.created)
    environment: dict[str, str | None] = {}
    packages: dict[str, str] = {}
    readings: dict[str, str] = {}
    for header in headers:
        readings |= header.volatile.readings
        environment |= header.freeze.environment
        packages |= header.volatile.packages
    # What arrives in several processes has no order among each other, and each has its own labels for it.
    is_one = len(headers) == 1
    turns = [group for header in headers for group in header.volatile.answers() if group]
    volatile = {
        "turns": [] if is_one and first.volatile.admissions is not None else turns,
        "schedule": [],
        "threads": "",
        "loose": first.volatile.loose if is_one else "",
        "admissions": first.volatile.admissions if is_one else None,
        "readings": readings,
        "packages": dict(sorted(packages.items())),
        "timings": {},
        "steps": {},
    }
    return first.model_copy(
        update={
            "freeze": first.freeze.model_copy(update={"environment": dict(sorted(environment.items()))}),
            "volatile": first.volatile.model_copy(update=volatile),
        }
    )


_FINDING, _USAGE, _CASSETTE, _INTERRUPTED = 1, 2, 3, 130
_NAMED = 3  # the number of cassettes that are named of the command's own sessions
_SHOWN = 10  # the number of unused recordings that are listed of one cassette


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a command and of its processes."""

    command: Sequence[str]  # the words that were given
    code: int  # its own exit code
    config: RunConfig  # the configuration of its processes
    records: bool  # whether it was recorded, so that unused recordings don't count
    on_unused: OnUnused  # the policy for recordings that were not used
    reports: Sequence[ProcessReport]  # the reports of its processes
    # If there are no recordings at all: for each framework in use, the package that isn't installed.
    missing: dict[str, str]
    made: Sequence[Merged]  # the cassettes that were written
    removed: Sequence[Path]  # the cassettes of processes that it no longer has
    findings: Findings  # the findings of a replay
    notes: Sequence[str]  # facts that are in no report
    blocked: Sequence[str]  # the attempts that were refused to processes without a report
    not_run: Sequence[str] = ()  # the reasons why processes were not run
    # The treatment of calls that had no recording, after which the run continued.
    on_unrecorded: OnUnrecorded = "report"
    own: Sequence[str] = ()  # the cassettes of sessions that the command opened itself and made calls in
    tries: bool = False  # whether a candidate was to answer instead of the recorded models
    # The lines in which a server whose calls are live differs from its recorded answer.
    answered_otherwise: Sequence[str] = ()
    run_id: str = ""  # the id of the run, which all its processes share
    output: Sequence[str] = ()  # its standard output and standard error, if it was varied
    end: SessionEnd | None = None  # the end of the main process's session, if it was varied and opened one

    @property
    def exit_code(self) -> int:
        """The exit code: 2 if a process was not run, 3 for a cassette, 1 for a finding, else the command's."""
        if self.code == _INTERRUPTED:
            return self.code
        if self.not_run:
            return _USAGE
        if any(report.problem for report in self.reports):
            return _CASSETTE
        return _FINDING if any(self.failures()) else self.code

    def failures(self) -> Iterator[str]:
        """Yield the message of each failure."""
        found = [*self._failed(), *self._unrecorded(), *([] if self.records else self._killed()), *self._untried()]
        yield from found
        if self.on_unused == "fail" and not found:
            yield from self._unused()
        elif not found:
            yield from self._idle()

    def _failed(self) -> Iterator[str]:
        yield from self.not_run
        yield from self.blocked
        for report in self.reports:
            if report.failure and not any(report.failure in reason for reason in self.not_run):
                yield report.failure
        if self.missing:
            yield explain(str(self._path("")), self.missing)

    def _untried(self) -> Iterator[str]:
        """Yield a finding if the candidate was never called: such a trial doesn't pass."""
        if self.tries and not self.code and not any(report.asked for report in self.reports):
            yield (
                f"{self._path('')}: the candidate was not tried: the command asked no model\n"
                "  replay it without a candidate to see which of its recorded calls it no longer makes"
            )

    def _idle(self) -> Iterator[str]:
        """Yield a finding if all recordings are unused: you can ignore some of them, but not all."""
        count = sum(map(len, self.findings.unused.values()))
        is_idle = not self.own and not any(report.is_busy for report in self.reports)
        if is_idle and count and not (self.records or self.tries or self.code):
            yield (
                f"{self._path('')}: none of {counted(count, 'recorded call')} was made, so this replay shows nothing\n"
                f"  --on-unused {self.on_unused} excuses some of them, and not all"
            )

    def _unrecorded(self) -> Iterator[str]:
        for report in self.reports:
            if report.unrecorded and self.on_unrecorded == "fail":
                yield f"{self._path(report.address)}: the run made {counted(len(report.unrecorded), 'unrecorded call')}"

    def _killed(self) -> Iterator[str]:
        for address in self.findings.killed:
            yield f"the process of {self._path(address)} was killed or is still running, so its calls are not known"

    def lines(self) -> Iterator[str]:
        """Yield the summary: a line for each process, then the rest."""
        for report in self.reports:
            yield f"{self._path(report.address)}: {_counts(report)}"
            yield from _details(report)
        if not self.reports and self.own:
            more = f" and {len(self.own) - _NAMED} more" if len(self.own) > _NAMED else ""
            yield f"all its calls were made in sessions that it opens itself: {', '.join(self.own[:_NAMED])}{more}"
        elif not self.reports and not self.not_run:
            yield f"none of its Python processes made a call{' that can be recorded' if self.records else ''}"
        for one in self.made:
            if one.is_aside:
                yield self._aside(one)
            if one.broken is not None:
                yield f"{self._path(one.address)} could not be read; the old file is kept as {one.broken.name}"
        for path in self.removed:
            yield f"removed {self.config.shown(path)}, as its process is gone"
        yield from self.notes
        unmatched = [set(report.unmatched) for report in self.reports]
        for name in sorted(set.intersection(*unmatched)) if unmatched else ():
            yield f"no boundary of the command has the name {name} that an option gives"
        if self.on_unused == "warn":
            yield from self._unused()

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        return {
            "command": list(self.command),
            "code": self.code,
            "processes": [
                {
                    "process": report.address,
                    "cassette": str(self._path(report.address)),
                    "replayed": len(report.replayed),
                    "stepped_into": len(report.stepped_into),
                    "not_run": report.not_run,
                    "recorded": report.recorded,
                    "missed": report.missed,
                    "unrecorded": report.unrecorded,
                    "unrecorded_calls": report.unrecorded_calls,
                    "blocked": report.blocked,
                    "uncovered": report.uncovered,
                    "nondeterminism": report.nondeterminism,
                    "entropy": report.entropy,
                    "unobserved": report.unobserved,
                    "failure": report.failure or None,
                    "killed": report.state == "open",
                }
                for report in self.reports
            ],
            "unused": {str(self._path(address)): lines for address, lines in self.findings.unused.items()},
            "written": [str(self.config.shown(one.path)) for one in self.made],
            "removed": [str(self.config.shown(path)) for path in self.removed],
            "notes": list(self.notes),
            "answered_otherwise": list(self.answered_otherwise),
            "failures": list(self.failures()),
        }

    def _unused(self) -> Iterator[str]:
        """Yield the unused recordings. They don't count for a command that didn't reach its end."""
        if self.records or self.code:
            return
        for address, lines in self.findings.unused.items():
            more = [f"      … and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
            what = f"the run didn't make {counted(len(lines), 'recorded call')} in {self._path(address)}. Not made:"
            changed = "the command has changed since it was recorded: fix it, or"
            remedy = [f"{changed} {line}" for line in self.config.remedies[1][:1]]
            yield "\n  ".join([what, *(line.rstrip() for line in lines[:_SHOWN]), *more, *remedy])

    def _aside(self, one: Merged) -> str:
        own, path = self._path(one.address), self.config.shown(one.path)
        if not self.records:
            return f"{path} holds the replayed and the live calls; {own} is unchanged"
        if is_pending(one.path.name):
            return f"{path} is waiting for review:  agenttape review {path}"
        return (
            f"the command ended with {self.code}, so {own} is unchanged; the recording is in {path}\n"
            "  to replace it all the same, record with --on-error keep"
        )

    def _path(self, address: str) -> Path:
        return self.config.shown(self.config.cassette_of(address))


def _counts(report: ProcessReport) -> str:
    if report.state == "open":
        return "killed, or still running"
    counts = [
        (len(report.stepped_into), "stepped into"),
        (len(report.missed), "missed"),
        (len(report.unrecorded), "unrecorded"),
        (len(report.blocked), "blocked"),
    ]
    parts = [f"{len(report.replayed)} replayed", f"{report.recorded} recorded"]
    return ", ".join([*parts, *(f"{count} {word}" for count, word in counts if count)])


def _details(report: ProcessReport) -> Iterator[str]:
    yield from (f"refused: {line}" for line in report.unrecorded[:_SHOWN])
    if report.not_run:
        yield side_effects_skipped(report.not_run)
    yield from not_as_recorded(report.nondeterminism, report.entropy, report.unobserved)
    if not report.failure:  # else one of them is the failure
        yield from (f"{REFUSED}{line}" for line in list(dict.fromkeys(report.blocked))[:_SHOWN])
    yield from (f"no boundary covers this, so a replay will refuse it: {line}" for line in report.uncovered)


class Findings(NamedTuple):
    """The findings of a replay."""

    unused: Mapping[str, Sequence[str]]  # the recordings that none of the processes at an address used, a line each
    killed: Sequence[str]  # the addresses of processes that did not report their end


def findings_of(reports: Sequence[ProcessReport], recorded: Mapping[str, Sequence[tuple[int, str, str]]]) -> Findings:
    """Judge a replay; `recorded` has, by address, its recordings: number, fingerprint, and a line about each."""
    by_address: dict[str, list[ProcessReport]] = {}
    for report in reports:
        by_address.setdefault(report.address, []).append(report)
    unused = {address: _unused(by_address.get(address, ()), rows) for address, rows in recorded.items()}
    return Findings(
        unused={address: lines for address, lines in unused.items() if lines},
        killed=[report.address for report in reports if report.state == "open"],
    )


def _unused(reports: Iterable[ProcessReport], rows: Sequence[tuple[int, str, str]]) -> list[str]:
    """Return the recordings that none of the processes that share a cassette has used.

    If two of them were answered by the same recording of a request, the other recording of that request is not unused.
    """
    told = [report for report in reports if report.state == "ended"]
    left = {number: line for number, _, line in rows}
    replayed: Counter[str] = Counter()
    fingerprints = {number: fingerprint for number, fingerprint, _ in rows}
    for report in told:
        left = {number: line for number, line in left.items() if number in report.unused}
        used = (*report.replayed, *report.stepped_into)
        replayed.update(fingerprints[number] for number in used if number in fingerprints)
    times = Counter(fingerprints.values())
    return [line for number, line in left.items() if replayed[fingerprints[number]] < times[fingerprints[number]]]

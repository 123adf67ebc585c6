"""The checks of cassettes that need no rules: damage, edits, secrets, checksums, and age."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from agenttape_core.checks.check_file import UNREADABLE, unreadable
from agenttape_core.cli.cassettes import STDIN, Found, found_in, reading
from agenttape_core.cli.output import progress
from agenttape_core.errors import AgentTapeError, CassetteError, CassetteFormatError, CassetteNotFoundError
from agenttape_core.lifecycle.thread_files import stored_in
from agenttape_core.matching import Difference, Ignored, recorded_request
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.redaction import Redactor, new_key
from agenttape_core.schema import KINDS, Interaction
from agenttape_core.settings import Settings, load_settings
from agenttape_core.tools.reading.prices import Prices
from agenttape_core.tools.reporting import Finding, Judged
from agenttape_core.tools.rewrite import (
    Leak,
    Scan,
    journals_in,
    leaks_of_threads,
    read_leftover,
    thread_files_in,
)
from agenttape_core.tools.upkeep.age import parse_age
from agenttape_core.tools.upkeep.checksums import FILE, broken, checksums_of, read_checksums
from agenttape_core.tools.upkeep.staleness import (
    Check,
    Facts,
    facts_of,
    installed_version,
    load_retirements,
    stale_among,
)
from agenttape_core.tools.upkeep.verified import verified_in

_ALIKE = 0.7
Made = Iterator[tuple[str, Judged]]  # the checks that were made, each with the file that it is about


class Paths(NamedTuple):
    """The files that paths of a command line name."""

    cassettes: list[Found]
    threads: list[Path]  # the files of `TapeSaver`
    journals: list[Path]  # the journals of recordings that didn't end


def files_in(paths: Sequence[str]) -> Paths:
    """Return the files that paths name.

    `paths` are files, folders, names or `-`; by default the current folder. Raises `CassetteNotFoundError` if a path
    doesn't exist, or a folder has no cassette.
    """
    threads = thread_files_in(paths)
    others = [path for path in paths or (".",) if Path(path) not in threads]
    named = [path for path in others if not _has_only_threads(path, threads)]
    local = [Path(path) for path in others if path != STDIN and "://" not in path]
    journals = dict.fromkeys(journal for path in local for journal in journals_in(path))
    return Paths(found_in(named) if named else [], threads, list(journals))


def _has_only_threads(path: str, threads: Sequence[Path]) -> bool:
    """Return True for a folder in which there are files of threads and no cassette."""
    if not any(Path(path) in file.parents for file in threads):
        return False
    try:
        found_in([path])
    except CassetteNotFoundError:
        return True
    return False


def damage_of(found: Found) -> Judged:
    """Return whether a cassette can be read, and whether a replay would find each of its requests."""
    edited = []
    try:
        cassette = found.open()
        ignored = Ignored.of(cassette.header.ignore)  # its volatile block, which is read lazily, is checked too
        for record in cassette.records():
            if not isinstance(record, Interaction):
                continue
            if known := _meant(record.kind):
                raise CassetteFormatError(
                    cassette.path,
                    f"interaction {record.number} has the unknown kind {record.kind!r}; did you mean {known!r}?",
                    line=cassette.line_of(record.number),
                )
            asked = recorded_request(record.kind, record.name, record.request, ignored)
            edited += [record.number] if asked.fingerprint != record.fingerprint else []
    except CassetteError as error:
        return unreadable(found.shown, error)
    return Judged(UNREADABLE, "can be read", tuple(_edited(found.shown, edited)))


def _edited(path: str, numbers: Sequence[int]) -> Iterator[Finding]:
    if numbers:
        which = f"call{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
        yield Finding(
            f"the request of {which} was edited, and a replay looks for the recorded one: re-record, or undo the edit",
            rule="edited",
            path=path,
        )


def _meant(kind: str) -> str:
    """Return the kind that was probably meant; empty for one that there is, or that an integration has invented."""
    alike = difflib.get_close_matches(kind, KINDS, n=1, cutoff=_ALIKE) if kind not in KINDS else []
    return alike[0] if alike else ""


def secrets_of(found: Found, settings: Settings) -> Judged:
    """Look for secrets in a cassette, and return their places, never the secrets."""
    return _secrets(found.shown, partial(_leaks_of_cassette, found), settings)


def secrets_beside(paths: Paths, settings: Settings) -> Made:
    """Look for secrets in journals and files of threads, and yield their places, never the secrets."""
    sources = [
        *((str(journal), partial(_leaks_of_journal, journal)) for journal in paths.journals),
        *((str(file), partial(_leaks_of_thread_file, file)) for file in paths.threads),
    ]
    for path, leaks in progress(sources, "scanning"):
        yield path, _secrets(path, leaks, settings)


def _secrets(path: str, leaks: Callable[[Redactor], Iterator[Leak]], settings: Settings) -> Judged:
    redactor = Redactor(new_key(), rules=settings.redaction_rules)
    try:
        found = [
            Finding(f"{leak.record}: {leak.kind} at {leak.place}", rule="secret", path=path) for leak in leaks(redactor)
        ]
    except AgentTapeError as error:
        return unreadable(path, error)
    return Judged("secret", "holds no secret", tuple(found))


def prompt_cache_of(found: Found, prices: Prices) -> Judged:
    """Look for calls that read a prompt again which a prompt cache would have held. They are warnings."""
    from agenttape_core.tools.prompt_cache.analysis import report_of

    try:
        cassette = found.open()
        report = report_of([(cassette, found.shown)], prices)
    except CassetteError as error:
        return unreadable(found.shown, error)
    judged = tuple(
        Finding(
            f"doesn't continue the prefix of call {broken.number}{broken.place}: {broken.why}; "
            f"~{broken.tokens:,} tokens were read again" + (f", ${broken.cost:.4f}" if broken.cost else ""),
            differences=() if (at := broken.difference) is None else (Difference(at.where, at.before, at.now),),
            level="warning",
            rule="cache",
            path=found.shown,
            line=cassette.line_of(call.number),
            interaction=call.number,
            address=call.address,
        )
        for call, broken in report.breaks
    )
    return Judged("cache", "reads what its prompt cache holds", judged)


def _leaks_of_cassette(found: Found, redactor: Redactor) -> Iterator[Leak]:
    cassette = found.open()
    return Scan(redactor).leaks(cassette.header, cassette.records())


def _leaks_of_journal(journal: Path, redactor: Redactor) -> Iterator[Leak]:
    return Scan(redactor).leaks(*read_leftover(journal))


def _leaks_of_thread_file(file: Path, redactor: Redactor) -> Iterator[Leak]:
    return leaks_of_threads(stored_in(file), redactor)


def checksums(cassettes: Sequence[Found]) -> Made:
    """Compare cassettes with their checksums, if the file of checksums is in this folder."""
    file = Path(FILE)
    recorded = read_checksums(file)
    if not recorded:
        return
    here = {os.path.relpath(found.path).replace(os.sep, "/"): found for found in cassettes if found.path is not None}
    for name, before in recorded.items():
        if name not in here and not Path(name).is_file():
            yield name, _checksum(name, ["it has a checksum, and is gone"])
        elif name in here:
            with suppress(CassetteError):  # which the check of files reports
                shown = here[name].shown
                yield shown, _checksum(shown, broken(before, checksums_of(Path(name))))
    for name in here.keys() - recorded.keys():
        yield here[name].shown, _checksum(here[name].shown, ["it has no checksum: agenttape cassette checksum"])


def _checksum(path: str, problems: Sequence[str]) -> Judged:
    found = tuple(Finding(problem, rule="checksum", path=path) for problem in problems)
    return Judged("checksum", "matches its checksums", found)


def stale(cassettes: Sequence[Found], checks: Sequence[Check], max_age: str | None) -> Made:
    """Look for cassettes from which a recording of today would differ.

    The cassettes are also compared with each other. Raises `ConfigurationError` if the age, or the table of retired
    models, can't be read.
    """
    settings = load_settings()
    limit = parse_age(max_age, "--max-age") if max_age is not None else None
    retirements = load_retirements(settings.retirements)
    facts: list[Facts] = []
    for found in reading(cassettes):
        try:
            facts.append(facts_of(found.shown, found.open()))
        except CassetteError as error:
            yield found.shown, unreadable(found.shown, error)
    changed = stale_among(
        facts,
        datetime.now(UTC),
        max_age=limit,
        retirements=retirements,
        installed=installed_version,
        checks=checks,
        verified=_verified(facts) if "verified" in checks else {},
    )
    for each in facts:
        found_here = [
            Finding(one.what, rule=one.check, path=one.path, level="error" if one.is_stale else "warning")
            for one in changed
            if one.path == each.path
        ]
        yield each.path, Judged("stale", "is not stale", tuple(found_here))


def _verified(facts: Sequence[Facts]) -> Mapping[str, datetime]:
    moments = verified_in(Path.cwd())
    return {each.path: moments[full] for each in facts if (full := Path(each.path).absolute()) in moments}

"""`agenttape scan`: secrets in cassettes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from agenttape_core.cli.app import CASSETTE, FINDINGS, OK
from agenttape_core.cli.cassettes import STDIN, found_in, paths_argument
from agenttape_core.cli.output import print_json, print_text, progress, unread, verb
from agenttape_core.cli.redacting import redacting_settings, redaction_off_option
from agenttape_core.errors import AgentTapeError, CassetteError, CassetteNotFoundError, counted
from agenttape_core.lifecycle.thread_files import stored_in
from agenttape_core.redaction import Redactor, new_key
from agenttape_core.settings import Settings
from agenttape_core.tools.rewrite.scanning import (
    Leak,
    Scan,
    journals_in,
    leaks_of_threads,
    read_leftover,
    thread_files_in,
)


class _Scanned(NamedTuple):
    path: str
    leaks: list[Leak]
    problem: str = ""


@verb("agenttape scan tests")
@paths_argument
@redaction_off_option
def scan(paths: tuple[str, ...], *, off: tuple[str, ...], as_json: bool) -> int:
    """Find secrets in cassettes, assets and journals.

    Also reads the journals of interrupted recordings, and the files of TapeSaver.

    Prints the place and the kind of each secret, never the secret itself, and exits with 1 if there are any. The
    detectors that redact recordings and the rules of the project ([tool.agenttape] redaction_rules) find them.
    """
    settings = redacting_settings(off)
    threads = thread_files_in(paths)
    others = [path for path in paths or (".",) if Path(path) not in threads]
    with_cassettes = [path for path in others if not _holds_only_threads(path, threads)]
    cassettes = _cassettes(with_cassettes, settings) if with_cassettes else ()
    scanned = [*cassettes, *_journals(others, settings), *(_threads(path, settings) for path in threads)]
    if as_json:
        print_json([row for each in scanned for row in _rows(each)])
    else:
        _report(scanned)
    if any(each.problem for each in scanned):
        return CASSETTE
    return FINDINGS if any(each.leaks for each in scanned) else OK


def _holds_only_threads(path: str, threads: Sequence[Path]) -> bool:
    """Return True for a folder in which there are files of threads and no cassette."""
    if not any(Path(path) in file.parents for file in threads):
        return False
    try:
        found_in([path])
    except CassetteNotFoundError:
        return True
    return False


def _cassettes(paths: Sequence[str], settings: Settings) -> Iterator[_Scanned]:
    for found in progress(found_in(paths), "scanning"):
        try:
            cassette = found.open()
            leaks = list(_scan(settings).leaks(cassette.header, cassette.records()))
        except CassetteError as error:
            yield _Scanned(found.shown, [], str(error))
        else:
            yield _Scanned(found.shown, leaks)


def _journals(paths: Sequence[str], settings: Settings) -> Iterator[_Scanned]:
    local = [Path(path) for path in paths if path != STDIN and "://" not in path]
    for journal in dict.fromkeys(journal for path in local for journal in journals_in(path)):
        try:
            header, records = read_leftover(journal)
        except CassetteError as error:
            yield _Scanned(str(journal), [], str(error))
        else:
            yield _Scanned(str(journal), list(_scan(settings).leaks(header, records)))


def _threads(path: Path, settings: Settings) -> _Scanned:
    redactor = _redactor(settings)
    try:
        return _Scanned(str(path), list(leaks_of_threads(stored_in(path), redactor)))
    except AgentTapeError as error:
        return _Scanned(str(path), [], f"{path}: {error}" if str(path) not in str(error) else str(error))


def _scan(settings: Settings) -> Scan:
    return Scan(_redactor(settings))


def _redactor(settings: Settings) -> Redactor:
    return Redactor(new_key(), rules=settings.redaction_rules, off=settings.redaction_off)


def _rows(scanned: _Scanned) -> Iterator[dict[str, str]]:
    yield from ({"path": scanned.path, **leak._asdict()} for leak in scanned.leaks)
    if scanned.problem:
        yield {"path": scanned.path, "problem": scanned.problem}


def _report(scanned: Sequence[_Scanned]) -> None:
    for each in scanned:
        for leak in each.leaks:
            print_text(f"{each.path}: {leak.record}: {leak.kind} at {leak.place}", "red")
        if each.problem:
            print_text(each.problem, "red")
    count = sum(len(each.leaks) for each in scanned)
    problems = sum(bool(each.problem) for each in scanned)
    secrets = counted(count, "secret") if count else "no secrets"
    print_text(f"{secrets} found{unread(problems)}")

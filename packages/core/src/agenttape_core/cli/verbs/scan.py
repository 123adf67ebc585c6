"""`agenttape scan`: secrets in cassettes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from agenttape_core.cli.app import CASSETTE, FINDINGS, OK
from agenttape_core.cli.cassettes import STDIN, found_in, paths_argument
from agenttape_core.cli.output import print_json, print_text, progress, unread, verb
from agenttape_core.cli.redacting import redacting_settings, redaction_off_option
from agenttape_core.errors import CassetteError, counted
from agenttape_core.redaction import Redactor, new_key
from agenttape_core.settings import Settings
from agenttape_core.tools.rewrite.scanning import Leak, Scan, journals_in, read_leftover


class _Scanned(NamedTuple):
    path: str
    leaks: list[Leak]
    problem: str = ""


@verb("agenttape scan tests")
@paths_argument
@redaction_off_option
def scan(paths: tuple[str, ...], *, off: tuple[str, ...], as_json: bool) -> int:
    """Look for secrets in cassettes, their assets, and the journals of interrupted recordings.

    Prints the place and the kind of each secret, never the secret itself, and exits with 1 if there are any. The
    detectors that redact recordings and the rules of the project ([tool.agenttape] redaction_rules) find them.
    """
    settings = redacting_settings(off)
    scanned = [*_cassettes(paths, settings), *_journals(paths, settings)]
    if as_json:
        print_json([row for each in scanned for row in _rows(each)])
    else:
        _report(scanned)
    if any(each.problem for each in scanned):
        return CASSETTE
    return FINDINGS if any(each.leaks for each in scanned) else OK


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
    local = [Path(path) for path in paths or (".",) if path != STDIN and "://" not in path]
    for journal in dict.fromkeys(journal for path in local for journal in journals_in(path)):
        try:
            header, records = read_leftover(journal)
        except CassetteError as error:
            yield _Scanned(str(journal), [], str(error))
        else:
            yield _Scanned(str(journal), list(_scan(settings).leaks(header, records)))


def _scan(settings: Settings) -> Scan:
    return Scan(Redactor(new_key(), rules=settings.redaction_rules, off=settings.redaction_off))


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

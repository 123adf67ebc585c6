"""`agenttape scan`: whether cassettes hold secrets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from agenttape_core.cli.app import FINDINGS, OK
from agenttape_core.cli.cassettes import Found, found_in, paths_argument
from agenttape_core.cli.output import print_json, print_text, verb
from agenttape_core.redaction import Redactor, new_key
from agenttape_core.schema import Interaction
from agenttape_core.storage import Cassette


class _Leak(NamedTuple):
    path: str
    record: str
    place: str


@verb("agenttape scan tests")
@paths_argument
def scan(paths: tuple[str, ...], *, as_json: bool) -> int:
    """Look for secrets in cassettes. Ends with 1 if there are any, and tells where, never what.

    The detectors are those that redact recordings; rules of your own are part of your code, which this command does not
    run.
    """
    leaks = [leak for found in found_in(paths) for leak in _leaks(found)]
    if as_json:
        print_json([leak._asdict() for leak in leaks])
    else:
        for leak in leaks:
            print_text(f"{leak.path}: {leak.record}: a secret at {leak.place}", "red")
        print_text(f"{len(leaks)} secrets found" if leaks else "no secrets found")
    return FINDINGS if leaks else OK


def _leaks(found: Found) -> Iterator[_Leak]:
    cassette, redactor = found.open(), Redactor(new_key())
    for name, part in _parts(cassette):
        yield from (_Leak(found.shown, name, place) for place in _differing(part, redactor.value(part)))


def _parts(cassette: Cassette) -> Iterator[tuple[str, object]]:
    """Yield all of a cassette but what is random by nature: its redaction key, its ids and hashes."""
    yield "header", cassette.preface.model_dump(exclude={"redaction", "volatile"})
    for record in cassette.records():
        word = "interaction" if isinstance(record, Interaction) else "step"
        yield f"{word} {record.number}", record.model_dump(exclude={"ids", "fingerprint"})


def _differing(before: object, after: object, at: str = "") -> Iterator[str]:
    """Yield the places of what the redactor would replace."""
    if before is after or before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        for key in before:
            yield from _differing(before[key], after[key], f"{at}.{key}" if at else str(key))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, pair in enumerate(zip(before, after, strict=True)):
            yield from _differing(*pair, f"{at}[{number}]")
    else:
        yield at or "."

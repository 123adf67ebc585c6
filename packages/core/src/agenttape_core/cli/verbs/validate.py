"""`agenttape validate`: read cassettes to their end."""

from __future__ import annotations

import difflib
from typing import NamedTuple

from agenttape_core.cli.app import CASSETTE, FINDINGS, OK
from agenttape_core.cli.cassettes import Found, found_in, paths_argument
from agenttape_core.cli.output import print_json, print_text, progress, verb
from agenttape_core.errors import CassetteError, CassetteFormatError, counted
from agenttape_core.matching import Ignored, recorded_request
from agenttape_core.schema import KINDS, Interaction

_ALIKE = 0.7


class _Read(NamedTuple):
    found: Found
    records: int
    problem: str
    edited: list[int]
    """The numbers of the interactions whose request is not the one that is matched."""


@verb("agenttape validate tests")
@paths_argument
def validate(paths: tuple[str, ...], *, as_json: bool) -> int:
    """Read cassettes to their end, with every asset.

    Exits with 3 if one cannot be read, and with 1 if a request was edited: its fingerprint, for which a replay
    looks, is still that of what was recorded.
    """
    results = [_read(found) for found in progress(found_in(paths), "reading")]
    if as_json:
        print_json([_row(each) for each in results])
    else:
        for each in results:
            said = _said(each)
            print_text(said or f"{each.found.shown}: valid, {counted(each.records, 'record')}", "red" if said else "")
    if any(each.problem for each in results):
        return CASSETTE
    return FINDINGS if any(each.edited for each in results) else OK


def _row(each: _Read) -> dict[str, object]:
    problem = _said(each)
    return {"path": each.found.shown, "valid": not problem, "records": each.records, "problem": problem or None}


def _said(each: _Read) -> str:
    if each.problem or not each.edited:
        return each.problem
    numbers = ", ".join(map(str, each.edited))
    word = "interaction" if len(each.edited) == 1 else "interactions"
    return (
        f"{each.found.shown}: the request of {word} {numbers} was edited: a replay looks for the fingerprint, which is"
        " that of what was recorded\n  record anew, or put back what was there"
    )


def problem_of(found: Found) -> str:
    """Return what is wrong with a cassette: it cannot be read, or a request was edited; empty if nothing is.

    Args:
        found: The cassette.
    """
    return _said(_read(found))


def _read(found: Found) -> _Read:
    count, edited = 0, []
    try:
        cassette = found.open()
        ignored = Ignored.of(cassette.header.ignore)  # its volatile block, which is read lazily, is checked too
        for record in cassette.records():
            count += 1
            if isinstance(record, Interaction) and (known := _meant(record.kind)):
                raise CassetteFormatError(
                    cassette.path,
                    f"interaction {record.number} has the unknown kind {record.kind!r}; did you mean {known!r}?",
                    line=cassette.line_of(record.number),
                )
            if isinstance(record, Interaction):
                asked = recorded_request(record.kind, record.name, record.request, ignored)
                edited += [record.number] if asked.fingerprint != record.fingerprint else []
    except CassetteError as error:
        return _Read(found, count, str(error), [])
    return _Read(found, count, "", edited)


def _meant(kind: str) -> str:
    """Return the kind that was probably meant; empty for one that there is, or that an integration has invented."""
    alike = difflib.get_close_matches(kind, KINDS, n=1, cutoff=_ALIKE) if kind not in KINDS else []
    return alike[0] if alike else ""

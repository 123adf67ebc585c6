"""`agenttape validate`: read cassettes to their end."""

from __future__ import annotations

from agenttape_core.cli.app import CASSETTE, OK
from agenttape_core.cli.cassettes import Found, found_in, paths_argument, records_of
from agenttape_core.cli.output import print_json, print_text, progress, verb
from agenttape_core.errors import CassetteError, counted


@verb("agenttape validate tests")
@paths_argument
def validate(paths: tuple[str, ...], *, as_json: bool) -> int:
    """Read cassettes to their end: header, every record, every asset. Exits with 3 if one cannot be read."""
    results = [(found, *_read(found)) for found in progress(found_in(paths), "reading")]
    if as_json:
        print_json([{"path": f.shown, "valid": not p, "records": n, "problem": p or None} for f, n, p in results])
    else:
        for found, count, problem in results:
            print_text(problem or f"{found.shown}: valid, {counted(count, 'record')}", "red" if problem else "")
    return CASSETTE if any(problem for _, _, problem in results) else OK


def _read(found: Found) -> tuple[int, str]:
    count = 0
    try:
        for _ in records_of(found):
            count += 1
    except CassetteError as error:
        return count, str(error)
    return count, ""

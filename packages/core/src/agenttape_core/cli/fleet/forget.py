"""`agenttape fleet forget`: recordings of a store, erased by their age or without a value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime

import click

from agenttape_core.cli.app import CASSETTE, FINDINGS, OK
from agenttape_core.cli.cassettes import STDIN, values_given, with_values
from agenttape_core.cli.output import cli_command, print_json, print_text
from agenttape_core.errors import counted
from agenttape_core.fleet.forget import Forgotten, forget_older, forget_values
from agenttape_core.settings import load_settings
from agenttape_core.tools.upkeep.age import parse_age

_BEYOND = "Not reached: older versions that a bucket keeps, the history of version control, backups, copies on CI."


@cli_command("agenttape fleet forget --older-than 90d s3://bucket/runs --dry-run")
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@click.option("--older-than", metavar="AGE", help="Erase recordings older than this: 90, 90d, 12h, 6w.")
@with_values
@click.option("--dry-run", is_flag=True, help="Only list what would be erased; exit with 1 if there is any.")
def forget(
    urls: tuple[str, ...],
    *,
    older_than: str | None,
    source: str | None,
    variables: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
) -> int:
    """Erase old recordings of a store, or a value in all of them.

    URL is a folder, a file, a URL or a glob. --older-than erases recordings with their assets, journals and scores.
    --value replaces values as agenttape cassette redact does, and lists other files that hold one. Checksums of the
    erased and changed recordings are updated in the file of checksums here.

    Exits with 1 if something is left, with 3 if a file can't be read or written. Try it with --dry-run first.
    """
    if (older_than is None) == (source is None and not variables):
        raise click.UsageError("name one: --older-than AGE, --value - or --value-from-env NAME")
    if STDIN in urls:
        raise click.UsageError("a recording on standard input can't be erased; name a folder or a URL")
    if older_than is not None:
        limit = parse_age(older_than, "--older-than")
        found = list(forget_older(urls, limit, datetime.now(UTC), dry_run=dry_run))
    else:
        values = values_given(variables, source, urls)
        if not values:
            raise click.UsageError("standard input holds no value")
        found = list(forget_values(urls, values, load_settings(), dry_run=dry_run))
    counts: Counter[str] = Counter(each.state for each in found)
    if as_json:
        print_json({"dry_run": dry_run, "files": [asdict(each) for each in found]})
    else:
        _show(found, counts, dry_run=dry_run)
    if counts["unreadable"]:
        return CASSETTE
    return FINDINGS if counts["left"] or (dry_run and found) else OK


def _show(found: Sequence[Forgotten], counts: Counter[str], *, dry_run: bool) -> None:
    """Print a line for each file, and the sums. With `--json`, each place is listed."""
    for each in found:
        if each.state == "unreadable":
            print_text(each.why, "red")
            continue
        word = f"would be {each.state}" if dry_run and each.state != "left" else each.state
        told = f"{counted(len(each.places), 'place')} {word}" if each.places else f"{word}: {each.why}"
        print_text(f"{each.path}: {told}", "yellow" if each.state == "left" else "")
    would = "would be " if dry_run else ""
    done = {"erased": f"{would}erased", "replaced": f"{would}changed"}
    lines = [f"{counted(counts[state], 'recording')} {word}" for state, word in done.items() if counts[state]]
    left = {"left": "left", "unreadable": "can't be read"}
    lines += [f"{counts[state]} {word}" for state, word in left.items() if counts[state]]
    print_text(", ".join(lines) or "nothing to forget")
    if not dry_run and (counts["erased"] or counts["replaced"]):
        print_text(_BEYOND)

"""`agenttape cassette redact`: remove secrets from cassettes."""

from __future__ import annotations

import click

from agenttape_core.cli.app import CASSETTE, FINDINGS, OK
from agenttape_core.cli.cassettes import STDIN, Found, found_in, paths_argument, reading, values_given, with_values
from agenttape_core.cli.output import cli_command, print_json, print_text, unread
from agenttape_core.errors import CassetteError, ConfigurationError, counted
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.settings import Settings, load_settings
from agenttape_core.tools.rewrite.redacting import Redacted, check_values, would_redact
from agenttape_core.tools.rewrite.redacting import redact as redact_one

_NOTHING = Redacted((), (), is_merged=False)
_BEYOND = (
    "Not reached: the history of version control, backups, copies on CI. Revoke every credential among the secrets."
)
_MERGED = "a rule replaced a text that already held a pseudonym: if a replay misses there, record it again"


class _Done(NamedTuple):
    shown: str  # the file
    result: Redacted
    problem: str


@cli_command("agenttape cassette redact tests --dry-run")
@paths_argument
@click.option("--dry-run", is_flag=True, help="Only list the secrets; exit with 1 if there is any.")
@with_values
def redact(
    paths: tuple[str, ...], *, dry_run: bool, variables: tuple[str, ...], source: str | None, as_json: bool
) -> int:
    """Replace secrets in cassettes with pseudonyms.

    Also replaces them in assets, and reads the result again to check that they are gone. It finds secrets by the
    detectors and the rules of the project ([tool.agenttape] redaction_rules), so that replays with the same rules still
    match. Exits with 1 if a secret cannot be replaced.
    """
    settings, values = load_settings(), values_given(variables, source, paths)
    check_values(values)
    found = _rewritable(paths, dry_run=dry_run)
    done = [_redacted(each, settings, values, dry_run=dry_run) for each in reading(found, "redacting")]
    if as_json:
        print_json([_plain(each) for each in done])
    else:
        _report(done, dry_run=dry_run)
    if any(each.problem for each in done):
        return CASSETTE
    is_open = any(each.result.left or (dry_run and each.result.replaced) for each in done)
    return FINDINGS if is_open else OK


def _rewritable(paths: tuple[str, ...], *, dry_run: bool) -> list[Found]:
    if STDIN in paths and not dry_run:
        raise click.UsageError("a cassette on standard input cannot be replaced; name a file, or use --dry-run")
    return found_in(paths)


def _redacted(found: Found, settings: Settings, values: list[str], *, dry_run: bool) -> _Done:
    try:
        if dry_run:
            return _Done(found.shown, would_redact(found.open(), settings, values), "")
        return _Done(found.shown, redact_one(found.file.location, settings, values), "")
    except (CassetteError, ConfigurationError) as error:
        return _Done(found.shown, _NOTHING, str(error))


def _plain(done: _Done) -> dict[str, object]:
    result = done.result
    return {
        "path": done.shown,
        "replaced": [leak._asdict() for leak in result.replaced],
        "left": [leak._asdict() for leak in result.left],
        "merged": result.is_merged,
        "problem": done.problem or None,
    }


def _report(done: list[_Done], *, dry_run: bool) -> None:
    for shown, result, problem in done:
        for leak in result.replaced:
            word = "would be replaced" if dry_run else "replaced"
            print_text(f"{shown}: {leak.record}: {leak.kind} at {leak.place} {word}")
        for leak in result.left:
            print_text(f"{shown}: {leak.record}: {leak.kind} at {leak.place} is left", "red")
        if result.is_merged:
            print_text(f"{shown}: {_MERGED}", "yellow")
        if problem:
            print_text(problem, "red")
    count = sum(len(each.result.replaced) for each in done)
    left = sum(len(each.result.left) for each in done)
    word = "would be replaced" if dry_run else "replaced"
    line = f"{counted(count, 'secret')} {word}, {left} left" if count + left else "nothing to redact"
    print_text(f"{line}{unread(sum(bool(each.problem) for each in done), 'redacted')}")
    if count and not dry_run:
        print_text(_BEYOND)

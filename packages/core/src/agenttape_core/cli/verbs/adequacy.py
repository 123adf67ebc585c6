"""`agenttape adequacy`: the small edits of a program that no cassette would notice."""

from __future__ import annotations

import click

from agenttape_core.cli.app import FINDINGS, INTERRUPTED, OK
from agenttape_core.cli.cassettes import found_one
from agenttape_core.cli.output import print_json, print_text, progress_bar, verb
from agenttape_core.tools.adequacy import Adequacy
from agenttape_core.tools.adequacy import adequacy as find
from agenttape_core.tools.adequacy.search import MOST, SEED


@verb("agenttape adequacy tests --only prompts,tools --since main --fail-under 0.8")
@click.argument("tests", nargs=-1, metavar="[TESTS...]")
@click.option("--only", metavar="KINDS", help="Such as prompts,schemas; of prompts, tools, schemas.")
@click.option("--source", multiple=True, metavar="PATH", help="A file or folder to edit. Repeatable.")
@click.option("--since", metavar="REV", help="Edit only lines that have changed since this revision of git.")
@click.option("--max", "most", default=MOST, show_default=True, help="The most edits to try.")
@click.option("--seed", default=SEED, show_default=True, help="Of the draw, if there are more.")
@click.option("--mutant", metavar="ID", help="Try only this edit.")
@click.option("--live", metavar="NAMES", help="Kinds or names of calls that are executed, such as tool.")
@click.option("--fail-under", type=click.FloatRange(0, 1), metavar="SHARE", help="Exit with 1 if less is noticed.")
def adequacy(
    tests: tuple[str, ...],
    *,
    only: str | None,
    source: tuple[str, ...],
    since: str | None,
    most: int,
    seed: int,
    mutant: str | None,
    live: str | None,
    fail_under: float | None,
    as_json: bool,
) -> int:
    """Edit prompts, tools and schemas, one at a time, and list the edits that no cassette notices.

    TESTS are files, folders or ids of tests, by default all that pytest finds; or a cassette and the function that it
    replays: CASSETTE FUNCTION, as module:function or path/to/file.py:function. Edits are made when a file is imported,
    in processes of their own: no file changes. Nothing is executed but what --live names, with the edits in it.

    Exits with 1 if less than --fail-under is noticed, or a test fails without an edit; with --mutant, if it survives.
    """
    paths, function = _program(tests)
    with progress_bar(None, "editing") as advance:
        found = find(
            paths,
            function,
            only=_words(only),
            source=source,
            since=since,
            most=most,
            seed=seed,
            mutant=mutant,
            live=_words(live),
            on_mutant=lambda *_: advance(),
        )
    if as_json:
        print_json(found.to_dict())
    else:
        print_text("\n".join(map(str, found.judged)) if mutant is not None else str(found))
    return _code(found, fail_under, mutant)


def _words(given: str | None) -> list[str]:
    return [one.strip() for one in (given or "").split(",") if one.strip()]


def _program(tests: tuple[str, ...]) -> tuple[str | list[str], str | None]:
    """Return the tests, or a cassette and its function."""
    functions = [one for one in tests if ":" in one and "::" not in one and not one.startswith(("http:", "https:"))]
    if not functions:
        return list(tests), None
    if len(tests) != 2 or tests[1] != functions[0]:  # noqa: PLR2004 - the cassette and the function
        raise click.UsageError(f"{functions[0]} is a function: name its cassette before it, and nothing else")
    return str(found_one(tests[0]).path or tests[0]), tests[1]


def _code(found: Adequacy, fail_under: float | None, mutant: str | None) -> int:
    if not found.is_whole:
        return INTERRUPTED
    if mutant is not None:
        return FINDINGS if found.survivors else OK
    is_under = fail_under is not None and found.score.share < fail_under
    return FINDINGS if is_under or found.excluded else OK

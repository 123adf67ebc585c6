"""`agenttape diff`: two cassettes or folders, or the recordings here and in a git revision."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import click

from agenttape_core.cli.app import FINDINGS, OK
from agenttape_core.cli.cassettes import STDIN, found_in, found_one, is_folder, paths_argument
from agenttape_core.cli.output import cli_command, print_json, print_text, progress
from agenttape_core.errors import ConfigurationError
from agenttape_core.lifecycle.project import project_settings
from agenttape_core.matching import Ignored
from agenttape_core.storage import Cassette, files_below, may_be_cassette, read_cassette
from agenttape_core.tools.compare import Comparison
from agenttape_core.tools.git.requests import Revision
from agenttape_core.tools.reading.prices import load_prices
from agenttape_core.tools.report import Change, Totals, change_of, comment, markdown
from agenttape_core.tools.reporting.forms import write_parts

# -- The cassettes of a revision, as git has them, and those of the working tree.


Opener = Callable[[], Cassette]  # opens a cassette. References to its assets stay references, as git shows them.


def cassettes_at(revision: str, paths: Sequence[str]) -> dict[str, Opener]:
    """Return the cassettes of a revision, by their paths from the current folder.

    A file with a cassette's name counts as one only if it can be read; opening the others raises. `revision` is in
    git's words; `paths` are files and folders, by default the current folder. Raises `ConfigurationError` if git can't
    find the revision, or this isn't a repository.
    """
    base = Revision(revision, "--base")
    listed = base.tell("ls-tree", "-r", "-z", "--name-only", revision, "--", *(paths or ["."]))
    return {name: _opener(base, name) for name in listed.split("\0") if _may_be(name)}


def cassettes_here(paths: Sequence[str]) -> dict[str, Opener]:
    """Return the cassettes of the working tree at `paths`, by default all below here, by their paths from here."""
    files = [each for path in map(Path, paths or ["."]) for each in (files_below(path) if path.is_dir() else [path])]
    return {file.as_posix(): _reader(file) for file in files if _may_be(file.as_posix()) and file.is_file()}


def pairs(
    before: Mapping[str, Opener], now: Mapping[str, Opener]
) -> Iterator[tuple[str, Opener | None, Opener | None]]:
    """Yield each path with the cassette that it had and the one that it has, in the order of the paths."""
    for path in sorted({*before, *now}):
        yield path, before.get(path), now.get(path)


def _may_be(name: str) -> bool:
    hidden = any(part.startswith(".") for part in PurePosixPath(name).parts if part not in {".", ".."})
    return not hidden and may_be_cassette(name)


def _opener(base: Revision, name: str) -> Opener:
    return lambda: read_cassette(io.BytesIO(base.ask("show", f"{base.name}:./{name}")), name=name, attached=False)


def _reader(file: Path) -> Opener:
    def read() -> Cassette:
        with file.open("rb") as stream:
            return read_cassette(stream, name=file.as_posix(), attached=False)

    return read


@cli_command("agenttape diff --base main tests")
@paths_argument
@click.option("--base", metavar="REV", help="Compare with this git revision, not two paths with each other.")
@click.option(
    "--ignore", multiple=True, metavar="PATH", help="Ignore this path in requests of two cassettes. Repeatable."
)
@click.option("--steps/--no-steps", default=True, help="Compare the steps of two cassettes, too; by default they are.")
@click.option(
    "--report", "reports", multiple=True, metavar="FILE", help="Write .md (for a comment) or .json. Repeatable."
)
@click.option("--github", is_flag=True, help="Add the report to the summary of a job of GitHub Actions.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 if two differ, or if a run took another path than in REV.")
def diff(
    paths: tuple[str, ...],
    *,
    base: str | None,
    ignore: tuple[str, ...],
    steps: bool,
    reports: tuple[str, ...],
    github: bool,
    exit_code: bool,
    as_json: bool,
) -> int:
    """Compare two cassettes or folders, or a branch with its base.

    For two cassettes, prints the first divergence, then each record that differs; they are aligned by their locations
    in the run. For two folders, compares cassettes with the same name, a line each: same, words, path, new, gone.

    With --base, or without two paths, compares the recordings here with a revision's: by default the base of the pull
    request, or HEAD. A run took another path if it makes other calls, or calls tools with other arguments.
    """
    compares_two = base is None and len(paths) == 2 and not github  # noqa: PLR2004 - which are compared with each other
    are_folders = compares_two and all(path != STDIN and is_folder(path) for path in paths)
    if compares_two and not are_folders:
        if reports:
            raise click.UsageError("--report needs two folders, or --base")
        return _two(paths[0], paths[1], ignore, steps=steps, exit_code=exit_code, as_json=as_json)
    if ignore or any(Path(file).suffix not in {".md", ".json"} for file in reports):
        raise click.UsageError("--ignore is for two cassettes; --report takes a file that ends in .md or .json")
    revision = paths[0] if are_folders else base or _base()
    changes = _of_folders(paths[0], paths[1]) if are_folders else _since(revision, paths)
    text, plain = markdown(changes, revision), _plain(changes, revision)
    for file in reports:
        content = comment(text) if file.endswith(".md") else json.dumps(plain, indent=2)
        write_parts(Path(file), [content])
    if github:
        _add_to_summary(text)
    if as_json:
        print_json(plain)
    elif are_folders:
        _print_lines(changes)
    elif not github:
        print_text(_without_marks(text))
    if exit_code and not changes:
        click.echo(f"nothing was compared: neither {revision} nor this folder holds a recording there", err=True)
        return FINDINGS
    failing = {"path", "unreadable"} if not are_folders else {change.state for change in changes} - {"same"}
    return FINDINGS if exit_code and any(change.state in failing for change in changes) else OK


def _two(first: str, other: str, ignore: Sequence[str], *, steps: bool, exit_code: bool, as_json: bool) -> int:
    if first == other == STDIN:
        raise click.UsageError("only one of two cassettes can come from standard input")
    comparison = Comparison(found_one(first).look(), found_one(other).look(), Ignored.of(ignore), steps=steps)
    if as_json:
        print_json(comparison.to_dict())
    else:
        print_text(str(comparison))
    return FINDINGS if exit_code and comparison else OK


def _of_folders(first: str, other: str) -> list[Change]:
    """Return the changes of the cassettes of two folders, paired by their paths inside of them."""
    before, now = ({found.file.key: found for found in found_in([folder])} for folder in (first, other))
    names = sorted(before.keys() | now.keys())
    return _changes((name, *(each[name].look if name in each else None for each in (before, now))) for name in names)


def _since(revision: str, paths: Sequence[str]) -> list[Change]:
    """Return the changes of the recordings here since a revision."""
    return _changes(pairs(cassettes_at(revision, paths), cassettes_here(paths)))


def _changes(both: Iterable[Any]) -> list[Change]:
    prices = load_prices(project_settings().prices)
    found = (change_of(path, before, now, prices) for path, before, now in progress(list(both), "comparing"))
    return [change for change in found if change is not None]


def _base() -> str:
    branch = os.environ.get("GITHUB_BASE_REF")
    return f"origin/{branch}" if branch else "HEAD"


def _plain(changes: Sequence[Change], base: str) -> dict[str, Any]:
    totals = Totals.of(changes)
    rows = [change.to_dict() for change in changes]
    return {"base": base, "changed": totals.changed, "paths": totals.paths, "recordings": rows}


def _add_to_summary(text: str) -> None:
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if not summary:
        raise ConfigurationError(
            "--github writes to the file that GITHUB_STEP_SUMMARY names, which a job of GitHub Actions sets\n"
            "  elsewhere, write the report with --report FILE.md"
        )
    with Path(summary).open("a", encoding="utf-8") as file:
        file.write(text)


def _print_lines(changes: Sequence[Change]) -> None:
    totals = Totals.of(changes)
    for change in changes:
        first = change.calls[0] if change.calls else change.problem
        print_text(f"{change.state:<11}{change.path}{f'  {first}' if first else ''}")
    before, now = totals.tokens
    print_text(f"{totals.changed} of {totals.recordings} changed, {before:,} → {now:,} tokens")


def _without_marks(text: str) -> str:
    """Return the report for a terminal: without the marks of Markdown."""
    lines = [
        line.removeprefix("### ").removeprefix("<details><summary>").removesuffix("</summary>")
        for line in text.splitlines()
        if not line.startswith(("</details>", "|---", "```"))
    ]
    return "\n".join(line for before, line in zip(["", *lines], lines, strict=False) if line or before).strip()

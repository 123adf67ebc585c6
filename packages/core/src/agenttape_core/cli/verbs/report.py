"""`agenttape report`: which recordings changed since a revision, and how."""

from __future__ import annotations

import os
from pathlib import Path

import click

from agenttape_core.cli.app import FINDINGS, OK
from agenttape_core.cli.output import print_json, print_text, progress, verb
from agenttape_core.errors import ConfigurationError
from agenttape_core.lifecycle.project import project_settings
from agenttape_core.tools.git.revision import cassettes_at, cassettes_here, pairs
from agenttape_core.tools.reading.prices import load_prices
from agenttape_core.tools.report import Totals, change_of, comment, markdown


@verb("agenttape report --base main tests")
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path(readable=False))
@click.option(
    "--base", metavar="REVISION", help="What to compare with; by default the base of a pull request, or HEAD."
)
@click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown, for any forge.")
@click.option("--github", is_flag=True, help="Add it to the summary of the job of GitHub Actions.")
@click.option("--comment", "comment_to", metavar="FILE", help="Write the body of a comment to a file.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 if a run took another path, or a file cannot be read.")
def report(
    paths: tuple[str, ...],
    *,
    base: str | None,
    as_markdown: bool,
    github: bool,
    comment_to: str | None,
    exit_code: bool,
    as_json: bool,
) -> int:
    """Compare recordings with those of a git revision.

    Compares those of the working tree: paths first, words second, tokens last.

    A run took another path if it makes other calls, or calls tools with other arguments.
    """
    revision = base or _base()
    both = list(pairs(cassettes_at(revision, paths), cassettes_here(paths)))
    prices = load_prices(project_settings().prices)
    found = [change_of(path, before, now, prices) for path, before, now in progress(both, "comparing")]
    changes = [change for change in found if change is not None]
    text = markdown(changes, revision)
    if github:
        summary = os.environ.get("GITHUB_STEP_SUMMARY")
        if not summary:
            raise ConfigurationError(
                "--github writes to the file that GITHUB_STEP_SUMMARY names, which a job of GitHub Actions sets\n"
                "  elsewhere, print the report with --markdown, or write it with --comment FILE"
            )
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(text)
    if comment_to is not None:
        Path(comment_to).write_text(comment(text), encoding="utf-8")
    if as_json:
        totals = Totals.of(changes)
        print_json(
            {
                "base": revision,
                "changed": totals.changed,
                "paths": totals.paths,
                "recordings": [change.to_dict() for change in changes],
            }
        )
    elif as_markdown:
        print_text(text.rstrip("\n"))
    elif not github:
        print_text(_plain(text))
    if exit_code and not both:
        click.echo(f"nothing was compared: neither {revision} nor the working tree holds a recording there", err=True)
        return FINDINGS
    return FINDINGS if exit_code and any(one.state in {"path", "unreadable"} for one in changes) else OK


def _base() -> str:
    branch = os.environ.get("GITHUB_BASE_REF")
    return f"origin/{branch}" if branch else "HEAD"


def _plain(text: str) -> str:
    """Return the report for a terminal: without the marks of Markdown."""
    lines = [
        line.removeprefix("### ").removeprefix("<details><summary>").removesuffix("</summary>")
        for line in text.splitlines()
        if not line.startswith(("</details>", "|---", "```"))
    ]
    return "\n".join(line for before, line in zip(["", *lines], lines, strict=False) if line or before).strip()

"""`agenttape fleet merge`: one report on the results of all shards."""

from __future__ import annotations

from pathlib import Path

import click

from agenttape_core.cli.app import CASSETTE, FINDINGS, OK
from agenttape_core.cli.output import cli_command, print_json, print_table, print_text
from agenttape_core.errors import ConfigurationError
from agenttape_core.fleet.report import FORMS, Report, read_report
from agenttape_core.storage import location_of
from agenttape_core.tools.reporting.forms import write_parts


def _in_known_forms(_context: click.Context, _parameter: click.Parameter, files: tuple[str, ...]) -> tuple[str, ...]:
    for file in files:
        if Path(file).suffix not in FORMS:
            raise click.BadParameter(f"{file}: the suffix is the form; use one of {', '.join(FORMS)}")
        if not isinstance(location_of(file), Path):
            raise click.BadParameter(f"{file}: a report is a file here; copy it to the URL")
    return files


@cli_command("agenttape fleet merge s3://results/nightly --report report.html")
@click.argument("stores", nargs=-1, required=True, metavar="URL...")
@click.option("--plan", default="", metavar="ID", help="The beginning of the id of a plan, if there are several.")
@click.option(
    "--report",
    "reports",
    multiple=True,
    callback=_in_known_forms,
    metavar="FILE",
    help=f"Write the report to a file: {', '.join(FORMS)}. Repeatable.",
)
def merge(stores: tuple[str, ...], *, plan: str, reports: tuple[str, ...], as_json: bool) -> int:
    """Write one report on the results of all shards.

    URL is the --output of agenttape fleet work; name several if your shards wrote to several. Runs that aren't the same
    as recorded are grouped by the first new request or by the broken rules, and all runs by their calls. Merge while
    shards still work, and as often as you like: the report names what isn't done yet, and the same results give the
    same bytes.

    Exits with 1 if a run isn't the same or isn't done, a case of your rules has no run, or a model is WORSE; with 3 if
    a recording can't be read.
    """
    report = read_report(stores, plan)
    for file in reports:
        _write(Path(file), report)
    if as_json:
        print_json(report.to_dict())
    else:
        print_text(report.headline())
        for title, columns, rows in report.tables():
            if rows:
                print_text(f"\n{title}", "bold")
                print_table(columns, rows)
    if report.verdicts()["unreadable"]:
        return CASSETTE
    return FINDINGS if report.has_failed else OK


def _write(path: Path, report: Report) -> None:
    try:
        write_parts(path, FORMS[path.suffix](report))
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror or error}") from None

"""`agenttape fleet query`: questions about recorded calls."""

from __future__ import annotations

from typing import Any

import click

from agenttape_core.cli.output import cli_command, print_json, print_table, print_text
from agenttape_core.fleet.index import COLUMNS, read_index
from agenttape_core.fleet.questions import QUESTIONS, ask

_SHOWN = 20  # rows of an answer


@cli_command("agenttape fleet query --named slowest-tools")
@click.argument("sql", required=False)
@click.option(
    "--named", type=click.Choice(["list", *QUESTIONS]), help="Ask this question; list shows all, with columns."
)
@click.option(
    "--index", "path", default="index.parquet", show_default=True, metavar="FILE", help="The index, or its URL."
)
@click.option(
    "--limit", type=click.IntRange(1), metavar="N", help=f"Show N rows. By default {_SHOWN}, and all with --json."
)
def query(sql: str | None, *, named: str | None, path: str, limit: int | None, as_json: bool) -> None:
    """Answer a question about the calls in an index.

    SQL is a select statement of DuckDB over the table calls. It sees no other table, no file and no network. Write the
    index with agenttape fleet index.
    """
    if (sql is None) == (named is None):
        raise click.UsageError("write a select statement, or name a question with --named: list shows them")
    if named == "list":
        _list(as_json=as_json)
        return
    answer = ask(named or sql or "", read_index(path))
    rows = answer.slice(0, limit).to_pylist() if limit or not as_json else answer.to_pylist()
    if as_json:
        print_json({"columns": answer.column_names, "rows": rows})
        return
    shown = rows[: limit or _SHOWN]
    numbers = {name for name in answer.column_names if any(isinstance(row[name], int | float) for row in shown)}
    print_table(answer.column_names, [list(map(_cell, row.values())) for row in shown], right=frozenset(numbers))
    if answer.num_rows > len(shown):
        print_text(f"… and {answer.num_rows - len(shown):,} more rows: --limit N")


def _list(*, as_json: bool) -> None:
    columns = {name: meaning for name, (_, meaning) in COLUMNS.items()}
    if as_json:
        questions = {name: {"question": each.text, "sql": each.sql} for name, each in QUESTIONS.items()}
        print_json({"questions": questions, "columns": columns})
        return
    print_table(("name", "question"), [(name, each.text) for name, each in QUESTIONS.items()])
    print_text("")
    print_table(("column", "meaning"), list(columns.items()))


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)

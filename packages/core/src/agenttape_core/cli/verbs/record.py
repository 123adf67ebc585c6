"""`agenttape record`: run a command or a function, and record the calls of its Python processes."""

from __future__ import annotations

from typing import Any

import click

from agenttape_core.cli.output import verb
from agenttape_core.cli.running import before_command, given, report, running


@before_command
@verb("agenttape record --cassette weather -- python agent.py")
@running
@click.option(
    "--mode",
    type=click.Choice(["all", "once", "new_episodes"]),
    default="all",
    show_default=True,
    help="all: record everything anew. once: replay if there is a cassette. new_episodes: add what is missing.",
)
@click.option("--tag", "tags", multiple=True, metavar="WORD", help="A tag for the header. Repeatable.")
@click.option("--opaque", type=click.Choice(["refuse", "keep"]), help="The treatment of values without a codec.")
@click.option(
    "--on-error",
    type=click.Choice(["discard", "keep"]),
    help="Whether a failing command replaces a cassette. By default it does not, and its recording lies beside it.",
)
def record(words: tuple[str, ...], cassette: str | None, mode: str, *, as_json: bool, **options: Any) -> int:
    """Run a command, and record the calls of models and tools in its Python processes.

    WORDS are a command with its arguments, or a function: module:function or path/to/file.py:function. The main
    process records NAME.yaml, and each further process a cassette in NAME.processes.

    Exits with the code of the command, or with 3 if a cassette cannot be written. With --json, the command writes to
    standard error only.
    """
    from agenttape_core.tools.processes.run import run

    return report(run(words, mode=mode, cassette=cassette, options=given(options), apart=as_json), as_json=as_json)

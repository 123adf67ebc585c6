"""`agenttape replay`: run a command or a function, and answer its Python processes from their cassettes."""

from __future__ import annotations

from typing import Any

import click

from agenttape_core.cli.output import verb
from agenttape_core.cli.running import before_command, given, report, running


@before_command
@verb("agenttape replay --cassette weather -- python agent.py")
@running
@click.option(
    "--on-miss",
    type=click.Choice(["raise", "return"]),
    help="Whether a miss stops the command, or gives it an error result.",
)
@click.option("--unused", type=click.Choice(["fail", "warn", "ignore"]), help="The treatment of unused recordings.")
@click.option(
    "--exhausted",
    type=click.Choice(["fail", "last", "cycle"]),
    help="The treatment of calls that were recorded fewer times.",
)
@click.option("--lossy", type=click.Choice(["refuse", "serve"]), help="The treatment of lossy recordings.")
@click.option("--pace", metavar="PACE", help="The delay of answers: none, recorded, or a multiple of the recorded one.")
def replay(words: tuple[str, ...], cassette: str | None, *, as_json: bool, **options: Any) -> int:
    """Run a command again, and answer its Python processes from their cassettes.

    WORDS are the recorded command, or module:function. It really runs, but its calls of models and tools are answered
    from the cassettes, and connections are refused.

    Exits with 1 for a miss, an unused recording or a refused connection, with 3 if a cassette is missing or broken,
    else with the code of the command. With --json, the command writes to standard error only.
    """
    from agenttape_core.tools.processes.run import run

    return report(run(words, mode="none", cassette=cassette, options=given(options), apart=as_json), as_json=as_json)

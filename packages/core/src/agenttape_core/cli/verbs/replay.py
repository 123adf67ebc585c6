"""`agenttape replay`: a command or a function really runs, and reaches nothing outside."""

from __future__ import annotations

from typing import Any

import click

from agenttape_core.cli.output import verb
from agenttape_core.cli.running import ending, given, running, tell


@ending
@verb("agenttape replay --cassette weather -- python agent.py")
@running
@click.option("--on-miss", type=click.Choice(["raise", "return"]), help="Whether a miss stops the command.")
@click.option("--unused", type=click.Choice(["fail", "warn", "ignore"]), help="What to do about unused recordings.")
@click.option("--exhausted", type=click.Choice(["fail", "last", "cycle"]), help="What to do when answers run out.")
@click.option("--lossy", type=click.Choice(["refuse", "serve"]), help="What to do with recordings that hold less.")
@click.option("--pace", metavar="PACE", help="How long it takes: none, recorded, or that times a number.")
def replay(words: tuple[str, ...], cassette: str | None, *, as_json: bool, **options: Any) -> int:
    """Run a command again, and serve its Python processes from their cassettes.

    WORDS are what was recorded: a command, or module:function. It really runs, but what it asks of models and tools is
    answered from the cassettes, and connections are refused.

    Ends with 1 for a miss, a recording that nobody asked for or a refused connection, with 3 if there is no cassette or
    a broken one, else with what the command ends with. With --json the command writes to standard error only.
    """
    from agenttape_core.tools.processes.run import run

    return tell(run(words, mode="none", cassette=cassette, options=given(options), apart=as_json), as_json=as_json)

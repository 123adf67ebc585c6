"""`agenttape replay`: run a command or a function, and answer its Python processes from their cassettes."""

from __future__ import annotations

from typing import Any

import click

from agenttape_core.cli.output import cli_command
from agenttape_core.cli.running import before_command, given, report, with_options


@before_command
@cli_command("agenttape replay --cassette weather -- python agent.py")
@click.argument("words", nargs=-1, metavar="[--] WORDS...")
@with_options
@click.option(
    "--run", "source", metavar="FILE|RUN_ID", help="Run the program of this recording again from its recorded input."
)
@click.option(
    "--app", metavar="NAME", help="Its program, as module:graph: a graph, chain, agent, workflow or function."
)
@click.option("--asgi", metavar="NAME", help="The ASGI application, as module:app, that gets the recorded request.")
@click.option("--thread", "thread_id", metavar="ID", help="The thread of a source that holds several.")
@click.option("--input", "given_input", metavar="JSON", help="An input in the place of the recorded one.")
@click.option("--header", "headers", multiple=True, metavar="HEADER", help="A header that is sent as well. Repeatable.")
@click.option(
    "--on-miss",
    type=click.Choice(["raise", "return"]),
    help="Whether a miss stops the command, or gives it an error result.",
)
@click.option("--on-unused", type=click.Choice(["fail", "warn", "ignore"]), help="The treatment of unused recordings.")
@click.option(
    "--on-repeat",
    type=click.Choice(["fail", "last", "cycle"]),
    help="The treatment of calls that were recorded fewer times.",
)
@click.option("--pace", metavar="PACE", help="The delay of answers: none, recorded, or a multiple of the recorded one.")
@click.option(
    "--on-unrecorded", type=click.Choice(["fail", "report"]), help="Fail if calls had no recording, or report them."
)
def replay(
    words: tuple[str, ...],
    cassette: str | None,
    *,
    as_json: bool,
    source: str | None,
    app: str | None,
    asgi: str | None,
    thread_id: str | None,
    given_input: str | None,
    headers: tuple[str, ...],
    **options: Any,
) -> int:
    """Run a command again, answered from its cassettes.

    WORDS are the recorded command, or module:function. It really runs, but its calls of models and tools are answered
    from the cassettes, and connections are refused.

    With --run, no command is needed: a graph, chain, agent or workflow runs again from the recorded input, an
    interrupted LangGraph thread with its recorded answers, a server with the recorded request; the answer is printed.

    Exits with 1 for a miss, an unused recording or a refused connection, with 3 if a cassette is missing or broken,
    else with the code of the command. With --json, the command writes to standard error only.
    """
    from agenttape_core.cli.restarting import Again, restart_of
    from agenttape_core.tools.processes.command import Command
    from agenttape_core.tools.processes.run import run

    chosen, again = given(options), None
    command: tuple[str, ...] | Command = words
    if source is not None and not words and cassette is None:
        again = restart_of(
            Again(source, app, asgi, thread_id, given_input, headers),
            is_live=bool(chosen.get("live")),
        )
        cassette, command = again.cassette, again.command
    elif source is not None or app or asgi or not words:
        raise click.UsageError("expected the words of a command, or --run with --app or --asgi")
    ended = run(command, mode="replay", cassette=cassette, options=chosen, apart=as_json, proves=again is not None)
    code = report(ended, as_json=as_json)
    if code == 1 and again is not None and again.runs > 1:
        click.echo(again.advice, err=True)
    return code

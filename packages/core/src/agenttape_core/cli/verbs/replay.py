"""`agenttape replay`: run a command or a function, and answer its Python processes from their cassettes."""

from __future__ import annotations

from typing import Any

import click

from agenttape_core.cli.output import verb
from agenttape_core.cli.running import before_command, given, report, with_options
from agenttape_core.storage.names import SUFFIXES


@before_command
@verb("agenttape replay --cassette weather -- python agent.py")
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
@click.option("--drift", type=click.Choice(["fail", "report"]), help="The treatment of calls that had no recording.")
@click.option("--candidate", metavar="MODEL", help="Another model to try in the place of the command's own.")
@click.option(
    "--samples",
    type=click.IntRange(1),
    help="How often the candidate is tried at most; less often if the verdict is clear before.",
)
@click.option(
    "--baseline",
    type=click.IntRange(0),
    help="The same of the command's own model, with which it is compared; by default as often.",
)
@click.option("--to", "folder", metavar="DIR", help="The folder of the derived cassettes of the samples.")
@click.option("--output", metavar="FILE", help="A file for the result of the samples, as JSON.")
@click.option("--plan", is_flag=True, help="Say what the samples would cost, and execute nothing.")
@click.option(
    "--max-usd",
    type=click.FloatRange(0),
    metavar="DOLLARS",
    help="Make no call of a model that may cost more than is left of this.",
)
@click.option("--resume", metavar="FILE", help="The result of an earlier trial, as of --output: its samples are kept.")
def replay(
    words: tuple[str, ...],
    cassette: str | None,
    *,
    as_json: bool,
    samples: int | None,
    baseline: int | None,
    folder: str | None,
    output: str | None,
    plan: bool,
    max_usd: float | None,
    resume: str | None,
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

    With --candidate, another model is asked in the place of the command's own, while tools are served; if a call leaves
    the recorded world, the exit code is 1, unless --drift is report. With --samples, that is done several times, in
    turn with the command's own model, until one is WORSE, BETTER or the SAME; WORSE exits with 1.

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
            is_live=bool(chosen.get("live") or chosen.get("candidate")),
        )
        cassette, command = again.cassette, again.command
    elif source is not None or app or asgi or not words:
        raise click.UsageError("expected the words of a command, or --run with --app or --asgi")
    candidate = chosen.get("candidate")
    trial = (samples, baseline, folder, output, plan or None, max_usd, resume)
    if candidate is None and any(one is not None for one in trial):
        raise click.UsageError("--samples, --baseline, --to, --output, --plan, --max-usd and --resume need --candidate")
    if candidate is not None and any(one is not None for one in trial):
        if folder is not None and folder.endswith(SUFFIXES):
            raise click.UsageError(f"--to {folder}: expected a folder; each sample has a cassette of its own in it")
        from agenttape_core.cli.trying import Trying, tried

        samples = samples or 1
        how = Trying(candidate, samples, samples if baseline is None else baseline, folder, output, max_usd, resume)
        return tried(command, cassette, how, chosen, plans=plan, as_json=as_json)
    if candidate is not None:
        chosen = {"drift": "fail", **chosen}
    ended = run(command, mode="replay", cassette=cassette, options=chosen, apart=as_json, proves=again is not None)
    code = report(ended, as_json=as_json)
    if code == 1 and again is not None and again.runs > 1:
        click.echo(again.advice, err=True)
    return code

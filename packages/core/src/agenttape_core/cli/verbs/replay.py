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
@click.option("--drift", type=click.Choice(["fail", "report"]), help="The treatment of calls that had no recording.")
@click.option("--candidate", metavar="MODEL", help="Another model to try in the place of the command's own.")
@click.option("--samples", type=click.IntRange(1), help="How often the candidate is tried; with a baseline as long.")
@click.option("--baseline", type=click.IntRange(0), help="How often the command's own model is asked again.")
@click.option("--to", "folder", metavar="DIR", help="The folder of the derived cassettes of the samples.")
@click.option("--output", metavar="FILE", help="A file for the result of the samples, as JSON.")
@click.option("--plan", is_flag=True, help="Say what the samples would cost, and execute nothing.")
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
    **options: Any,
) -> int:
    """Run a command again, and answer its Python processes from their cassettes.

    WORDS are the recorded command, or module:function. It really runs, but its calls of models and tools are answered
    from the cassettes, and connections are refused.

    With --candidate, another model is asked in the place of the command's own, while tools are served; if a call leaves
    the recorded world, the exit code is 1, unless --drift is report. With --samples, that is done several times, and
    so is a baseline with the command's own model.

    Exits with 1 for a miss, an unused recording or a refused connection, with 3 if a cassette is missing or broken,
    else with the code of the command. With --json, the command writes to standard error only.
    """
    from agenttape_core.tools.processes.run import run

    chosen = given(options)
    candidate = chosen.get("candidate")
    if candidate is None and (samples or baseline is not None or folder or output or plan):
        raise click.UsageError("--samples, --baseline, --to, --output and --plan need --candidate")
    if candidate is not None and (samples or folder or output or plan):
        from agenttape_core.cli.trying import Trying, tried

        how = Trying(candidate, samples or 1, samples or 1 if baseline is None else baseline, folder, output)
        return tried(words, cassette, how, chosen, plans=plan, as_json=as_json)
    if candidate is not None:
        chosen = {"drift": "fail", **chosen}
    return report(run(words, mode="none", cassette=cassette, options=chosen, apart=as_json), as_json=as_json)

"""`agenttape triage`: the part of a program that makes it flaky."""

from __future__ import annotations

import click

from agenttape_core.cli.app import FINDINGS, OK
from agenttape_core.cli.cassettes import found_one
from agenttape_core.cli.output import print_json, print_text, progress_bar, verb
from agenttape_core.cli.programs import program_argument, with_program
from agenttape_core.tools.programs import Program
from agenttape_core.tools.triage import Triage
from agenttape_core.tools.triage import triage as run_triage
from agenttape_core.tools.triage.running import SAMPLES, SEED, SURROUNDINGS


@verb("agenttape triage tests/test_desk.py::test_answer --samples 10 --max-usd 1")
@click.argument("cassette", required=False, type=click.Path(readable=False))
@program_argument
@click.option("--samples", default=SAMPLES, show_default=True, help="The samples of each lane.")
@click.option(
    "--max-usd", type=float, metavar="DOLLARS", help="The most that models may cost; without it, none is asked."
)
@click.option("--live", "tools", multiple=True, metavar="TOOL", help="A tool that may be executed. Repeatable.")
@click.option("--judge", metavar="NAME", help="The boundary that judges.")
@click.option("--surroundings", default=SURROUNDINGS, show_default=True, help="Replays in other processes; 0 for none.")
@click.option("--seed", default=SEED, show_default=True, help="Of the orders that are chosen by chance.")
def triage(
    cassette: str | None,
    function: str | None,
    test: str | None,
    *,
    samples: int,
    max_usd: float | None,
    tools: tuple[str, ...],
    judge: str | None,
    surroundings: int,
    seed: int,
    as_json: bool,
) -> int:
    """Find the part of a flaky program that makes it so: code, order, a tool, the model, or the judge.

    FUNCTION is module:function or path/to/file.py:function; or name a test with --test, or alone: then it is replayed
    from its own cassette. Each part varies alone, while
    all others are served from CASSETTE: first what costs nothing, and models only with --max-usd. Exits with 1 if
    something has failed.
    """
    if cassette is not None and "::" in cassette and function is None and test is None:
        cassette, test = None, cassette
    path = found_one(cassette).path or cassette if cassette is not None else None
    with progress_bar(None, "sampling") as advance:

        def work(program: Program) -> Triage:
            recording = path or program.cassette
            if recording is None:
                raise click.UsageError(f"{program.name} has no cassette of its own; name one before it")
            return run_triage(
                recording,
                program,
                samples=samples,
                max_usd=max_usd,
                tools=tools or None,
                judge=judge,
                surroundings=surroundings,
                seed=seed,
                on_sample=advance,
            )

        found = with_program(function, test, work, cassette=path)
    if as_json:
        print_json(found.to_dict())
    else:
        print_text(str(found))
    return FINDINGS if found.culprits else OK

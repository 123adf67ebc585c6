"""`agenttape why`: the recorded answers that have moved a call."""

from __future__ import annotations

import click

from agenttape_core.cli.cassettes import found_one
from agenttape_core.cli.output import print_json, print_text, progress_bar, verb
from agenttape_core.cli.programs import program_argument, with_program
from agenttape_core.tools.programs import Program
from agenttape_core.tools.why import Why
from agenttape_core.tools.why import why as ask_why
from agenttape_core.tools.why.tracing import MAX_REPLAYS


@verb("agenttape why cassettes/desk.yaml desk.py:answer --text 9981")
@click.argument("cassette", type=click.Path(readable=False))
@program_argument
@click.option("--call", type=int, metavar="N", help="The call in question; by default the last answer of a model.")
@click.option("--text", metavar="TEXT", help="The text in question, as it stands in an answer.")
@click.option("--max-replays", default=MAX_REPLAYS, show_default=True, help="How often the program is replayed.")
def why(
    cassette: str,
    function: str | None,
    test: str | None,
    *,
    call: int | None,
    text: str | None,
    max_replays: int,
    as_json: bool,
) -> int:
    """Find which recorded answers have moved a call of CASSETTE, each link tested by a replay.

    FUNCTION is module:function or path/to/file.py:function; or name a test with --test. Each recorded answer is changed
    once, and the program replayed: the calls that then ask for something else depend on it. Nothing is executed.
    """
    path = found_one(cassette).path or cassette
    with progress_bar(None, "replaying") as advance:

        def work(program: Program) -> Why:
            return ask_why(
                path,
                program,
                call=call,
                text=text,
                max_replays=max_replays,
                on_replay=lambda *_: advance(),
            )

        found = with_program(function, test, work, cassette=path)
    if as_json:
        print_json(found.to_dict())
    else:
        print_text(str(found))
    return 0

"""`agenttape lab why`: the recorded answers that have moved a call."""

from __future__ import annotations

import click

from agenttape_core.cli.labs import recording_of, show, with_cassette, with_report, with_runs, write_reports
from agenttape_core.cli.output import progress_bar, verb
from agenttape_core.cli.programs import with_program
from agenttape_core.experiments.program import Program
from agenttape_core.experiments.strategies.why import MAX_REPLAYS, Why
from agenttape_core.experiments.strategies.why import why as run_why


@verb("agenttape lab why desk.py:answer --cassette cassettes/desk.yaml --text 9981")
@click.argument("target")
@with_cassette
@click.option("--call", type=int, metavar="N", help="Ask about this call; by default the last answer of a model.")
@click.option("--text", metavar="TEXT", help="Ask about this text, as it is in an answer.")
@with_runs(MAX_REPLAYS, "Replay the program N times at most.")
@with_report
def why(
    target: str,
    *,
    cassette: str | None,
    call: int | None,
    text: str | None,
    runs: int,
    reports: tuple[str, ...],
    as_json: bool,
) -> int:
    """Find which recorded answers have moved a call, each link tested by a replay.

    TARGET is the id of a test, module:function, or path/to/file.py:function. Each recorded answer is changed once, and
    the program replayed: the calls that then request something else depend on it. No model or tool is called.
    """
    path = recording_of(cassette)
    with progress_bar(None, "replaying") as advance:

        def work(program: Program) -> Why:
            return run_why(program, path, call=call, text=text, runs=runs, on_replay=lambda *_: advance())

        found = with_program(target, work, cassette=path)
    show(found, as_json=as_json)
    write_reports(reports, found.to_dict(), str(found))
    return 0

"""`agenttape minimise`: the smallest cassette that still fails."""

from __future__ import annotations

from dataclasses import replace

import click

from agenttape_core.cli.cassettes import found_one
from agenttape_core.cli.output import print_json, print_text, progress_bar, verb
from agenttape_core.cli.programs import program_argument, with_program
from agenttape_core.tools.minimise import Minimised
from agenttape_core.tools.minimise import minimise as run_minimise
from agenttape_core.tools.minimise.minimising import MAX_REPLAYS
from agenttape_core.tools.minimise.pytest_file import write_test
from agenttape_core.tools.programs import Program


@verb("agenttape minimise runs/incident-417.jsonl --test tests/test_desk.py::test_no_amounts")
@click.argument("cassette", type=click.Path(readable=False))
@program_argument
@click.option(
    "--to", type=click.Path(readable=False), metavar="FILE", help="The cassette to write; by default NAME.minimal.yaml."
)
@click.option("--max-replays", default=MAX_REPLAYS, show_default=True, help="How often the program is replayed.")
@click.option("--no-test-file", is_flag=True, help="Write no pytest file.")
def minimise(
    cassette: str,
    function: str | None,
    test: str | None,
    *,
    to: str | None,
    max_replays: int,
    no_test_file: bool,
    as_json: bool,
) -> int:
    """Find the smallest cassette with which a program still fails as with CASSETTE.

    FUNCTION is module:function or path/to/file.py:function; or name a test with --test. Nothing is executed. Writes
    NAME.minimal.yaml and a pytest file that replays it.
    """
    path = found_one(cassette).path or cassette
    with progress_bar(max_replays, "minimising") as advance:

        def work(program: Program) -> Minimised:
            found = run_minimise(path, program, to=to, max_replays=max_replays, on_replay=lambda _: advance())
            if no_test_file or program.source is None:
                return found
            return replace(found, test=write_test(found, program.source))

        found = with_program(function, test, work, cassette=path)
    if as_json:
        print_json(found.to_dict())
    else:
        print_text(str(found))
    return 0

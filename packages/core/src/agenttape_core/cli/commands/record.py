"""`agenttape record`: run a command or a function, and record the calls of its Python processes."""

from __future__ import annotations

from typing import Any

import click

from agenttape_core.cli.output import cli_command
from agenttape_core.cli.running import before_command, given, replayed_with, report, running


@before_command
@cli_command("agenttape record --cassette weather -- python agent.py")
@running
@click.option(
    "--mode",
    type=click.Choice(["record", "once", "add", "update", "all", "new_episodes"]),
    metavar="[record|once|add|update]",
    default="record",
    show_default=True,
    help="record: record every call. once: replay if there's a cassette. add: record calls that are missing. "
    "update: add, and drop recordings that the command no longer uses. VCR's names work, too.",
)
@click.option("--tag", "tags", multiple=True, metavar="WORD", help="Add this tag to the header. Repeatable.")
@click.option(
    "--on-error",
    type=click.Choice(["discard", "keep"]),
    help="Keep the recording of a failing command as the cassette, or put it aside (discard, the default).",
)
@click.option("--review", is_flag=True, default=None, help="Let a new recording wait for `agenttape review`.")
@click.option("--trace", metavar="FILE", help="Also write a JSONL trace, as export --format jsonl-trace does.")
@click.option("--check-replay", is_flag=True, help="Replay the command right away, and fail if that differs.")
def record(
    words: tuple[str, ...],
    cassette: str | None,
    mode: str,
    *,
    trace: str | None,
    check_replay: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Run a command, and record its calls of models and tools.

    WORDS are a command with its arguments, or a function: module:function or path/to/file.py:function. The main
    process records NAME.yaml, and each further process a cassette in NAME.processes.

    Exits with the code of the command, or with 3 if a cassette cannot be written; with --check-replay also with 1 if
    the command does not replay. Its side effects happen again then. With --json, the command writes to standard error
    only, as it does in the replay check.
    """
    from agenttape_core.cli.cassettes import found_one
    from agenttape_core.cli.commands.export import write_trace
    from agenttape_core.errors import shown_path
    from agenttape_core.storage import is_pending
    from agenttape_core.tools.processes.run import run

    outcome = run(words, mode=mode, cassette=cassette, options=given(options), apart=as_json)
    check = None
    if check_replay and any(is_pending(one.path.name) for one in outcome.made):
        click.echo("agenttape: not checked: the recording waits for review; after it:  agenttape replay", err=True)
    elif check_replay and outcome.made and not outcome.exit_code:
        kept = replayed_with(options)
        check = run(words, mode="replay", cassette=cassette, options=kept, apart=True, is_check=True)
    if trace is not None and outcome.made:
        write_trace([found_one(shown_path(one.path)) for one in outcome.made], trace)
    return report(outcome, as_json=as_json, check=check)

"""The parts that `record` and `replay` share: their options, and the report of how the command ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from agenttape_core.cli.output import print_json, printable

if TYPE_CHECKING:
    from agenttape_core.tools.processes.report import Outcome

Function = Callable[..., Any]

_SEVERAL = {
    "live": "A kind (chat, tool) or name to execute in any mode.",
    "frozen": "A kind or name to serve and never execute.",
    "match_on": "A way to find a recording: exact, request, address or ordered; tried in turn.",
    "ignore": "A path in requests to ignore, such as arguments.now.",
    "freeze": "A part of the world to freeze: clock, clock:ticking, uuid, random, numpy, env.",
    "egress": "A host that may be reached, or loopback.",
}


def running(function: Function) -> Function:
    """Add the argument and the options that both verbs have."""
    for name, text in reversed(_SEVERAL.items()):
        option = f"--{name.replace('_', '-')}"
        function = click.option(option, name, multiple=True, metavar="WORD", help=f"{text} Repeatable.")(function)
    cassette = click.option(
        "--cassette", metavar="NAME", help="Name or path of the cassette; by default named after the command."
    )
    words = click.argument("words", nargs=-1, required=True, metavar="[--] WORDS...")
    return cassette(words(function))


def given(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were given, as `use_cassette` takes them."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in options.items() if value}


def before_command(command: click.Command) -> click.Command:
    """End the options of a verb at the first word of the command that it runs, whose own options follow."""
    command.context_settings["allow_interspersed_args"] = False
    return command


def report(outcome: Outcome, *, as_json: bool) -> int:
    """Print how a command ended: on standard error, or as JSON on standard output.

    Returns:
        The exit code.
    """
    if as_json:
        print_json({**outcome.to_dict(), "exit_code": outcome.exit_code})
        return outcome.exit_code
    for line in (*outcome.lines(), *outcome.failures()):
        click.echo(f"agenttape: {printable(line)}", err=True)
    return outcome.exit_code

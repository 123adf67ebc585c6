"""What `record` and `replay` have in common: their words, and how they tell how a command ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from agenttape_core.cli.output import print_json, printable

if TYPE_CHECKING:
    from agenttape_core.tools.processes.report import Outcome

Function = Callable[..., Any]

_SEVERAL = {
    "live": "A kind (chat, tool) or name that is executed in any mode.",
    "frozen": "A kind or name that is only ever served.",
    "match_on": "How a recording is found: exact, request, address, ordered; tried in turn.",
    "ignore": "A path of requests that is not compared, such as arguments.now.",
    "freeze": "What is kept as it was: clock, clock:ticking, uuid, random, numpy, env.",
    "egress": "A host that may be reached all the same; loopback is such a word.",
}


def running(function: Function) -> Function:
    """Add the words of a command, and the options that both verbs have."""
    for name, text in reversed(_SEVERAL.items()):
        option = f"--{name.replace('_', '-')}"
        function = click.option(option, name, multiple=True, metavar="WORD", help=f"{text} Repeatable.")(function)
    cassette = click.option("--cassette", metavar="NAME", help="Name or path of the cassette; by default what is run.")
    words = click.argument("words", nargs=-1, required=True, metavar="[--] WORDS...")
    return cassette(words(function))


def given(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were given, as `use_cassette` takes them."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in options.items() if value}


def ending(command: click.Command) -> click.Command:
    """Let the options of a verb end at the first word of the command, whose own options follow."""
    command.context_settings["allow_interspersed_args"] = False
    return command


def tell(outcome: Outcome, *, as_json: bool) -> int:
    """Say how a command ended, on standard error; as JSON, on standard output.

    Returns:
        What to end with.
    """
    if as_json:
        print_json({**outcome.to_dict(), "exit_code": outcome.exit_code})
        return outcome.exit_code
    for line in (*outcome.lines(), *outcome.failures()):
        click.echo(f"agenttape: {printable(line)}", err=True)
    return outcome.exit_code

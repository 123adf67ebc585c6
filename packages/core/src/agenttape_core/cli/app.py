"""The commands and their exit codes: 0 all well, 1 findings, 2 wrong usage, 3 a cassette that cannot be used."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from keyword import iskeyword
from typing import Any

import click
from click.shell_completion import CompletionItem

from agenttape_core.cli.output import never_fail_to_encode, printable
from agenttape_core.cli.summaries import GROUPS, INSTEAD, MEANT, OF_CASSETTES
from agenttape_core.errors import AgentTapeError, AgentTapeHalt, CassetteError, ConfigurationError

OK, FINDINGS, USAGE, CASSETTE = 0, 1, 2, 3
INTERRUPTED = 130

COMMANDS = (
    *(name for group in GROUPS.values() for name in group if name != "cassette"),
    *(f"cassette {name}" for name in OF_CASSETTES),
)
"""The commands by their names."""


class Commands(click.Group):
    """Commands that are imported when they are used.

    Args:
        groups: The summaries of the commands, below the headings under which help lists them.
        package: The package with a module for each of them.
    """

    def __init__(
        self,
        *args: Any,
        groups: Mapping[str, Mapping[str, str]],
        package: str = "agenttape_core.cli.commands",
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._package = package
        self._groups = groups
        self._names = [name for group in groups.values() for name in group]

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of the commands, in the order of the help."""
        return list(self._names)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, and import it for that."""
        if cmd_name not in self._names:
            return None
        if (own := super().get_command(ctx, cmd_name)) is not None:
            return own
        name = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name
        command: click.Command = getattr(import_module(f"{self._package}.{name}"), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is named. Another word is refused with the command that was most likely meant."""
        if args and args[0] not in self._names and not args[0].startswith("-"):
            raise click.UsageError(f"there is no command {args[0]!r}{self._advice(args[0], ctx.command_path)}", ctx)
        return super().resolve_command(ctx, args)

    def _advice(self, word: str, command: str) -> str:
        if (instead := INSTEAD.get(word)) is not None:
            return f"; {instead}"
        meant = MEANT.get(word)
        if meant is None and (alike := get_close_matches(word, self._names, n=1)):
            return f"; did you mean: {command} {alike[0]}?"
        return f"; did you mean: agenttape {meant}?" if meant else f"; commands are {', '.join(self._names)}"

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - likewise
        """List the commands in their groups, without importing any of them."""
        width = max(map(len, self._names))
        for heading, group in self._groups.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), said) for name, said in group.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. If its reader has gone, as after `head`, it ends without an error."""
        try:
            code = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python writes the rest at its exit
            ctx.exit(OK)
        return code

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the names of commands, without their help: importing all of them takes too long between two keys."""
        names = [CompletionItem(name) for name in self._names if name.startswith(incomplete)]
        return names + click.Command.shell_complete(self, ctx, incomplete)


_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(cls=Commands, groups=GROUPS, context_settings=_SETTINGS)
@click.version_option(package_name="agenttape-core", prog_name="agenttape")
def agenttape() -> None:
    """Record, replay, look at, compare and check the calls of agents.

    A PATH is a cassette, a folder of them, or - for one on standard input. Every command takes --json.

    \b
    Exits with 0 if all is well, 1 if something was found, 2 if the command is wrong,
    3 if a cassette cannot be read or written.
    """  # noqa: D301 - click wants the character itself


@agenttape.group("cassette", cls=Commands, groups={"Commands": OF_CASSETTES}, context_settings=_SETTINGS)
def _cassette() -> None:
    """Convert, migrate, redact, recover, clean up or checksum files."""


def run(args: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        args: The words of the command line; by default the process's own.

    Returns:
        The exit code.
    """
    never_fail_to_encode()
    try:
        code: Any = agenttape.main(args=args, prog_name="agenttape", standalone_mode=False)
    except click.exceptions.Exit as ended:
        code = ended.exit_code
    except click.ClickException as error:
        error.show()
        code = USAGE
    except (click.Abort, KeyboardInterrupt):
        code = _failed("interrupted", INTERRUPTED)
    except (AgentTapeError, AgentTapeHalt) as error:
        code = _failed(str(error), _code_of(error))
    return code if isinstance(code, int) else OK


def _code_of(error: BaseException) -> int:
    if isinstance(error, ConfigurationError):
        return USAGE
    return CASSETTE if isinstance(error, CassetteError) else FINDINGS


def _failed(message: str, code: int) -> int:
    click.echo(f"agenttape: {printable(message)}", err=True)
    return code

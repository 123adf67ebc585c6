"""The verbs and their exit codes: 0 all well, 1 findings, 2 wrong usage, 3 a cassette that cannot be used."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from keyword import iskeyword
from typing import Any

import click
from click.shell_completion import CompletionItem

from agenttape_core.cli.output import never_fail_to_encode, printable
from agenttape_core.cli.summaries import SUMMARIES
from agenttape_core.errors import AgentTapeError, AgentTapeHalt, CassetteError, ConfigurationError

OK, FINDINGS, USAGE, CASSETTE = 0, 1, 2, 3
INTERRUPTED = 130

VERBS = tuple(SUMMARIES)
"""The verbs, in the order of the alphabet."""


class _Verbs(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - likewise
        if cmd_name not in VERBS:
            return None
        name = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name
        command: click.Command = getattr(import_module(f"agenttape_core.cli.verbs.{name}"), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the verb that is named. A mistyped one is refused with the verb that was most likely meant."""
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            alike = get_close_matches(args[0], VERBS, n=1)
            meant = f"; did you mean: agenttape {alike[0]}?" if alike else f"; verbs are {', '.join(VERBS)}"
            raise click.UsageError(f"there is no verb {args[0]!r}{meant}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - likewise
        """List the verbs, as click does, without importing any of them."""
        limit = formatter.width - 6 - max(map(len, VERBS))
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, click.Command(name, help=said).get_short_help_str(limit)) for name, said in SUMMARIES.items()]
            )

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb. If its reader has gone, as after `head`, it ends without an error."""
        try:
            code = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python writes the rest at its exit
            ctx.exit(OK)
        return code

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the names of verbs, without their help: importing all of them takes too long between two keys."""
        verbs = [CompletionItem(name) for name in VERBS if name.startswith(incomplete)]
        return verbs + click.Command.shell_complete(self, ctx, incomplete)


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="agenttape-core", prog_name="agenttape")
def agenttape() -> None:
    """Inspect, compare, check and change cassettes.

    A PATH is a cassette, a folder of them, or - for one on standard input. Every verb takes --json.

    \b
    Exits with 0 if all is well, 1 if something was found, 2 if the command is wrong,
    3 if a cassette cannot be read or written.
    """  # noqa: D301 - click wants the character itself


def run(args: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        args: The words of the command line; by default those of the process.

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

"""`agenttape lab`: run a recorded program again and again, with something varied."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module

import click

from agenttape_core.cli.labs import EXPERIMENTS


class _Experiments(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(EXPERIMENTS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - likewise
        if cmd_name not in EXPERIMENTS:
            return None
        command: click.Command = getattr(import_module(f"agenttape_core.cli.labs.{cmd_name}"), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the experiment that is named. A mistyped one is refused with the one that was most likely meant."""
        if args and args[0] not in EXPERIMENTS and not args[0].startswith("-"):
            alike = get_close_matches(args[0], EXPERIMENTS, n=1)
            meant = f"; did you mean: agenttape lab {alike[0]}?" if alike else f"; there are {', '.join(EXPERIMENTS)}"
            raise click.UsageError(f"there is no experiment {args[0]!r}{meant}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - likewise
        """List the experiments without importing any of them."""
        with formatter.section("Experiments"):
            formatter.write_dl(list(EXPERIMENTS.items()))


@click.group(
    cls=_Experiments, epilog="Example: agenttape lab faults tests/test_support.py", subcommand_metavar="NAME TARGET..."
)
def lab() -> None:
    """Run a recorded program again and again, each time with something varied, and show what came of it.

    TARGET is the id of a test, a file of tests, or a function: module:function or path/to/file.py:function, with
    --cassette NAME. Everything that is recorded is replayed, so most experiments call no model and no tool.
    """

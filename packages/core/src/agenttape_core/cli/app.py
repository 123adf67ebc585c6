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

from agenttape_core.cli import broken_by
from agenttape_core.cli.output import never_fail_to_encode, printable
from agenttape_core.errors import AgentTapeError, AgentTapeHalt, CassetteError, ConfigurationError

GROUPS: Mapping[str, Mapping[str, str]] = {
    "Start": {
        "init": "Set up git for cassettes, and CI, hooks and agents if you wish.",
        "doctor": "Find problems in this project.",
    },
    "Record": {
        "record": "Run a command, and record its calls of models and tools.",
        "replay": "Run a command again, answered from its cassettes.",
        "update": "Record only the calls that changed, and what depends on them.",
    },
    "Look": {
        "ls": "List cassettes with their age, calls, tokens, cost and size.",
        "show": "Show a run: tree, timeline, statistics, or a page for the browser.",
        "diff": "Compare two cassettes or folders, or a branch with its base.",
    },
    "Guard": {
        "check": "Check cassettes: readable, without secrets, and as your rules say.",
        "review": "Accept or reject new recordings, call by call.",
        "verify": "Replay in varied environments, and compare the results.",
    },
    "Experiment": {
        "lab": "Vary something in each replay: faults, orders, mutants and more.",
        "fleet": "Check or replay thousands of recordings, on one machine or many.",
    },
    "Exchange": {
        "import": "Read recordings of vcrpy, LangSmith or the older agenttape.",
        "export": "Write JSON, OpenTelemetry spans, or a tool oracle.",
        "serve": "Answer recorded calls of tools and models over local HTTP.",
        "mcp": "Give a coding agent the recordings, as an MCP server.",
        "cassette": "Convert, migrate, redact, recover, clean up or checksum files.",
    },
}
"""Each command is a function in a module of its name, imported when it is used (`import_` for `import`)."""
OF_CASSETTES = {
    "checksum": "Keep a checksum of each recorded call in a file for git.",
    "convert": "Convert a cassette to another format or compression.",
    "migrate": "Upgrade cassettes of older formats in place.",
    "prune": "Delete leftover files next to cassettes.",
    "recover": "Recover recordings that were cut off.",
    "redact": "Replace secrets in cassettes with pseudonyms.",
    "schema": "Print the JSON Schema of a record.",
}
OF_FLEETS = {
    "plan": "List the work on many recordings, as a file for any number of workers.",
    "work": "Do a shard of a plan, and store an outcome for each recording.",
    "merge": "Write one report on the results of all shards.",
    "index": "Write a table with a row for each recorded call, for queries and for notebooks.",
    "forget": "Erase old recordings of a store, or a value in all of them.",
    "query": "Answer a question about the calls in an index.",
}
EXPERIMENTS = {
    "bisect": "Find the first commit whose program doesn't replay its recording.",
    "change": "Replay recordings with two revisions, and show which ones the change affects.",
    "faults": "Make each recorded call fail once in each way, offline, and show the outcomes.",
    "flaky": "Find the part of a flaky program that makes it so: code, order, a tool, the model, or the judge.",
    "model": "Try another model on recordings, and compare it with the program's own.",
    "mutants": "Edit prompts, tools and schemas, one at a time, and list the edits that no test catches.",
    "orders": "Answer recorded calls in other orders, and show which of them change the outcome.",
    "shrink": "Find the smallest cassette with which a program still fails the same way.",
    "why": "Find which recorded answers have changed a call, each link tested by a replay.",
}
MEANT: Mapping[str, str] = {
    "compare": "diff",
    "grade": "check",
    "eval": "check",
    "ci": "check",
    **dict.fromkeys(("lint", "validate"), "check"),
    "scan": "check --only secrets",
    "report": "diff --base",
    "seal": "cassette checksum",
    **{word: f"check --{word}" for word in ("stale", "coverage", "score")},
    "inspect": "show",
    "trace": "show",
    "tree": "show",
    **{word: f"show --{word}" for word in ("timeline", "stats")},
    **dict.fromkeys(("view", "open"), "show --open"),
    "run": "replay",
    "heal": "update",
    "fix": "update",
    **{name: f"lab {name}" for name in ("faults", "flaky", "mutants", "orders", "shrink", "why")},
    "explore": "lab orders",
    "adequacy": "lab mutants",
    "triage": "lab flaky",
    "minimise": "lab shrink",
    "list": "ls",
    "pending": "review list",
    **{word: f"review {word}" for word in ("accept", "reject")},
    "clean": "cassette prune",
    **{name: f"cassette {name}" for name in OF_CASSETTES},
    "gc": "cassette prune",
}
"""Words that other tools have for our commands."""
_INSTEAD: Mapping[str, str] = {
    "test": "run your tests with: pytest --cassette-mode=once",
    "rm": "delete the file, then run: agenttape cassette prune",
}
"""Words for what other programs do."""


OK, FINDINGS, USAGE, CASSETTE = 0, 1, 2, 3
INTERRUPTED = 130

COMMANDS = (
    *(name for group in GROUPS.values() for name in group if name != "cassette"),
    *(f"cassette {name}" for name in OF_CASSETTES),
)
"""The commands by their names."""


class Commands(click.Group):
    """A group of commands, listed with their summaries below headings, and each imported when it's used.

    Each command is a function in `module`, or in a module of its name.
    """

    def __init__(
        self, *args: Any, groups: Mapping[str, Mapping[str, str]], module: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._groups, self._module = groups, module
        self.summaries = {name: summary for group in groups.values() for name, summary in group.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of the commands, in the order of the help."""
        return list(self.summaries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, and import it for that."""
        if cmd_name in self.commands or cmd_name not in self.summaries:
            return super().get_command(ctx, cmd_name)
        name = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name
        try:
            module = import_module(f"agenttape_core.cli.commands.{self._module or name}")
            command: click.Command = getattr(module, name)
        except ImportError as error:
            raise ConfigurationError(broken_by(error)) from error
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is named. Another word is refused with the command that was most likely meant."""
        if args and args[0] not in self.summaries and not args[0].startswith("-"):
            raise click.UsageError(f"there is no command {args[0]!r}{self._advice(args[0], ctx.command_path)}", ctx)
        return super().resolve_command(ctx, args)

    def _advice(self, word: str, command: str) -> str:
        if (instead := _INSTEAD.get(word)) is not None:
            return f"; {instead}"
        meant = MEANT.get(word)
        if meant is None and (alike := get_close_matches(word, self.summaries, n=1)):
            return f"; did you mean: {command} {alike[0]}?"
        return f"; did you mean: agenttape {meant}?" if meant else f"; commands are {', '.join(self.summaries)}"

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - likewise
        """List the commands in their groups, without importing any of them."""
        width = max(map(len, self.summaries))
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
        names = [CompletionItem(name) for name in self.summaries if name.startswith(incomplete)]
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


@agenttape.command(
    cls=Commands,
    groups={"Experiments": EXPERIMENTS},
    module="lab",
    epilog="Example: agenttape lab faults tests/test_support.py",
    subcommand_metavar="NAME TARGET...",
)
def lab() -> None:
    """Vary something in each replay: faults, orders, mutants and more.

    TARGET is the id of a test, a file of tests, a function: module:function or path/to/file.py:function, with
    --cassette NAME; or, except for mutants, a command after the options and --, as in -- python agent.py. Everything
    that is recorded is replayed, so most experiments call no model and no tool.
    """


@agenttape.command(
    cls=Commands,
    groups={"Commands": OF_FLEETS},
    module="fleet",
    epilog="Example: agenttape fleet plan runs --experiment check --checks rules.yaml > items.jsonl",
)
def fleet() -> None:
    """Check or replay thousands of recordings, on one machine or many.

    A plan lists the work, any number of workers do it, and their outcomes are one object each in a folder or a store.
    """


@agenttape.command(
    cls=Commands,
    groups={"Commands": OF_CASSETTES},
    module="cassette",
    epilog="Example: agenttape cassette convert cassettes/weather.yaml cassettes/weather.jsonl.gz",
)
def cassette() -> None:
    """Convert, migrate, redact, recover, clean up or checksum files."""


def run(args: Sequence[str] | None = None) -> int:
    """Run the command. Returns the exit code."""
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

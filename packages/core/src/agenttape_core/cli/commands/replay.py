"""`agenttape replay`: run a command or a function, and answer its Python processes from their cassettes."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from agenttape_core.cli.cassettes import found_in, found_one
from agenttape_core.cli.output import cli_command
from agenttape_core.cli.running import before_command, given, report, with_options
from agenttape_core.errors import CassetteError, CassetteNotFoundError, shown_path
from agenttape_core.lifecycle.restarting import source_of
from agenttape_core.matching import bare_step
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.settings import load_settings
from agenttape_core.storage import Cassette, cassette_path
from agenttape_core.tools.processes.command import Command
from agenttape_core.tools.processes.restart_api import SESSION, RestartSpec
from agenttape_core.tools.target import target_of


@before_command
@cli_command("agenttape replay --cassette weather -- python agent.py")
@click.argument("words", nargs=-1, metavar="[--] WORDS...")
@with_options
@click.option(
    "--run", "source", metavar="FILE|RUN_ID", help="Run the program of this recording again from its recorded input."
)
@click.option(
    "--app", metavar="NAME", help="Its program, as module:graph: a graph, chain, agent, workflow or function."
)
@click.option("--asgi", metavar="NAME", help="The ASGI application, as module:app, that gets the recorded request.")
@click.option("--thread", "thread_id", metavar="ID", help="The thread of a source that holds several.")
@click.option("--input", "given_input", metavar="JSON", help="An input in the place of the recorded one.")
@click.option("--header", "headers", multiple=True, metavar="HEADER", help="A header that is sent as well. Repeatable.")
@click.option(
    "--on-miss",
    type=click.Choice(["raise", "return"]),
    help="Whether a miss stops the command, or gives it an error result.",
)
@click.option("--on-unused", type=click.Choice(["fail", "warn", "ignore"]), help="The treatment of unused recordings.")
@click.option(
    "--on-repeat",
    type=click.Choice(["fail", "last", "cycle"]),
    help="The treatment of calls that were recorded fewer times.",
)
@click.option("--pace", metavar="PACE", help="The delay of answers: none, recorded, or a multiple of the recorded one.")
@click.option(
    "--on-unrecorded", type=click.Choice(["fail", "report"]), help="Fail if calls had no recording, or report them."
)
def replay(
    words: tuple[str, ...],
    cassette: str | None,
    *,
    as_json: bool,
    source: str | None,
    app: str | None,
    asgi: str | None,
    thread_id: str | None,
    given_input: str | None,
    headers: tuple[str, ...],
    **options: Any,
) -> int:
    """Run a command again, answered from its cassettes.

    WORDS are the recorded command, or module:function. It really runs, but its calls of models and tools are answered
    from the cassettes, and connections are refused.

    With --run, no command is needed: a graph, chain, agent or workflow runs again from the recorded input, an
    interrupted LangGraph thread with its recorded answers, a server with the recorded request; the answer is printed.

    Exits with 1 for a miss, an unused recording or a refused connection, with 3 if a cassette is missing or broken,
    else with the code of the command. With --json, the command writes to standard error only.
    """
    from agenttape_core.tools.processes.run import run

    chosen, again = given(options), None
    command: tuple[str, ...] | Command = words
    if source is not None and not words and cassette is None:
        again = restart_of(Again(source, app, asgi, thread_id, given_input, headers), is_live=bool(chosen.get("live")))
        cassette, command = again.cassette, again.command
    elif source is not None or app or asgi or not words:
        raise click.UsageError("expected the words of a command, or --run with --app or --asgi")
    ended = run(command, mode="replay", cassette=cassette, options=chosen, apart=as_json, is_check=again is not None)
    code = report(ended, as_json=as_json)
    if code == 1 and again is not None and again.runs > 1:
        click.echo(again.advice, err=True)
    return code


# A recorded run that `agenttape replay --run` begins again: which one, and the command that does it.

_RUN_ID = re.compile(r"[0-9a-f]{8,64}")


class Again(NamedTuple):
    """The recorded run that a command line selects."""

    source: str  # the recording: a path, a bare name, or the id of its run
    app: str | None  # the program, as `module:name`
    asgi: str | None  # the ASGI application of a server
    thread_id: str | None  # the thread to run again
    given: str | None  # an input to use instead of the recorded one, as JSON
    headers: tuple[str, ...]  # headers to send in addition to the recorded ones


class _Restart(NamedTuple):
    """A recorded run and the command that begins it again."""

    cassette: str  # the absolute path of its recording
    command: Command
    runs: int  # how many runs of the program the recording holds: each input of a batch has one

    @property
    def advice(self) -> str:
        """Advice on the runs that were not begun."""
        return (
            f"agenttape: this is a recording of {self.runs} runs, as of a batch, with the input of the first.\n"
            "  To begin another one: --input JSON --on-unused ignore. For all of them, replay what began them:\n"
            f"  agenttape replay --cassette {shown_path(Path(self.cassette))} -- python PROGRAM.py"
        )


def restart_of(asked: Again, *, is_live: bool = False) -> _Restart:
    """Return the command that begins a recorded run again, after checking all that can be checked before it runs.

    `is_live` means that options of the command line make calls live; settings may do so as well. Raises `UsageError` if
    not exactly one of `app` and `asgi` is given, or the input isn't JSON, `ConfigurationError` if the recording has no
    input, and `CassetteError` if the recording doesn't exist, or can't be read.
    """
    source, app, asgi, thread_id, given, headers = asked
    if (app is None) == (asgi is None):
        raise click.UsageError("--run needs the program, --app module:graph, or the server, --asgi module:app")
    if headers and asgi is None:
        raise click.UsageError("--header is for requests: it needs --asgi")
    found = found_one(source) if _is_named(source) else None
    path = found.path if found is not None else _of_run(source)
    if path is None:
        raise click.UsageError(f"{source}: expected a cassette in a local folder")
    cassette = found_one(str(path)).open()
    recorded = source_of(cassette, thread_id=thread_id, given=_json(given))
    if recorded.is_request != (asgi is not None):
        other = "an HTTP request: --asgi module:app" if recorded.is_request else "a program: --app module:graph"
        raise click.UsageError(f"{source} was begun by {other}")
    spec = RestartSpec(
        str(path.absolute()), app or "", asgi or "", thread_id, given or "", headers, is_live or _is_live()
    )
    target_of(spec.program)
    runs = 1 if recorded.is_request or thread_id is not None else _runs_in(cassette)
    return _Restart(spec.source, Command((spec.program,), spec.words(), SESSION), runs)


def _is_live() -> bool:
    settings = load_settings()
    return bool(settings.live or settings.candidate)


def _runs_in(cassette: Cassette) -> int:
    """Return how many runs of the program that began first have called something."""
    roots = dict.fromkeys(row.address.partition("/")[0] for row in cassette.entries if "/" in row.address)
    first = next(iter(roots), "")
    return sum(bare_step(root) == bare_step(first) for root in roots)


def _json(given: str | None) -> object:
    try:
        return json.loads(given) if given else None
    except ValueError as error:
        raise click.UsageError(f"--input isn't JSON: {error}") from None


def _is_named(source: str) -> bool:
    """Return True for the name of a file, as opposed to the id of a run."""
    if _RUN_ID.fullmatch(source) is None or Path(source).exists():
        return True
    path = cassette_path(source, load_settings().cassette_dir)
    return isinstance(path, Path) and path.is_file()


def _of_run(run_id: str) -> Path:
    """Return the recording of a run: the file that is named after it, or the one that names it in its header."""
    folder = Path(str(load_settings().cassette_dir))
    elsewhere = folder.is_dir() and not folder.absolute().is_relative_to(Path.cwd())
    found = found_in([".", str(folder)] if elsewhere else ["."])
    named = [one for one in found if one.path is not None and one.path.name.partition(".")[0] == run_id]
    for one in (*named, *found):
        with suppress(CassetteError):  # another file than the one that is looked for
            if one.path is not None and one.open().header.volatile.run_id == run_id:
                return one.path
    remedy = "run the command in the project, or name the file"
    raise CassetteNotFoundError(run_id, "no cassette below this folder is the recording of such a run", remedy=remedy)

"""`agenttape serve`: the tools or the models of recordings, over HTTP."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from agenttape_core.cli.app import FINDINGS, OK
from agenttape_core.cli.cassettes import STDIN, found_one, runs_in
from agenttape_core.cli.output import cli_command, print_json, print_text
from agenttape_core.errors import counted
from agenttape_core.tools.loopback import LoopbackServer
from agenttape_core.tools.oracle import OracleServer, ToolOracle, oracle_of, read_oracle

if TYPE_CHECKING:
    from agenttape_core.tools.model_server.answers import RecordedAnswers


@cli_command("agenttape serve cassettes/weather.yaml --as openai --port 8765")
@click.argument("paths", nargs=-1, required=True)
@click.option("--as", "provider", type=click.Choice(("openai", "anthropic")), help="Answer as this provider does.")
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="Listen on this port; by default on a free one.")
@click.option("--pace", default="none", metavar="PACE", help="With --as: none, recorded, or a factor of that.")
@click.option(
    "--on-repeat",
    default="fail",
    type=click.Choice(("fail", "last", "cycle")),
    help="With --as: the answer to a request made more often than recorded.",
)
def serve(paths: tuple[str, ...], *, provider: str | None, port: int, pace: str, on_repeat: str, as_json: bool) -> int:
    """Answer recorded calls of tools and models over local HTTP.

    With --as, PATHS are cassettes, and programs in any language get their models' answers in the provider's own wire
    format. Each client that sends another X-Agenttape-Run gets each recording once. A request without a recording gets
    409 with the nearest one, and the command exits with 1.

    Without it, PATHS is a cassette, or a file that export --format oracle wrote. POST /tool with {"tool_name": ...,
    "args": ...} answers with the recorded response or error, each recording once. A call without a recording gets 404
    and the nearest recording, and the command exits with 1. GET /unrecorded lists these calls and requests.
    """
    if STDIN in paths:
        raise click.UsageError("name a file: standard input is for Ctrl-C")
    if provider is not None:
        return _serve_models(paths, provider, port, _factor(pace), on_repeat, as_json=as_json)
    if len(paths) > 1 or (pace, on_repeat) != ("none", "fail"):
        raise click.UsageError("several paths, --pace and --on-repeat need --as openai or --as anthropic")
    server = OracleServer(_oracle(paths[0]), port)
    entries, where = len(server.oracle.entries), {"url": server.url}
    text = f"{counted(entries, 'answer')} of tools at {server.url}/tool"
    return _served(server, server.oracle, {**where, "entries": entries}, text, "call", as_json=as_json)


def _serve_models(paths: Sequence[str], provider: str, port: int, pace: float, on_repeat: str, *, as_json: bool) -> int:
    from agenttape_core.tools.model_server import serve_models

    shown = [found.shown for found in runs_in(paths)]
    options = {"provider": provider, "port": port, "pace": pace, "on_repeat": on_repeat}
    server = serve_models(*shown, **cast("dict[str, Any]", options))
    answers, where = len(server.answers.answers), {"url": server.base_url}
    text = f"{counted(answers, 'answer')} of models at {server.base_url}"
    return _served(server, server.answers, {**where, "answers": answers}, text, "request", as_json=as_json)


def _factor(pace: str) -> float:
    try:
        factor = {"none": 0.0, "recorded": 1.0}.get(pace)
        factor = float(pace) if factor is None else factor
    except ValueError:
        factor = -1.0
    if not 0 <= factor < float("inf"):
        raise click.UsageError(f"--pace: expected none, recorded or a factor such as 0.5, found {pace!r}")
    return factor


def _served(
    server: LoopbackServer,
    source: ToolOracle | RecordedAnswers,
    plain: dict[str, Any],
    text: str,
    what: str,
    *,
    as_json: bool,
) -> int:
    """Serve until Ctrl-C, print the requests that had no recording, and return the exit code."""
    print_json(plain) if as_json else print_text(f"{text}; Ctrl-C ends this")
    sys.stdout.flush()  # whoever has started this waits for the address
    with suppress(KeyboardInterrupt):  # the way to end it
        server.serve_forever()
    server.server_close()
    if as_json:
        unrecorded = [each.plain() for each in source.unrecorded]
        print_json({"answered": source.answered, "unknown": source.unknown, "unrecorded": unrecorded})
    else:
        for each in source.unrecorded:
            print_text(str(each))
        print_text(f"{counted(source.answered, what)} answered, {source.unknown} unknown")
    return FINDINGS if source.unrecorded else OK


def _oracle(path: str) -> ToolOracle:
    if path.endswith(".json") and Path(path).is_file():
        return ToolOracle(read_oracle(path))
    return oracle_of(found_one(path).open())

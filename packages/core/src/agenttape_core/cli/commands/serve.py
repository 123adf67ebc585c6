"""`agenttape serve`: the tools of a recording, over HTTP."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import click

from agenttape_core.cli.app import FINDINGS, OK
from agenttape_core.cli.cassettes import STDIN, found_one
from agenttape_core.cli.output import cli_command, print_json, print_text
from agenttape_core.errors import counted
from agenttape_core.tools.oracle import OracleServer, ToolOracle, oracle_of, read_oracle


@cli_command("agenttape serve cassettes/weather.yaml --port 8765")
@click.argument("path")
@click.option(
    "--port", default=0, type=click.IntRange(0, 65535), help="Listen on this port; by default on one that is free."
)
def serve(path: str, *, port: int, as_json: bool) -> int:
    """Answer recorded calls of tools over HTTP on this machine.

    PATH is a cassette, or a file that export --format oracle wrote. POST /tool with {"tool_name": ..., "args": ...}
    answers with the recorded response or error, each recording once. A call without a recording gets 404 and the
    nearest recording, and the command exits with 1. GET /unrecorded lists these calls.
    """
    server = OracleServer(_oracle(path), port)
    if as_json:
        print_json({"url": server.url, "entries": len(server.oracle.entries)})
    else:
        print_text(f"{counted(len(server.oracle.entries), 'answer')} of tools at {server.url}/tool; Ctrl-C ends this")
    sys.stdout.flush()  # whoever has started this waits for the address
    with suppress(KeyboardInterrupt):  # the way to end it
        server.serve_forever()
    server.server_close()
    oracle = server.oracle
    for unknown in oracle.unrecorded if not as_json else ():
        print_text(str(unknown))
    if as_json:
        print_json(
            {
                "answered": oracle.answered,
                "unknown": oracle.unknown,
                "unrecorded": [unknown.plain() for unknown in oracle.unrecorded],
            }
        )
    else:
        print_text(f"{counted(oracle.answered, 'call')} answered, {oracle.unknown} unknown")
    return FINDINGS if oracle.unrecorded else OK


def _oracle(path: str) -> ToolOracle:
    if path.endswith(".json") and Path(path).is_file():
        return ToolOracle(read_oracle(path))
    if path == STDIN:
        raise click.UsageError("name a file: standard input is for Ctrl-C")
    return oracle_of(found_one(path).open())

"""`agenttape accept`: decide about recordings that wait for review, without a terminal."""

from __future__ import annotations

import click

from agenttape_core.cli.app import OK
from agenttape_core.cli.output import verb
from agenttape_core.cli.reviewing import chosen, report
from agenttape_core.tools import review


@verb("agenttape accept --all")
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@click.option("--all", "everything", is_flag=True, help="Accept all that waits below this folder.")
def accept(keys: tuple[str, ...], *, everything: bool, as_json: bool) -> int:
    """Accept calls of a new recording.

    KEY is a key of `agenttape pending`; or a cassette or a folder, for all that waits there. What was asked because of
    the answer of a call, or told by it, is taken with it. All other records stay as they are.
    """
    report([review.accept(pending, named) for pending, named in chosen(keys, everything=everything)], as_json=as_json)
    return OK

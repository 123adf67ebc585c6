"""`agenttape reject`: decide about recordings that wait for review, without a terminal."""

from __future__ import annotations

import click

from agenttape_core.cli.app import OK
from agenttape_core.cli.output import verb
from agenttape_core.cli.reviewing import chosen, report
from agenttape_core.tools import review


@verb("agenttape reject tests/cassettes/test_support/test_books.yaml")
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@click.option("--all", "everything", is_flag=True, help="Reject all that waits below this folder.")
def reject(keys: tuple[str, ...], *, everything: bool, as_json: bool) -> int:
    """Drop calls of a new recording, and keep the recorded ones.

    KEY is as for `agenttape accept`. What was asked because of the answer of a call, or told by it, goes with it. The
    cassette itself stays as it is.
    """
    report([review.reject(pending, named) for pending, named in chosen(keys, everything=everything)], as_json=as_json)
    return OK

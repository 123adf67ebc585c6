"""`agenttape pending`: the recordings that wait for review."""

from __future__ import annotations

import click

from agenttape_core.cli.app import OK
from agenttape_core.cli.output import print_json, print_text, progress, verb
from agenttape_core.cli.reviewing import headline, line_of
from agenttape_core.errors import counted
from agenttape_core.tools.review import pending_in, pending_of


@verb("agenttape pending tests")
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path(readable=False))
def pending(paths: tuple[str, ...], *, as_json: bool) -> int:
    """List the recordings that wait for review.

    Shows the calls that have changed in them.

    Each call has a key, which `agenttape accept` and `agenttape reject` take.
    """
    waiting = [pending_of(path) for path in progress(pending_in(paths), "comparing")]
    if as_json:
        print_json({"pending": [one.to_dict() for one in waiting]})
        return OK
    for one in waiting:
        print_text(headline(one))
        for call in one.calls:
            print_text(f"  {line_of(call)}")
    calls = sum(len(one.calls) for one in waiting)
    if waiting:
        print_text(f"{counted(len(waiting), 'recording')} pending, {counted(calls, 'changed call')}")
        print_text("look at them one by one:  agenttape review\ntake all of them:  agenttape accept --all")
    else:
        print_text("nothing waits for review")
    return OK

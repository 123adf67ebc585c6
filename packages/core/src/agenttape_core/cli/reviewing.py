"""The parts of `agenttape review`: how they are named, and what became of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path

import click

from agenttape_core.cli.output import print_json, print_text
from agenttape_core.errors import counted
from agenttape_core.tools.review import Decided, Pending, pending_in, pending_of

SAID = {"path": "another path", "words": "other words", "tokens": "other token counts only"}
"""The sorts of changes, in words."""


def headline(pending: Pending) -> str:
    """Return the first line about a recording that waits."""
    worst = next((SAID[sort] for sort in SAID if any(call.sort == sort for call in pending.calls)), "nothing changed")
    older = "; the cassette has been recorded anew since" if pending.is_older else ""
    return f"{pending.shown}: {worst}, {counted(len(pending.calls), 'call')}{older}"


def chosen(keys: Sequence[str], *, everything: bool) -> list[tuple[Pending, list[str]]]:
    """Return what waits with the keys that are meant of it.

    Args:
        keys: Keys of calls; cassettes and folders, for all in them; addresses, where only one call that waits has it.
        everything: Whether all that waits below the current folder is meant.

    Raises:
        UsageError: If a key means nothing, or an address several calls.
        CassetteError: If a file cannot be read.
    """
    if everything == bool(keys):
        raise click.UsageError(
            "name the keys of calls, cassettes or folders, or take --all; list them with: agenttape review list"
        )
    if everything:
        return [(one, [call.key for call in one.calls]) for one in map(pending_of, pending_in())]
    found: dict[Path, tuple[Pending, list[str]]] = {}
    for key in keys:
        for pending, named in _meant(key):
            _, before = found.setdefault(pending.path.resolve(), (pending, []))
            before += [each for each in named if each not in before]
    return list(found.values())


def _meant(key: str) -> Iterable[tuple[Pending, list[str]]]:
    path, colons, address = key.partition("::")
    if not colons and Path(path).exists():
        waiting = pending_in([path])
        if not waiting:
            raise click.UsageError(f"nothing waits for review in {path}; list what does: agenttape review list")
        return [(one, [call.key for call in one.calls]) for one in map(pending_of, waiting)]
    everywhere = [pending_of(each) for each in (pending_in([path]) if colons and Path(path).exists() else pending_in())]
    wanted = address if colons else key
    fits = [
        (one, call.key)
        for one in everywhere
        for call in one.calls
        if call.key.partition("::")[2] == wanted and (not colons or one.path.resolve() == Path(path).resolve())
    ]
    if len(fits) == 1:
        ((pending, found),) = fits
        return [(pending, [found])]
    if fits:
        several = "\n  ".join(each for _, each in fits)
        raise click.UsageError(f"{key!r} means {len(fits)} calls; name one of them:\n  {several}")
    known = [call.key for one in everywhere for call in one.calls]
    alike = get_close_matches(key, known, n=1, cutoff=0)
    meant = f"; did you mean: {alike[0]}" if alike else ""
    raise click.UsageError(f"no call waits for review under the key {key!r}{meant}\n  list them: agenttape review list")


def report(decided: Sequence[Decided], *, as_json: bool) -> None:
    """Print what became of recordings that waited."""
    if as_json:
        print_json({"decided": [one.to_dict() for one in decided], "left": sum(one.left for one in decided)})
        return
    for one in decided:
        print_text(_said(one))
        for key in one.along:
            print_text(f"  with it, since they hang together: {key}")
        for key in one.needs:
            print_text(f"  to replay with the program that recorded it, accept too: {key}")
    if not decided:
        print_text("nothing waits for review")


def _said(one: Decided) -> str:
    counts = [
        f"{counted(len(keys), 'call')} {word}"
        for keys, word in ((one.accepted, "accepted"), (one.rejected, "rejected"))
        if keys
    ]
    left = [f"{one.left} still pending"] if one.left else []
    return f"{one.path}: {', '.join([*counts, *left]) or 'nothing had changed'}"

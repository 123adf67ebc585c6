"""`agenttape review`: walk through the recordings that wait for review, list them, accept or reject their calls."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from agenttape_core.cli.app import CASSETTE, OK, USAGE
from agenttape_core.cli.output import cli_command, print_json, print_text, printable, progress
from agenttape_core.errors import CassetteError, counted, shown_path
from agenttape_core.lifecycle.project import project_settings
from agenttape_core.schema import MODEL_KINDS, Interaction
from agenttape_core.tools.reading.messages import Answer, joined
from agenttape_core.tools.reading.prices import Prices, load_prices
from agenttape_core.tools.review import Decided, Pending, PendingCall, accept, pending_in, pending_of, reject
from agenttape_core.tools.review.deciding import decide
from agenttape_core.tools.review.pending import SORTS

_SORTS = {"path": "another path", "words": "other words", "tokens": "other token counts only"}
"""The sorts of changes, in words."""
_KEYS = "[a]ccept  [r]eject  [s]kip  [A]ll of this cassette  [R]eject all of it  [q]uit: "
_WITHOUT_A_TERMINAL = (
    "agenttape: review needs a terminal\n"
    "  without one:  agenttape review list, agenttape review accept KEY, agenttape review reject KEY"
)
_BEGUN = re.compile(rb"\x1b(?:[\[O][^@-~]*)?")
"""A sequence that isn't at its end, by ECMA-48; the key Escape sends only the first character."""
_AT_ONCE_S = 0.1  # the longest time between two characters of a sequence, in seconds
_DECIDING = {"accept": accept, "reject": reject}
_ACTIONS = ("list", *_DECIDING)
_PLACES = 12
_TRAJECTORY = 20
_LONGEST = 400


def _completed(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the action, the keys of waiting calls after `accept` and `reject`, and paths."""
    before = ctx.params.get("words") or ()
    if not before:
        found = [CompletionItem(action) for action in _ACTIONS if action.startswith(incomplete)]
    elif before[0] in _DECIDING:
        keys = [call.key for each in _read(pending_in(), []) for call in each.calls]
        found = [CompletionItem(key) for key in keys if key.startswith(incomplete) and key not in before]
    else:
        found = []
    return [*found, CompletionItem(incomplete, type="file")]


@cli_command("agenttape review accept --all")
@click.argument(
    "words",
    nargs=-1,
    metavar="[list|accept|reject] [PATH|KEY]...",
    type=click.Path(readable=False),
    shell_complete=_completed,
)
@click.option("--all", "everything", is_flag=True, help="Accept or reject all that waits below this folder.")
def review(words: tuple[str, ...], *, everything: bool, as_json: bool) -> int:
    """Accept or reject new recordings, call by call.

    \b
    review [PATH]...        walk through them call by call, on a terminal
    review list [PATH]...   list the calls that changed, each with its key
    review accept KEY...    accept calls of a new recording
    review reject KEY...    drop calls of a new recording, and keep the recorded ones

    KEY is from the list; a cassette or a folder means all that waits there. Calls that depend on a call, or that it
    depends on, are accepted or rejected with it. All other records stay unchanged. A file that can't be read is named,
    and stays; then the exit code is 3.

    Keys of the walk: a accepts a call, r rejects it, s leaves it for later, A and R decide about the rest of its
    cassette, q ends the walk. Files are replaced at the end; after Ctrl-C, all are unchanged.
    """  # noqa: D301 - click wants the character itself
    action = words[0] if words and words[0] in _ACTIONS else ""
    rest = words[1:] if action else words
    broken: list[CassetteError] = []
    if decide_one := _DECIDING.get(action):
        chosen = _chosen(rest, broken, everything=everything)
        _report([decide_one(pending, keys) for pending, keys in chosen], as_json=as_json)
    elif everything:
        raise click.UsageError("--all needs accept or reject")
    elif action or as_json:
        _list(rest, broken, as_json=as_json)
    elif not _walk(rest, broken):
        return USAGE
    for error in broken:
        click.echo(printable(str(error)), err=True)
    return CASSETTE if broken else OK


def _read(cassettes: Iterable[Path], broken: list[CassetteError]) -> Iterator[Pending]:
    """Yield what waits beside cassettes; the errors of those that can't be read are added to `broken`."""
    for each in cassettes:
        try:
            yield pending_of(each)
        except CassetteError as error:
            broken.append(error)


def _list(paths: Sequence[str], broken: list[CassetteError], *, as_json: bool) -> None:
    waiting = list(_read(progress(pending_in(paths), "comparing"), broken))
    if as_json:
        unread = [{"path": shown_path(error.path), "problem": error.problem} for error in broken]
        print_json({"pending": [*(one.to_dict() for one in waiting), *unread]})
        return
    for one in waiting:
        print_text(_headline(one))
        for call in one.calls:
            print_text(f"  {call.state:<8} {_SORTS[call.sort]:<24} {call.key}")
    calls = sum(len(one.calls) for one in waiting)
    if waiting:
        print_text(f"{counted(len(waiting), 'recording')} to review, {counted(calls, 'changed call')}")
        print_text("look at them one by one:  agenttape review\naccept all of them:  agenttape review accept --all")
    elif not broken:
        print_text("nothing waits for review")


def _walk(paths: Sequence[str], broken: list[CassetteError]) -> bool:
    """Walk through what waits, and return False if that needs a terminal and there's none."""
    waiting = sorted(_read(pending_in(paths), broken), key=_rank)
    if waiting and not sys.stdin.isatty():
        click.echo(_WITHOUT_A_TERMINAL, err=True)
        return False
    prices = load_prices(project_settings().prices)
    decisions = []
    if waiting:
        with _keys() as read:
            decisions = walked(waiting, prices, read)
    _report([decide(pending, accepted, rejected) for pending, accepted, rejected in decisions], as_json=False)
    return True


def walked(
    waiting: Sequence[Pending], prices: Prices, read: Callable[[], str]
) -> list[tuple[Pending, list[str], list[str]]]:
    """Show each waiting call and read the decision on it; no file is written.

    `read` returns the next key that is pressed. Returns what waits, with the keys of accepted and of rejected calls.
    """
    decisions: list[tuple[Pending, list[str], list[str]]] = []
    for pending in waiting:
        walk = _Walk(pending)
        decisions.append((pending, walk.accepted, walk.rejected))
        print_text("\n".join(_introduction(pending, prices)), "bold")
        for call, place in walk.calls():
            print_text("\n".join(_shown(call, place, walk)))
            if not walk.decide(call, _asked(read)):
                return decisions
    return decisions


class _Walk:
    """The walk through one recording that waits."""

    def __init__(self, pending: Pending) -> None:
        self._pending = pending
        self._rest = ""
        self.accepted: list[str] = []
        self.rejected: list[str] = []

    def calls(self) -> Iterator[tuple[PendingCall, str]]:
        """Yield each undecided call, with its place among all."""
        calls = sorted(self._pending.calls, key=lambda call: SORTS.index(call.sort))
        for place, call in enumerate(calls, 1):
            if not self._rest and call.key not in {*self.accepted, *self.rejected}:
                yield call, f"{place} of {len(calls)}"

    def with_it(self, call: PendingCall) -> list[str]:
        """Return the keys of the calls that hang together with one."""
        return [key for key in self._pending.dependents[call.key] if key != call.key]

    def decide(self, call: PendingCall, key: str) -> bool:
        """Note a decision; return whether the walk continues."""
        if key in "AR":
            self._rest = key
            decided = {*self.accepted, *self.rejected}
            keys = [each.key for each in self._pending.calls if each.key not in decided]
        else:
            keys = list(self._pending.dependents[call.key])
        if key in "aA":
            self.accepted += keys
        elif key in "rR":
            self.rejected += keys
        return key != "q"


def _rank(pending: Pending) -> tuple[int, str]:
    return min((SORTS.index(call.sort) for call in pending.calls), default=len(SORTS)), pending.shown


def _introduction(pending: Pending, prices: Prices) -> Iterator[str]:
    change = pending.change(prices)
    yield ""
    yield _headline(pending)
    yield from (f"  {line}" for line in change.calls[:_TRAJECTORY])
    if len(change.calls) > _TRAJECTORY:
        yield f"  … and {counted(len(change.calls) - _TRAJECTORY, 'line')} more"
    if change.before.tokens != change.now.tokens:
        money = f", ${change.before.dollars:.4f} → ${change.now.dollars:.4f}" if change.now.dollars else ""
        yield f"  {change.before.tokens:,} → {change.now.tokens:,} tokens{money}"


def _shown(call: PendingCall, place: str, walk: _Walk) -> Iterator[str]:
    yield ""
    yield f"{place}  {call.state}: {_SORTS[call.sort]}"
    yield f"  {call.compared.kind} {call.compared.name} at {call.address}"
    if call.before is None or call.now is None:
        found = call.now or call.before
        assert found is not None
        sign = "+" if call.before is None else "-"
        yield f"  {sign} {_cut(str(found.request.get('arguments', found.request)))}"
        yield f"  {sign} {_cut(_outcome(found))}"
    for found_at in call.differences[:_PLACES]:
        yield f"    {found_at.path}"
        yield f"      - {found_at.recorded}"
        yield f"      + {found_at.asked}"
    if len(call.differences) > _PLACES:
        yield f"    … and {counted(len(call.differences) - _PLACES, 'place')} more"
    for key in walk.with_it(call):
        yield f"  hangs together with {key.partition('::')[2]}"


def _outcome(item: Interaction) -> str:
    if item.outcome.error is not None:
        return f"raised {item.outcome.error.type}: {item.outcome.error.message}"
    return (Answer(item.outcome).text if item.kind in MODEL_KINDS else "") or str(joined(item.outcome))


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


def _asked(read: Callable[[], str]) -> str:
    click.echo(_KEYS, nl=False)
    while (key := read()) not in set("arsARq"):
        pass
    click.echo(key)
    return key


@contextmanager
def _keys() -> Iterator[Callable[[], str]]:
    """Yield a function that returns the next key pressed, including one pressed before it was called.

    Raises `Abort` from the yielded function: at Ctrl-C, and if the terminal is gone.
    """
    if sys.platform == "win32":
        yield lambda: _key(click.getchar())
        return
    import termios

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    each_key = termios.tcgetattr(terminal)
    each_key[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG)
    termios.tcsetattr(terminal, termios.TCSANOW, each_key)
    try:
        yield lambda: _key(_pressed(terminal))
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _pressed(terminal: int) -> str:
    """Read a key; one that a terminal sends as a sequence of characters is none of ours, whatever letters are in it.

    An arrow's sequence ends with `A`, which would accept all, and F3's with `R`.
    """
    import select

    pressed = os.read(terminal, 1)
    while _BEGUN.fullmatch(pressed) and select.select([terminal], [], [], _AT_ONCE_S)[0]:
        piece = os.read(terminal, 1)
        if not piece:  # the terminal is gone
            break
        pressed += piece
    return pressed.decode(errors="replace")


def _key(pressed: str) -> str:
    if pressed in {"", "\x03", "\x04"}:  # Ctrl-C, Ctrl-D
        raise click.Abort
    return pressed


def _headline(pending: Pending) -> str:
    """Return the first line about a recording that waits."""
    worst = next(
        (_SORTS[sort] for sort in _SORTS if any(call.sort == sort for call in pending.calls)), "nothing changed"
    )
    older = "; the cassette was recorded again since" if pending.is_older else ""
    return f"{pending.shown}: {worst}, {counted(len(pending.calls), 'call')}{older}"


def _chosen(keys: Sequence[str], broken: list[CassetteError], *, everything: bool) -> list[tuple[Pending, list[str]]]:
    """Return what waits with the keys that are meant of it. Files that can't be read are added to `broken`.

    Raises `UsageError` if a key is unknown, or an address names several calls.
    """
    if everything == bool(keys):
        raise click.UsageError(
            "name the keys of calls, cassettes or folders, or take --all; list them with: agenttape review list"
        )
    if everything:
        return [(one, [call.key for call in one.calls]) for one in _read(pending_in(), broken)]
    found: dict[Path, tuple[Pending, list[str]]] = {}
    for key in keys:
        for pending, named in _meant(key, broken):
            _, before = found.setdefault(pending.path.resolve(), (pending, []))
            before += [each for each in named if each not in before]
    return list(found.values())


def _meant(key: str, broken: list[CassetteError]) -> Iterable[tuple[Pending, list[str]]]:
    path, colons, address = key.partition("::")
    if not colons and Path(path).exists():
        waiting = pending_in([path])
        if not waiting:
            raise click.UsageError(f"nothing waits for review in {path}; list what does: agenttape review list")
        return [(one, [call.key for call in one.calls]) for one in _read(waiting, broken)]
    unread: list[CassetteError] = []
    everywhere = list(_read(pending_in([path]) if colons and Path(path).exists() else pending_in(), unread))
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
    if unread:  # it may be a call of this file
        raise unread[0]
    known = [call.key for one in everywhere for call in one.calls]
    alike = get_close_matches(key, known, n=1, cutoff=0)
    meant = f"; did you mean: {alike[0]}" if alike else ""
    raise click.UsageError(f"no call waits for review under the key {key!r}{meant}\n  list them: agenttape review list")


def _report(decided: Sequence[Decided], *, as_json: bool) -> None:
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

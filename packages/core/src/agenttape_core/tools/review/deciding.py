"""Accepting and rejecting what waits for review: in whole cones, each file replaced at once or not at all."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from agenttape_core.errors import CassetteError
from agenttape_core.storage import pending_path, real_location, write_cassette
from agenttape_core.storage.lock import WriterLock
from agenttape_core.storage.pending import golden_values_of, remove_pending
from agenttape_core.tools.review.calls import PendingCall
from agenttape_core.tools.review.mixing import mixed
from agenttape_core.tools.review.pending import Pending, digest_of


@dataclass(frozen=True, slots=True)
class Decided:
    """The fate of a recording that waited for review.

    Args:
        path: The cassette as messages name it.
        accepted: The keys of the calls that were accepted.
        rejected: The keys of those that were rejected.
        along: The keys of those among them that nobody named: they hang together with the others.
        needs: The keys of calls that still wait, and that have to be accepted so that the program replays that
            recorded this.
        left: The number of calls that still wait.
    """

    path: str
    accepted: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()
    along: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    left: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)


def accept(pending: Pending, keys: Collection[str] | None = None) -> Decided:
    """Let calls of a new recording take the place of the recorded ones, with all that hangs together with them.

    Args:
        pending: What waits.
        keys: The keys of the calls; `None` for all.

    Raises:
        CassetteError: A file has changed since it was read, is being recorded, or cannot be written; nothing was done.
    """
    return decide(pending, accepted=[call.key for call in pending.calls] if keys is None else keys)


def reject(pending: Pending, keys: Collection[str] | None = None) -> Decided:
    """Keep the recorded calls, and drop those that wait, with all that hangs together with them. As `accept`."""
    return decide(pending, rejected=[call.key for call in pending.calls] if keys is None else keys)


def decide(pending: Pending, accepted: Collection[str] = (), rejected: Collection[str] = ()) -> Decided:
    """Accept calls, and reject others. What is in one cone is rejected if any of it is.

    Args:
        pending: What waits.
        accepted: The keys of calls that are accepted.
        rejected: The keys of calls that are rejected.

    Raises:
        CassetteError: As for `accept`.
    """
    dropped = pending.cone([key for key in rejected if key in pending.cones])
    taken = [call for call in pending.cone([key for key in accepted if key in pending.cones]) if call not in dropped]
    left = [call for call in pending.calls if call not in taken and call not in dropped]
    if taken or dropped or pending.is_same:
        with _locked(pending):
            _write(pending, taken, left)
    return Decided(
        path=pending.shown,
        accepted=_keys(taken),
        rejected=_keys(dropped),
        along=tuple(key for key in _keys([*taken, *dropped]) if key not in {*accepted, *rejected}),
        needs=_keys(call for call in pending.needs(taken) if call in left) if taken else (),
        left=len(left),
    )


def _keys(calls: Sequence[PendingCall] | Iterator[PendingCall]) -> tuple[str, ...]:
    return tuple(call.key for call in calls)


def _write(pending: Pending, taken: Sequence[PendingCall], left: Sequence[PendingCall]) -> None:
    """Replace the cassette first: a crash after that leaves accepted calls waiting that are there already."""
    path, now = pending.path, pending.now
    target = real_location(path)
    is_whole = len(taken) == len(pending.calls)
    if is_whole:
        write_cassette(target, now.header, list(now.records()))
        for golden, place in list(golden_values_of(path)):
            golden.replace(place)
    elif taken:
        write_cassette(target, *_mixed(pending, taken))
    if not left:
        remove_pending(path)
    elif len(taken) + len(left) < len(pending.calls):  # some were rejected: they are no longer what waits
        write_cassette(real_location(pending_path(path)), *_mixed(pending, [*taken, *left]))


def _mixed(pending: Pending, taken: Sequence[PendingCall]) -> Any:
    return mixed(pending.compared, pending.before, pending.now, [call.compared for call in taken])


@contextmanager
def _locked(pending: Pending) -> Iterator[None]:
    """Keep both files to ourselves, if they are still what was read."""
    with ExitStack() as locks:
        for path in (pending.path, pending_path(pending.path)):
            locks.callback(WriterLock(real_location(path), f"{os.getpid()} review").release)
        if digest_of(pending.path) != pending.digest:
            raise CassetteError(
                pending.shown,
                "it, or what waits beside it, has changed since it was read; nothing was done",
                remedy="look at it again:  agenttape review",
            )
        yield

"""The recordings that wait for review: found, read, and compared with what they would replace."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agenttape_core.errors import CassetteNotFoundError, ConfigurationError, shown_path
from agenttape_core.locks import cached_property
from agenttape_core.matching import Ignored
from agenttape_core.storage import Cassette, is_pending, open_cassette, pending_path, pieces_of, waits_for
from agenttape_core.storage.asset_files import SUFFIX
from agenttape_core.tools.compare.comparison import Compared, Comparison
from agenttape_core.tools.reading.prices import NoPrices, Prices
from agenttape_core.tools.report import Change, change_of
from agenttape_core.tools.review.calls import SORTS, PendingCall, calls_of
from agenttape_core.tools.review.dependents import cones_of, may_come_from


@dataclass(frozen=True)
class Pending:
    """A recording that waits for review, beside the cassette whose place it would take.

    Args:
        path: The cassette.
        before: The cassette, opened; an empty one if it is gone.
        now: The recording.
        compared: All that was compared of the two, steps too.
        calls: The calls that have changed, in the order of the run.
        digest: The content of both files, as `digest_of` tells it.
    """

    path: Path
    before: Cassette
    now: Cassette
    compared: Sequence[Compared] = field(repr=False)
    calls: Sequence[PendingCall] = field(repr=False)
    digest: str = ""

    @property
    def shown(self) -> str:
        """The cassette as messages name it."""
        return shown_path(self.path)

    @property
    def is_older(self) -> bool:
        """True if the cassette was recorded after this: what waits is no longer a change of what is there."""
        before, now = (cassette.preface.volatile.created for cassette in (self.before, self.now))
        return bool(before) and before > now

    @property
    def is_same(self) -> bool:
        """True if nothing has changed but what differs between any two recordings."""
        return not self.calls

    @cached_property
    def cones(self) -> dict[str, tuple[str, ...]]:
        """The keys of all calls that can only be taken together with one, by its key; its own among them."""
        found = cones_of(self.calls, self.before.header.volatile.timings.get, self.now.header.volatile.timings.get)
        cones = [tuple(self.calls[place].key for place in cone) for cone in found]
        return {key: cone for cone in cones for key in cone}

    def cone(self, keys: Sequence[str]) -> list[PendingCall]:
        """Return the calls of some keys, with all that can only be taken together with them."""
        together = {each for key in keys for each in self.cones[key]}
        return [call for call in self.calls if call.key in together]

    def needs(self, taken: Sequence[PendingCall]) -> list[PendingCall]:
        """Return the calls that would have to be taken as well so that the program that recorded this replays.

        Args:
            taken: The calls that are taken, in whole cones.
        """
        left = [call for call in self.calls if call not in taken]
        timings = self.before.header.volatile.timings.get, self.now.header.volatile.timings.get
        asking = [call for call in taken if call.asks_anew]
        return [
            call
            for call in left
            if call.asks_anew or any(call.sort == "path" and may_come_from(one, call, timings) for one in asking)
        ]

    def change(self, prices: Prices) -> Change:
        """Return the change as a whole: the path of the run, its tokens and its cost.

        Args:
            prices: The prices of tokens.
        """
        found = change_of(self.shown, lambda: self.before, lambda: self.now, prices)
        assert found is not None
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        change = self.change(NoPrices())
        return {
            "path": self.shown,
            "pending": shown_path(pending_path(self.path)),
            "change": next((sort for sort in SORTS if any(call.sort == sort for call in self.calls)), "same"),
            "older": self.is_older,
            "trajectory": list(change.calls),
            "tokens": {"before": change.before.tokens, "now": change.now.tokens},
            "calls": [
                {**call.to_dict(), "with": [key for key in self.cones[call.key] if key != call.key]}
                for call in self.calls
            ],
        }


def pending_of(path: Path) -> Pending:
    """Read what waits for review beside a cassette.

    Args:
        path: The cassette, or the file that waits.

    Raises:
        CassetteError: If nothing waits, or a file cannot be read.
    """
    path = waits_for(path) if is_pending(path.name) else path
    waiting = pending_path(path)
    if not waiting.is_file():
        remedy = "list what waits:  agenttape review list"
        raise CassetteNotFoundError(shown_path(waiting), "nothing waits for review here", remedy=remedy)
    digest = digest_of(path)  # before they are opened: a later change is noticed
    now = open_cassette(waiting)
    before = open_cassette(path) if path.is_file() else _empty(path, now)
    compared = list(Comparison(before, now, Ignored()))
    return Pending(path, before, now, compared, calls_of(shown_path(path), compared, before, now), digest)


def digest_of(path: Path) -> str:
    """Return a text that changes with the content of a cassette, or of what waits for review beside it.

    Args:
        path: The cassette.
    """
    digest = hashlib.sha256()
    for file in (path, pending_path(path)):
        content = file.read_bytes() if file.is_file() else b""
        digest.update(b"%d:" % len(content))
        digest.update(content)
    return digest.hexdigest()


def pending_in(paths: Sequence[str | Path] = (".",)) -> list[Path]:
    """Return the cassettes beside which a recording waits for review, sorted.

    Args:
        paths: Cassettes, files that wait, and folders to be looked through with all below them but hidden ones.

    Raises:
        ConfigurationError: If there is nothing at a path.
    """
    found: dict[Path, None] = {}
    for path in map(Path, paths or (".",)):
        if path.is_dir():
            found |= dict.fromkeys(map(waits_for, _waiting_in(path)))
        elif is_pending(path.name) or pending_path(path).is_file():
            found[waits_for(path) if is_pending(path.name) else path] = None
        elif not path.exists():
            raise ConfigurationError(f"{path}: there is no such file or folder")
    return sorted(found)


def _waiting_in(folder: Path) -> Iterator[Path]:
    for where, below, names in os.walk(folder):  # which follows no links
        below[:] = [name for name in below if not name.startswith(".") and not name.endswith(SUFFIX)]
        yield from (Path(where, name) for name in names if is_pending(name) and not name.startswith("."))


def _empty(path: Path, now: Cassette) -> Cassette:
    """Return a cassette without calls, for one that is gone."""
    header = now.preface.model_copy(update={"volatile": type(now.preface.volatile)()})
    return Cassette(path, b"".join(pieces_of(path, header, [])))

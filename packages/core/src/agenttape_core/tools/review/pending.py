"""The recordings that wait for review: found, read, and compared with the ones they would replace."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from agenttape_core.errors import CassetteNotFoundError, ConfigurationError, shown_path
from agenttape_core.locks import cached_property
from agenttape_core.matching import Difference, Ignored
from agenttape_core.schema import MODEL_KINDS, IndexRow, Interaction, Outcome, Timing
from agenttape_core.schema.plain import leaves
from agenttape_core.storage import Cassette, files_below, is_pending, open_cassette, pending_path, pieces_of, waits_for
from agenttape_core.tools.compare import Compared, Comparison
from agenttape_core.tools.reading.messages import Answer, joined
from agenttape_core.tools.reading.prices import NoPrices, Prices
from agenttape_core.tools.report import Change, change_of
from agenttape_core.tools.update import may_depend

# -- A call that waits for review: its differences from the recording, and its key.


Sort = Literal["path", "words", "tokens"]
"""The sort of a change: `path` if the run makes other calls, `words` if texts differ, `tokens` if only a provider's
counts or facts about its answer differ."""

SORTS: tuple[Sort, ...] = ("path", "words", "tokens")

_TOLD = re.compile(
    r"(?:^|[.\[])(?:usage|usage_metadata|token_usage|llm_output|response_metadata|generation_info|system_fingerprint|"
    r"additional_kwargs|service_tier|raw|id)(?=[.\[]|$)"
)
"""Places where providers put facts about an answer that aren't part of it."""
_CUT = re.compile(r"outcome\.chunks(?:$|\[\d)")
"""Places that only tell where the same words were cut into chunks: words that differ are at `outcome.chunks[*]`."""
_CALLED = re.compile(r"(?:^|[.\[])tool_calls?(?=[.\[]|$)")


@dataclass(frozen=True, slots=False)
class PendingCall:
    """A call that waits for review."""

    key: str  # its key: the cassette, `::`, and the address of the call. The same as long as it waits
    compared: Compared  # what it is compared with
    before: Interaction | None  # the recorded call; `None` if it is new
    now: Interaction | None  # the call that waits; `None` if it is no longer made

    @property
    def address(self) -> str:
        """The place at which it is made; at which it was made, if it is no longer."""
        return self.compared.other_address or self.compared.address

    @property
    def state(self) -> str:
        """The way it has changed: `changed`, `moved`, `new` or `gone`."""
        return {"only in first": "gone", "only in other": "new"}.get(self.compared.state, self.compared.state)

    @cached_property
    def asks_anew(self) -> bool:
        """True if a replay of the new run needs it: its request changed, it's new, or it's no longer made."""
        if self.before is None or self.now is None:
            return True
        before, now = self.before, self.now
        return (before.kind, before.name, before.fingerprint) != (now.kind, now.name, now.fingerprint)

    @cached_property
    def sort(self) -> Sort:
        """The sort of the change."""
        if self.before is None or self.now is None or self.state == "moved":
            return "path"
        if self.now.kind == "tool" and self.asks_anew:
            return "path"
        if _asked_tools(self.before.outcome, self.now) != _asked_tools(self.now.outcome, self.now):
            return "path"
        told = all(sort_of(found.path) == "tokens" for found in self.compared.differences)
        return "tokens" if told and not self.asks_anew else "words"

    @property
    def differences(self) -> list[Difference]:
        """The places where it differs: the tools that are called, then words, then a provider's data about itself."""
        return sorted(self.compared.differences, key=lambda found: SORTS.index(sort_of(found.path)))

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        compared = self.compared.to_dict()
        return {
            "key": self.key,
            "state": self.state,
            "change": self.sort,
            "kind": self.compared.kind,
            "name": self.compared.name,
            "address": self.address,
            "before": compared["first"],
            "now": compared["other"],
            "differences": [
                {"path": found.path, "before": found.recorded, "now": found.asked} for found in self.differences
            ],
        }


def sort_of(path: str) -> Sort:
    """Return the sort of a change of a call by the place in its record, as comparisons spell it."""
    if _TOLD.search(path) or _CUT.match(path):
        return "tokens"
    return "path" if _CALLED.search(path) and path.startswith("outcome") else "words"


def calls_of(shown: str, compared: Iterable[Compared], before: Cassette, now: Cassette) -> list[PendingCall]:
    """Return the calls that have changed, in the order of the run. Their keys begin with `shown`."""
    return list(_calls(shown, compared, before, now))


def _calls(shown: str, compared: Iterable[Compared], before: Cassette, now: Cassette) -> Iterator[PendingCall]:
    seen: Counter[str] = Counter()
    for one in compared:
        if one.what != "interaction" or one.state == "same":
            continue
        address = one.other_address or one.address
        seen[address] += 1
        count = f" ({seen[address]})" if seen[address] > 1 else ""
        yield PendingCall(
            f"{shown}::{address}{count}",
            one,
            before.interaction(one.first) if one.first is not None else None,
            now.interaction(one.other) if one.other is not None else None,
        )


def _asked_tools(outcome: Outcome, item: Interaction) -> list[Any]:
    return [tuple(call) for call in Answer(outcome).tool_calls] if item.kind in MODEL_KINDS else []


# -- The groups of a new recording: calls that can only be taken together, as one depends on the answer of another.


TimingOf = Callable[[int], Timing | None]

_WORD = re.compile(r"\w+")
_TELLING = 4  # the fewest letters of a word that is hardly new at two places by chance; any number counts


@dataclass(frozen=True)
class _Side:
    """The request and the outcome of a call in one of the two recordings, in words."""

    item: Interaction | None

    @cached_property
    def asked(self) -> str:
        return _spelled([self.item.request, self.item.name]) if self.item is not None else " "

    @cached_property
    def asked_words(self) -> frozenset[str]:
        return frozenset(self.asked.split())

    @cached_property
    def said(self) -> frozenset[str]:
        """Its outcome, a text for each leaf of it."""
        return frozenset(filter(str.strip, map(_spelled, _said(self.item)))) if self.item is not None else frozenset()

    @cached_property
    def said_words(self) -> frozenset[str]:
        return frozenset(word for text in self.said for word in text.split())

    def brings(self, other: _Side) -> frozenset[str]:
        """Return the words that its outcome has, and neither its request nor the other side's outcome."""
        return self.said_words - self.asked_words - other.said_words

    def fresh(self, other: _Side) -> frozenset[str]:
        """Return the words that its request has, and the other side's has not."""
        return self.asked_words - other.asked_words


class _Call:
    """A call with both sides of it."""

    def __init__(self, call: PendingCall) -> None:
        self.call = call
        self.sides = (_Side(call.before), _Side(call.now))

    @cached_property
    def brings(self) -> tuple[frozenset[str], ...]:
        first, other = self.sides
        return first.brings(other), other.brings(first)

    @cached_property
    def fresh(self) -> tuple[frozenset[str], ...]:
        first, other = self.sides
        return first.fresh(other), other.fresh(first)

    @cached_property
    def texts(self) -> tuple[frozenset[str], ...]:
        """The texts that only one side has."""
        first, other = self.sides
        return first.said - other.said, other.said - first.said

    @property
    def says_anew(self) -> bool:
        return any(self.texts)

    def has_from(self, root: _Call) -> bool:
        """Return whether the request of either side has something that the outcome of another call has brought."""
        for own, (mine, theirs) in enumerate((self.sides, self.sides[::-1])):
            if any(len(word) >= _TELLING or not word.isalpha() for word in root.brings[own] & self.fresh[own]):
                return True
            if any(text in mine.asked and text not in theirs.asked for text in root.texts[own]):
                return True
        return False


def groups_of_dependents(calls: Sequence[PendingCall], before: TimingOf, now: TimingOf) -> list[list[int]]:
    """Return the calls that can only be taken together, as places in the sequence; each call is in one group.

    `before` returns the times of a recorded call by its number, and `now` the new texts of a waiting call.
    """
    joined_up = _Joined(len(calls))
    both = [_Call(call) for call in calls]
    for place, one in enumerate(both):
        if one.call.asks_anew:
            _join_roots(place, both, (before, now), joined_up)
    for place, other in (*_inside(calls), *_shifted(calls)):
        joined_up.join(place, other)
    return joined_up.groups()


class _Joined:
    """Places that hang together with others (a union-find)."""

    def __init__(self, count: int) -> None:
        self._heads = list(range(count))

    def head(self, place: int) -> int:
        heads = self._heads
        while heads[place] != place:
            heads[place] = heads[heads[place]]
            place = heads[place]
        return place

    def join(self, one: int, other: int) -> None:
        first, last = sorted((self.head(one), self.head(other)))
        self._heads[last] = first

    def groups(self) -> list[list[int]]:
        groups: defaultdict[int, list[int]] = defaultdict(list)
        for place in range(len(self._heads)):
            groups[self.head(place)].append(place)
        return list(groups.values())


def _join_roots(place: int, calls: Sequence[_Call], timings: tuple[TimingOf, TimingOf], joined_up: _Joined) -> None:
    """Join a call whose request changed with the calls that caused the change."""
    one = calls[place]
    has_root = False
    others = [(other, root) for other, root in enumerate(calls) if other != place and root.says_anew]
    for other, root in others:
        if has_root and joined_up.head(place) == joined_up.head(other):
            continue
        if one.has_from(root) and may_come_from(one.call, root.call, timings):
            has_root = True
            joined_up.join(place, other)
    if not has_root and one.call.state in {"new", "gone"}:  # the program took another way, for whatever was said
        for other, root in others:
            if may_come_from(one.call, root.call, timings):
                joined_up.join(place, other)


def may_come_from(call: PendingCall, root: PendingCall, timings: tuple[TimingOf, TimingOf]) -> bool:
    """Return whether one call may have caused another, in either recording.

    `timings` return the times of a recorded call, and of one that waits, by its number.
    """
    sides = ((call.before, root.before, timings[0]), (call.now, root.now, timings[1]))
    both = [(mine, theirs, timing_of) for mine, theirs, timing_of in sides if mine is not None and theirs is not None]
    if not both:  # one is gone, the other new: they are in two runs
        return False
    return any(may_depend(_row(mine), _row(theirs), timing_of) for mine, theirs, timing_of in both)


def _row(item: Interaction) -> IndexRow:
    return IndexRow(item.number, item.kind, item.name, item.address, item.fingerprint)


def _inside(calls: Sequence[PendingCall]) -> Iterator[tuple[int, int]]:
    """Yield the calls that were made inside another one: its answer is made of theirs."""
    places = {call.address: place for place, call in enumerate(calls)}
    for place, call in enumerate(calls):
        parts = call.address.split("/")
        above = ("/".join(parts[:count]) for count in range(len(parts) - 1, 0, -1))
        yield from ((place, places[address]) for address in above if address in places)


def _shifted(calls: Sequence[PendingCall]) -> Iterator[tuple[int, int]]:
    """Yield the calls of a run some of whose calls moved because other calls came or went."""
    moved = {_run(call) for call in calls if call.state == "moved"}
    first: dict[str, int] = {}
    for place, call in enumerate(calls):
        if _run(call) in moved and call.state in {"moved", "new", "gone"}:
            yield first.setdefault(_run(call), place), place


def _run(call: PendingCall) -> str:
    return call.address.partition("/")[0].partition("#")[0]


def _said(item: Interaction) -> Iterable[Any]:
    """Yield the outcome of a call, part by part: for a model, its text and the tools that it requested."""
    if item.outcome.error is not None:
        yield item.outcome.error.message
        return
    answer = Answer(item.outcome) if item.kind in MODEL_KINDS else None
    if answer is not None and (answer.text or answer.tool_calls):
        yield answer.text
        for call in answer.tool_calls:
            yield call.name
            yield from leaves(call.args)
        return
    yield from leaves(joined(item.outcome))


def _spelled(value: Any) -> str:
    """Return the words of plain data, each between spaces."""
    found = [word for leaf in leaves(value) for word in _WORD.findall(str(leaf).casefold())]
    return f" {' '.join(found)} "


@dataclass(frozen=True)
class Pending:
    """A recording that waits for review, beside the cassette whose place it would take."""

    path: Path  # the cassette
    before: Cassette  # the cassette, opened; an empty one if it is gone
    now: Cassette  # the recording
    compared: Sequence[Compared] = field(repr=False)  # all that was compared of the two, steps too
    calls: Sequence[PendingCall] = field(repr=False)  # the calls that have changed, in the order of the run
    digest: str = ""  # the content of both files, from `digest_of`

    @property
    def shown(self) -> str:
        """The cassette as messages name it."""
        return shown_path(self.path)

    @property
    def is_older(self) -> bool:
        """True if the cassette was recorded after this: the waiting recording isn't a change to it any more."""
        before, now = (cassette.preface.volatile.created for cassette in (self.before, self.now))
        return bool(before) and before > now

    @property
    def is_same(self) -> bool:
        """True if only the parts changed that differ between any two recordings."""
        return not self.calls

    @cached_property
    def dependents(self) -> dict[str, tuple[str, ...]]:
        """The keys of all calls that can only be taken together with one, by its key; its own among them."""
        found = groups_of_dependents(
            self.calls, self.before.header.volatile.timings.get, self.now.header.volatile.timings.get
        )
        groups = [tuple(self.calls[place].key for place in group) for group in found]
        return {key: group for group in groups for key in group}

    def with_dependents(self, keys: Sequence[str]) -> list[PendingCall]:
        """Return the calls of some keys, with all that can only be taken together with them."""
        together = {each for key in keys for each in self.dependents[key]}
        return [call for call in self.calls if call.key in together]

    def needs(self, taken: Sequence[PendingCall]) -> list[PendingCall]:
        """Return the calls that would have to be taken as well so that the program that recorded this replays."""
        left = [call for call in self.calls if call not in taken]
        timings = self.before.header.volatile.timings.get, self.now.header.volatile.timings.get
        asking = [call for call in taken if call.asks_anew]
        return [
            call
            for call in left
            if call.asks_anew or any(call.sort == "path" and may_come_from(one, call, timings) for one in asking)
        ]

    def change(self, prices: Prices) -> Change:
        """Return the change as a whole: the path of the run, its tokens and its cost."""
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
                {**call.to_dict(), "with": [key for key in self.dependents[call.key] if key != call.key]}
                for call in self.calls
            ],
        }


def pending_of(path: Path) -> Pending:
    """Read the recording that waits beside a cassette. Raises `CassetteError` if there's none, or it's unreadable."""
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
    """Return a text that changes with the content of a cassette, or of what waits for review beside it."""
    digest = hashlib.sha256()
    for file in (path, pending_path(path)):
        content = file.read_bytes() if file.is_file() else b""
        digest.update(b"%d:" % len(content))
        digest.update(content)
    return digest.hexdigest()


def pending_in(paths: Sequence[str | Path] = (".",)) -> list[Path]:
    """Return the cassettes beside which a recording waits for review, sorted.

    `paths` may be cassettes, files that wait, and folders, searched without their hidden folders. Raises
    `ConfigurationError` if there's no recording at a path.
    """
    found: dict[Path, None] = {}
    for path in map(Path, paths or (".",)):
        if path.is_dir():
            found |= dict.fromkeys(waits_for(each) for each in files_below(path) if _waits(each.name))
        elif is_pending(path.name) or pending_path(path).is_file():
            found[waits_for(path) if is_pending(path.name) else path] = None
        elif not path.exists():
            raise ConfigurationError(f"{path}: there is no such file or folder")
    return sorted(found)


def _waits(name: str) -> bool:
    return is_pending(name) and not name.startswith(".")


def _empty(path: Path, now: Cassette) -> Cassette:
    """Return a cassette without calls, for one that is gone."""
    header = now.preface.model_copy(update={"volatile": type(now.preface.volatile)()})
    return Cassette(path, b"".join(pieces_of(path, header, [])))

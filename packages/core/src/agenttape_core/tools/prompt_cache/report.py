"""The report on prompt caches: what calls could have read from them, and where a changed prefix kept them from it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from agenttape_core.errors import counted
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.tools.prompt_cache.parts import Difference

_APART = 0.05  # estimates of prefixes are so far off: a provider's count that differs by less isn't reported


class Break(NamedTuple):
    """A prefix that an earlier call had sent, and that a call couldn't read from the cache."""

    number: int  # the number of the earlier call
    run: str  # its cassette, as messages show it
    why: str  # the kind of change in the request, or what else happened to the prefix
    difference: Difference | None  # the first difference; `None` if the prefix is the same
    tokens: int  # the tokens that were read again: the earlier request had them too
    cost: float | None  # the price of reading these, in US dollars; `None` if the model has no known price
    saving: float | None  # the part of it that a cache saves
    is_movable: bool = False  # whether another order of the prompt lets a cache save that

    @property
    def place(self) -> str:
        """The place at which the request differs, as words; empty if it doesn't."""
        return f" at {self.difference.where}" if self.difference is not None else ""

    def lines(self, number: int, run: str) -> Iterator[str]:
        """Yield it as text, of the call with a number. `run` is its cassette; empty if all calls are of one."""
        earlier = _named(self.run if run and self.run != run else "", self.number)
        yield f"{_named(run, number)} doesn't continue the prefix of {earlier}{self.place}: {self.why}"
        if self.difference is not None:
            yield f"  - {self.difference.before}"
            yield f"  + {self.difference.now}"
        what = "another order" if self.is_movable else "a cache"
        money = f" for ${self.cost:.4f}, of which {what} saves ${self.saving:.4f}" if self.cost else ""
        yield f"  ~{self.tokens:,} tokens read again{money}"

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        plain = self._asdict() | {"difference": self.difference._asdict() if self.difference is not None else None}
        return {key: value for key, value in plain.items() if value is not None}


@dataclass(frozen=True, slots=True)
class CachedCall:
    """A call of a model, and what it could read from the prompt cache."""

    run: str  # the cassette, as messages show it
    number: int  # the number of the call
    name: str  # its name: the class of the model
    address: str
    model: str  # empty if the request names none
    input_tokens: int  # the tokens of its request
    is_counted: bool  # whether the provider counted these; otherwise they're estimated by the length of the request
    read: int | None = None  # the tokens that the provider says it read from its cache; `None` if it doesn't say
    written: int | None = None  # the tokens that it says it wrote into it; `None` if it doesn't say
    provider: str = ""  # empty if no rule is known for the model
    possible: int = 0  # the tokens that it could have read from its cache, estimated
    broken: Break | None = None  # the prefix that it couldn't read; `None` if there was none
    unknown: str = ""  # the reason for which nothing is known of its cache; empty if something is

    @property
    def uncached(self) -> int:
        """The tokens that weren't read from the cache, by the provider's count or, without one, by the estimate."""
        return max(0, self.input_tokens - (self.possible if self.read is None else self.read))

    @property
    def disagreement(self) -> str:
        """The difference between the provider's count and the estimate, as words; empty if there's none."""
        if self.read is None or self.unknown:
            return ""
        off = self.read - self.possible
        if abs(off) <= max(_APART * self.input_tokens, 256 if off > 0 else 0):
            return ""
        said = "more" if off > 0 else "less"
        return f"the provider read {self.read:,} tokens from its cache, {said} than the {self.possible:,} expected"

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, without what isn't known."""
        plain = {key: getattr(self, key) for key in self.__slots__ if key != "broken"}
        more = {"broken": self.broken.to_dict()} if self.broken is not None else {}
        also = {"disagreement": self.disagreement} if self.disagreement else {}
        return {key: value for key, value in plain.items() if value not in (None, "")} | more | also


class Caching(NamedTuple):
    """The figures of prompt caches that checks judge."""

    uncached_tokens: int = 0  # the tokens of requests that weren't read from a cache
    cache_miss_dollars: float = 0.0  # the amount that a cache would have saved if no prefix had been broken
    unjudged: Mapping[str, Sequence[str]] = MappingProxyType({})  # by figure, the names of calls for which it's unknown


@dataclass(frozen=True, slots=True)
class CacheReport:
    """The calls of models in runs, in the order of their making, and the tokens that a cache could have held."""

    calls: Sequence[CachedCall] = field(default_factory=tuple)

    @property
    def known(self) -> list[CachedCall]:
        """The calls of which something is known."""
        return [call for call in self.calls if not call.unknown]

    @property
    def breaks(self) -> list[tuple[CachedCall, Break]]:
        """The calls that were kept from reading a prefix."""
        return [(call, call.broken) for call in self.calls if call.broken is not None]

    @property
    def uncached_tokens(self) -> int:
        """The tokens that weren't read from a cache; see `CachedCall.uncached`."""
        return sum(call.uncached for call in self.known)

    @property
    def again(self) -> int:
        """The tokens that were read again because a prefix had changed."""
        return sum(broken.tokens for _, broken in self.breaks)

    @property
    def cost(self) -> float:
        """The price of reading them again, in US dollars, as far as prices are known."""
        return sum(broken.cost or 0.0 for _, broken in self.breaks)

    @property
    def saving(self) -> float:
        """The part of it that a cache saves, in US dollars, as far as prices are known."""
        return sum(broken.saving or 0.0 for _, broken in self.breaks)

    @property
    def reordering(self) -> float:
        """The part of `saving` that another order of the prompts gets: what differs last, tools in the same order."""
        return sum(broken.saving or 0.0 for _, broken in self.breaks if broken.is_movable)

    @property
    def unpriced(self) -> list[str]:
        """The models of broken prefixes that have no known price."""
        return sorted({call.model for call, broken in self.breaks if broken.cost is None})

    @property
    def unknown(self) -> dict[str, int]:
        """The reasons for which nothing is known of calls, with their numbers."""
        reasons = [call.unknown for call in self.calls if call.unknown]
        return {reason: reasons.count(reason) for reason in dict.fromkeys(reasons)}

    def figures(self, numbers: Collection[int], billed: Mapping[int, str]) -> Caching:
        """Return the figures of the calls with some numbers.

        `billed` has the names of all calls with a prompt, by their numbers: one in no known form can't be judged.
        """
        calls = [call for call in self.calls if call.number in numbers]
        unread = [name for number, name in billed.items() if number not in {call.number for call in calls}]
        unjudged = {
            "uncached_tokens": [
                *(call.name for call in calls if not call.is_counted or (call.unknown and call.read is None)),
                *unread,
            ],
            "cache_miss_dollars": [
                *(
                    call.name
                    for call in calls
                    if call.unknown or (call.broken is not None and call.broken.saving is None)
                ),
                *unread,
            ],
        }
        misses = sum(call.broken.saving or 0.0 for call in calls if call.broken is not None)
        return Caching(sum(call.uncached for call in calls), misses, unjudged)

    def lines(self) -> Iterator[str]:
        """Yield it as text: a paragraph for each broken prefix, differences to what providers said, and the sums."""
        several = len({call.run for call in self.calls}) > 1
        for call, broken in self.breaks:
            yield from broken.lines(call.number, call.run if several else "")
        for call in self.calls:
            if call.disagreement:
                yield f"{_named(call.run if several else '', call.number)}: {call.disagreement}"
        for reason, times in self.unknown.items():
            yield f"{counted(times, 'call')} not judged: {reason}"
        known = self.known
        if not known:
            yield "nothing is known of a prompt cache: no call of a model has a rule"
            return
        tokens, possible = sum(call.input_tokens for call in known), sum(call.possible for call in known)
        reads = [call.read for call in known if call.read is not None]
        said = f"; the provider read {sum(reads):,}" if reads else ""
        yield f"{counted(len(known), 'call')}, {tokens:,} input tokens, ~{possible:,} of them in the cache{said}"
        if self.again:
            money = f" for ${self.cost:.4f}, of which a cache saves ${self.saving:.4f}" if self.cost else ""
            order = f", ${self.reordering:.4f} of that by another order" if self.reordering else ""
            yield f"~{self.again:,} tokens were read again{money}{order}"
        if self.unpriced:
            yield f"no price is known of {', '.join(self.unpriced)}"

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        known = self.known
        reads = [call.read for call in known if call.read is not None]
        return {
            "calls": [call.to_dict() for call in self.calls],
            "input_tokens": sum(call.input_tokens for call in known),
            "possible": sum(call.possible for call in known),
            **({"read": sum(reads)} if reads else {}),
            "uncached_tokens": self.uncached_tokens,
            "again": self.again,
            "cost": round(self.cost, 6),
            "saving": round(self.saving, 6),
            "reordering": round(self.reordering, 6),
            **({"unpriced": self.unpriced} if self.unpriced else {}),
            **({"unknown": self.unknown} if self.unknown else {}),
        }


def _named(run: str, number: int) -> str:
    return f"{run} call {number}".strip()

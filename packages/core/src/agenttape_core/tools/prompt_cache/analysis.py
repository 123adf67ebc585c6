"""The tokens that calls could have read from a prompt cache: each is compared with the earlier ones that it is like."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import MODEL_KINDS, Interaction, Timing
from agenttape_core.storage import Cassette
from agenttape_core.tools.prompt_cache.parts import (
    PARTS_REMOVED,
    TOOLS_IN_ANOTHER_ORDER,
    Part,
    Shared,
    difference,
    parts_of,
    shared,
)
from agenttape_core.tools.prompt_cache.report import Break, CachedCall, CacheReport
from agenttape_core.tools.reading.cache_rules import CacheRule, rule_for
from agenttape_core.tools.reading.messages import Answer
from agenttape_core.tools.reading.prices import Prices
from agenttape_core.tools.reading.provider_calls import given_by, model_call
from agenttape_core.tools.reading.summary import model_of

_LATEST = 16
"""So many of the latest calls of a model are compared with the next one: an agent's next request resembles one of
them. Comparing all would take time in proportion to the square of a run's length."""
_WORTH = 128
"""So many tokens have to be read again before it's reported: two requests that are alike always share some words."""

_UNREAD = ("raised", "refused")
"""The ends of calls whose prompts no model has read."""


class Asked(NamedTuple):
    """A call, and when it was made."""

    item: Interaction
    run: str  # its cassette, as messages show it
    start: float | None  # the seconds since the epoch at which it was made; `None` if that isn't known
    answered: float | None  # the same for the first part of its answer: its prefix is in the cache then


def calls_of(cassette: Cassette, shown: str) -> Iterator[Asked]:
    """Yield the calls of a cassette with their times, in the order in which they were made.

    `shown` is its file, as messages show it. Raises `CassetteFormatError` if a record is malformed.
    """
    timings = cassette.header.volatile.timings
    epoch = _began(cassette)
    found = [asked_at(item, timings.get(item.number), shown, epoch) for item in cassette.interactions()]
    yield from in_order(found)


def _began(cassette: Cassette) -> float | None:
    """Return the seconds since the epoch at which a recording began; `None` if that isn't known."""
    volatile = cassette.preface.volatile
    if volatile.clock is not None:
        return volatile.clock
    try:
        return datetime.fromisoformat(volatile.created).timestamp()
    except ValueError:
        return None


def asked_at(item: Interaction, timing: Timing | None, run: str = "", epoch: float | None = 0.0) -> Asked:
    """Return a call with its times.

    `epoch` are the seconds at which its recording began; `None` if that isn't known.
    """
    if timing is None or timing.start_ms is None or epoch is None:
        return Asked(item, run, None, None)
    first = timing.offsets_ms[0] if timing.offsets_ms else timing.duration_ms
    start = epoch + timing.start_ms / 1000
    return Asked(item, run, start, start + first / 1000)


def in_order(calls: Sequence[Asked]) -> Sequence[Asked]:
    """Return calls in the order in which they were made; as they are if the times of some aren't known."""
    starts = [call.start for call in calls if call.start is not None]
    return sorted(calls, key=lambda call: call.start or 0.0) if len(starts) == len(calls) else calls


def cache_report(calls: Iterable[Asked], prices: Prices) -> CacheReport:
    """Return what calls could have read from the prompt cache of their provider, in the order of their making."""
    earlier: dict[tuple[str, str], _Earlier] = {}
    found, calls = [], list(calls)
    models = {(asked.run, asked.item.number) for asked in calls if asked.item.kind in MODEL_KINDS}
    for asked in calls:
        if (asked.run, asked.item.parent) in models:  # the request that a framework's call sent, which counts already
            continue
        call = model_call(asked.item)
        if call.kind in MODEL_KINDS and call.outcome.status not in _UNREAD and (parts := parts_of(asked.item.request)):
            found.append(_judged(asked, call, parts, earlier, prices))
    return CacheReport(tuple(found))


def report_of(cassettes: Iterable[tuple[Cassette, str]], prices: Prices) -> CacheReport:
    """Return the tokens that runs in cassettes could have read from the prompt cache, in the order of their calls.

    Each cassette is given with its file as messages show it. Raises `CassetteFormatError` if a record is malformed.
    """
    ordered = sorted(cassettes, key=lambda each: _began(each[0]) or 0.0)
    calls = [asked for cassette, shown in ordered for asked in calls_of(cassette, shown)]
    return cache_report(in_order(calls), prices)  # runs may have overlapped


class _Sent(NamedTuple):
    """A request that was sent."""

    asked: Asked
    parts: list[Part]
    tokens: int  # its length
    marks: dict[int, float]  # the numbers of parts after which its prefix is cached, with the lifetime there in seconds

    @property
    def scale(self) -> float:
        """The number of its tokens for each that is estimated."""
        return self.tokens / max(sum(part.weight for part in self.parts), 1.0)


class _Earlier:
    """The earlier calls of one model."""

    def __init__(self) -> None:
        self._latest: deque[_Sent] = deque(maxlen=_LATEST)
        self._by_prefix: dict[int, _Sent] = {}

    def add(self, sent: _Sent) -> None:
        self._latest.append(sent)
        for key in _prefixes(sent.parts):
            self._by_prefix[key] = sent

    def alike(self, parts: Sequence[Part]) -> list[_Sent]:
        """Return the latest calls, and the latest of those that begin with the most parts of a request."""
        longest = next((self._by_prefix[key] for key in reversed(_prefixes(parts)) if key in self._by_prefix), None)
        more = [longest] if longest is not None and not any(longest is sent for sent in self._latest) else []
        return [*more, *self._latest]


def _prefixes(parts: Sequence[Part]) -> list[int]:
    """Return a key for each prefix of whole parts."""
    found, key = [], 0
    for part in parts:
        key = hash((key, part.identity))
        found.append(key)
    return found


def _judged(
    asked: Asked,
    call_of_model: Interaction,
    parts: list[Part],
    earlier: dict[tuple[str, str], _Earlier],
    prices: Prices,
) -> CachedCall:
    item = asked.item
    answer = Answer(call_of_model.outcome)
    tokens, is_counted = _length(call_of_model, answer, parts)
    model = model_of(call_of_model) or answer.model or ""
    rule = rule_for(model)
    cached, written = (answer.tokens.get(f"cache_{what}.input_tokens") for what in ("read", "creation"))
    call = CachedCall(asked.run, item.number, item.name, item.address, model, tokens, is_counted, cached, written)
    if rule is None or (unknown := _unknown(given_by(item.request))):
        named = f"no rule of a prompt cache is known for {model}" if model else "the request names no model"
        return replace(call, unknown=named if rule is None else unknown)
    call = replace(call, provider=rule.provider)
    sent = _Sent(asked, parts, tokens, _marks(item, parts, rule))
    known = earlier.setdefault((rule.provider, model), _Earlier())
    judged = _compared(call, sent, known.alike(parts), rule, prices)
    known.add(sent)
    return judged


def _unknown(given: Mapping[str, Any]) -> str:
    """Return why nothing is known of the prefix of a request; empty if its start is all in it."""
    held = next(
        (key for key in ("previous_response_id", "conversation", "cached_content", "cachedContent") if given.get(key)),
        "",
    )
    return f"the provider holds the start of the request ({held})" if held else ""


def _length(item: Interaction, answer: Answer, parts: Sequence[Part]) -> tuple[int, bool]:
    """Return the tokens of a request, and whether its provider counted them."""
    usage = item.outcome.usage
    if usage is None or usage.input_tokens is None:
        return round(sum(part.weight for part in parts)), False
    return usage.input_tokens + answer.tokens_apart, True


def _marks(item: Interaction, parts: Sequence[Part], rule: CacheRule) -> dict[int, float]:
    """Return the places in a request at which its prefix may be cached, as the number of parts before them."""
    given = given_by(item.request)
    long = "1h", "24h"
    lifetime = rule.long_lifetime if str(given.get("prompt_cache_retention")) in long else rule.lifetime
    lifetime = max(lifetime, rule.lifetime)
    marks = {
        at: max(rule.long_lifetime, rule.lifetime) if part.mark in long else lifetime
        for at, part in enumerate(parts, 1)
        if part.mark is not None
    }
    return {**marks, len(parts): lifetime} if rule.automatic else marks


class _Reading(NamedTuple):
    """A request that an earlier one may have put into the cache in part."""

    sent: _Sent  # the earlier one
    same: Shared
    tokens: int  # those that could be read
    lost: int  # those that both requests have, and that couldn't be
    why: str  # the reason, if their prefix is the same


def _compared(call: CachedCall, now: _Sent, earlier: Sequence[_Sent], rule: CacheRule, prices: Prices) -> CachedCall:
    readings = [_reading(sent, now, rule) for sent in earlier if _is_before(sent.asked, now.asked)]
    possible = max((reading.tokens for reading in readings), default=0)
    call = replace(call, possible=possible)
    worst = max(readings, key=lambda reading: (reading.tokens + reading.lost, reading.tokens), default=None)
    lost = worst.tokens + worst.lost - possible if worst is not None else 0
    if worst is None or lost < _WORTH or (call.read or 0) >= possible + lost:
        return call
    why, found, is_movable = worst.why, None, False
    if not why:
        why, found = difference(worst.sent.parts, now.parts, worst.same.whole)
        groups = {sent.parts[worst.same.whole].group for sent in (worst.sent, now)}
        is_movable = why == TOOLS_IN_ANOTHER_ORDER or not (groups & {"tools", "schema"} or why == PARTS_REMOVED)
    earlier_call, costs = worst.sent.asked, _costs(call, lost, prices)
    return replace(call, broken=Break(earlier_call.item.number, earlier_call.run, why, found, lost, *costs, is_movable))


def _is_before(earlier: Asked, now: Asked) -> bool:
    """Return whether an earlier call had begun to be answered when another one was made."""
    if earlier.answered is None or now.start is None:
        return True
    return earlier.answered <= now.start


def _reading(sent: _Sent, now: _Sent, rule: CacheRule) -> _Reading:
    same = shared(sent.parts, now.parts)
    scale = now.scale
    prefix = sent.tokens if same.is_all and len(now.parts) > len(sent.parts) else same.prefix * scale
    prefix = min(prefix, now.tokens)
    both = _whole_blocks(min(prefix + same.again * scale, now.tokens), rule)
    if both < rule.minimum:
        return _Reading(sent, same, 0, 0, "")
    usable, why = _usable(sent, now, same, rule, prefix)
    tokens = _whole_blocks(usable, rule)
    tokens = tokens if tokens >= rule.minimum else 0
    again = same.again * scale
    if again > max(prefix - usable, _WORTH) and why in {"", _BEYOND}:  # most of it was lost to a difference
        return _Reading(sent, same, tokens, both - tokens, "")
    return _Reading(sent, same, tokens, both - tokens if why else 0, why)


def _usable(sent: _Sent, now: _Sent, same: Shared, rule: CacheRule, prefix: float) -> tuple[float, str]:
    """Return the tokens that are in the cache when a request comes, and why there aren't more."""
    gap = None if sent.asked.answered is None or now.asked.start is None else now.asked.start - sent.asked.answered
    lifetime = max(sent.marks.values(), default=rule.lifetime)
    if gap is not None and gap > lifetime:
        return 0.0, _expired(gap, lifetime)
    if rule.ends == "tokens":
        return prefix, ""
    places = [at for at in sent.marks if at <= same.whole]
    if not places:
        return 0.0, _BEYOND if sent.marks else _UNMARKED
    alive = [at for at in places if gap is None or gap <= sent.marks[at]]
    if not alive:
        return 0.0, _expired(gap or 0.0, max(sent.marks[at] for at in places))
    seen = [at for at in alive if rule.lookback is None or any(0 <= end - at < rule.lookback for end in now.marks)]
    if not seen:
        return 0.0, _UNMARKED if not now.marks else f"no mark in the {rule.lookback} parts after the cached prefix"
    place = max(seen)
    is_whole = same.is_all and place == len(sent.parts)
    tokens = prefix if is_whole else sum(part.weight for part in now.parts[:place]) * now.scale
    return tokens, _BEYOND if prefix - tokens >= _WORTH else ""


_UNMARKED = "no part is marked with cache_control, and this provider caches nothing without a mark"
_BEYOND = "no mark at the end of the prefix that both share"


def _expired(gap: float, lifetime: float) -> str:
    return f"it came {_span(gap)} later, and a prefix is kept for {_span(lifetime)}"


def _span(seconds: float) -> str:
    if seconds < 120:  # noqa: PLR2004 - two minutes
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.0f} hours"  # noqa: PLR2004


def _whole_blocks(tokens: float, rule: CacheRule) -> int:
    return int(tokens) // rule.block * rule.block


def _costs(call: CachedCall, tokens: int, prices: Prices) -> tuple[float | None, float | None]:
    """Return what it cost to read tokens again, and what a cache would have saved of that."""
    rates = prices.rates(call.model, "")
    if rates is None:
        return None, None
    cost = tokens * rates.input + min(tokens, call.written or 0) * (rates.cache_write - rates.input)
    return cost, cost - tokens * rates.cache_read

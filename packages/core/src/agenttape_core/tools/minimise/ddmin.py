"""Delta debugging: which of many units does a failure need?

The algorithm is `ddmin` of Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE
Transactions on Software Engineering 28 (2), 2002. As a rule few of many units are needed, so each of these is searched
by halving first: the progression of Marques-Silva, Janota and Belov, "Minimal Sets over Monotone Predicates in Boolean
Formulae", CAV 2013. That takes far fewer tries. Where one unit hides another, `ddmin` takes all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Unit = TypeVar("Unit")

_FEW = 4
"""So many units are searched one by one, if there are more."""


def ddmin(units: Sequence[Unit], fails: Callable[[Sequence[Unit]], bool]) -> list[Unit]:
    """Return units that are enough to fail, none of which can be left out alone.

    It is not always the smallest such set, only one in which each unit is needed. The failure is taken to happen with
    all units; with none it is tried first, as most units matter to nothing.

    Args:
        units: The units, in their order.
        fails: Returns whether the failure happens with some of the units, which are in their order.
    """
    if not units or fails([]):
        return []
    kept = (_few(units, fails) if len(units) > _FEW else []) or list(units)
    parts = 2
    while len(kept) > 1:
        chunks = _chunks(kept, parts)
        smaller = next((chunk for chunk in chunks if fails(chunk)), None) if parts < len(kept) or parts == 2 else None  # noqa: PLR2004
        if smaller is not None:
            kept, parts = smaller, 2
            continue
        others = None
        if parts > 2:  # noqa: PLR2004 - of two chunks, each is the rest of the other
            others = next((rest for rest in _rests(chunks) if fails(rest)), None)
        if others is not None:
            kept, parts = others, max(parts - 1, 2)
            continue
        if parts >= len(kept):
            break
        parts = min(parts * 2, len(kept))
    return kept


def _few(units: Sequence[Unit], fails: Callable[[Sequence[Unit]], bool]) -> list[Unit]:
    """Return a few units that are enough to fail; none if there are many, or one hides another."""
    found: list[int] = []
    end = len(units)
    while len(found) < _FEW:
        low, high = 1, end
        while low < high:  # the shortest start of the units that fails with those that were found
            middle = (low + high) // 2
            if fails([units[place] for place in (*range(middle), *found)]):
                high = middle
            else:
                low = middle + 1
        end = low - 1
        found.insert(0, end)
        some = [units[place] for place in found]
        if fails(some):
            return some
        if not end:
            break
    return []


def _chunks(units: list[Unit], parts: int) -> list[list[Unit]]:
    size, more = divmod(len(units), parts)
    chunks, start = [], 0
    for number in range(parts):
        end = start + size + (number < more)
        chunks.append(units[start:end])
        start = end
    return chunks


def _rests(chunks: list[list[Unit]]) -> list[list[Unit]]:
    return [[unit for other in chunks if other is not left_out for unit in other] for left_out in chunks]

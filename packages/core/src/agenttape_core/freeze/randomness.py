"""The module-level functions of `random`, which share one hidden generator."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from agenttape_core.freeze.stand_in import StandIn

if TYPE_CHECKING:
    from collections.abc import Callable

    from agenttape_core.freeze.frozen import Frozen


def _same_method(frozen: Frozen, real: Callable[..., Any]) -> Callable[..., Any]:
    method: Callable[..., Any] = getattr(frozen.random_source(), real.__name__)
    return method


_HIDDEN = getattr(random.seed, "__self__", None)

STAND_INS = tuple(
    StandIn(value, "random", _same_method)
    for value in vars(random).values()
    if _HIDDEN is not None and getattr(value, "__self__", None) is _HIDDEN
)
"""One stand-in for each function, `seed`, `getstate` and `setstate` included: they act on the scope's generator."""

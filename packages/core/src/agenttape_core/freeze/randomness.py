"""Random numbers: the module-level functions of `random`, and generators of one's own that have no seed.

The functions share one hidden generator. In a session, each scope has its own instead. A generator of one's own that is
made without a seed, `random.Random()`, and `seed()` without one, would ask the system for noise; they get a derived
seed from `Random.seed`, through which all of them pass, subclasses included. Generators with a seed are reproducible
without this. `random.SystemRandom`, `secrets` and `os.urandom` stay real.
"""

from __future__ import annotations

import functools
import random
import types
from typing import TYPE_CHECKING, Any

from agenttape_core.freeze.callers import MACHINERY, calling_module
from agenttape_core.freeze.frozen_function import FrozenFunction, active

if TYPE_CHECKING:
    from collections.abc import Callable

    from agenttape_core.freeze.frozen import Frozen

_PASSING = frozenset({__name__, "agenttape_core.freeze.frozen_function", "random"})
_BITS = 256


def _same_method(frozen: Frozen, real: Callable[..., Any]) -> Callable[..., Any]:
    source = frozen.source("random", random.Random)
    method: Callable[..., Any] = getattr(source, real.__name__)
    return method


_HIDDEN = getattr(random.seed, "__self__", None)

STAND_INS = tuple(
    FrozenFunction(value, "random", _same_method)
    for value in vars(random).values()
    if _HIDDEN is not None and getattr(value, "__self__", None) is _HIDDEN
)
"""One stand-in for each function, `seed`, `getstate` and `setstate` included: they act on the scope's generator."""

_REAL_SEED = random.Random.seed


@functools.wraps(_REAL_SEED)
def _seed(self: random.Random, a: Any = None, version: int = 2) -> None:
    frozen = active("random") if a is None else None
    if frozen is not None and not frozen.is_importing() and calling_module(_PASSING) not in MACHINERY:
        a = frozen.next_bits("random.Random", _BITS)
    _REAL_SEED(self, a, version)


_DRAWING = {
    stand_in.__wrapped__.__name__: stand_in
    for stand_in in STAND_INS
    if isinstance(stand_in.__wrapped__, types.BuiltinFunctionType)
}
"""The functions that all others draw with. Since they are attributes of the hidden generator, references bound to it
before a session are replaced as well, such as `partial(random.choice, names)`."""


def swap_in() -> None:
    """Let generators without a seed ask the caller's session for one."""
    if random.Random.seed is _REAL_SEED:  # anything else that is there by now is somebody else's
        random.Random.seed = _seed  # type: ignore[method-assign]
    vars(_HIDDEN).update(_DRAWING)


def swap_out() -> None:
    """Let generators without a seed ask the system again."""
    if random.Random.seed is _seed:
        random.Random.seed = _REAL_SEED  # type: ignore[method-assign]
    for name in _DRAWING:
        vars(_HIDDEN).pop(name, None)

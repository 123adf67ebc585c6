"""The random numbers of numpy, which is never imported for them.

The module-level functions are methods of one hidden `RandomState`, like those of `random` and its `Random`; in a
session, each scope has its own. Whatever else is made without a seed, by `default_rng()`, `RandomState()`,
`SeedSequence()` or a bit generator, draws its entropy from one function, `randbits`, which is a seam.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from agenttape_core.freeze.frozen_function import FrozenFunction, Replacement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agenttape_core.freeze.frozen import Frozen

MODULE = "numpy.random"
_HOME = "numpy.random.mtrand"

ENTROPY = ("numpy.random.bit_generator", "randbits")
"""The module and the name under which everything that has no seed finds the system's noise."""


class _Legacy:
    """The scope's own `RandomState`; its bit generator can be set."""

    def __init__(self, random_state: Any) -> None:
        self.state = random_state


def entropy(frozen: Frozen, real: Callable[..., int]) -> Callable[[int], int]:
    """Give the function that noise is drawn from in a session; a generator of a module is the process's."""
    return real if frozen.is_importing() else lambda bits: frozen.next_bits("numpy.random", bits)


def look(known: dict[str, Any]) -> Iterator[tuple[Any, FrozenFunction]]:
    """Give the functions of the hidden `RandomState` and their stand-ins, once for each time numpy is imported.

    `known` was found before, by the name of its module, and is kept up to date here.
    """
    module = sys.modules.get(_HOME)
    hidden = getattr(module, "_rand", None)
    if hidden is None or MODULE not in sys.modules or known.get(_HOME) is hidden:
        return
    known[_HOME] = hidden
    home = vars(module)
    for value in list(home.values()):
        if getattr(value, "__self__", None) is hidden:
            yield value, FrozenFunction(value, "numpy", _same_method)
    for name, does in _PLAIN.items():
        # In some versions these are functions beside the generator's methods.
        if callable(home.get(name)) and getattr(home[name], "__self__", None) is not hidden:
            yield home[name], FrozenFunction(home[name], "numpy", does)


def _legacy(frozen: Frozen) -> _Legacy:
    return frozen.source(_HOME, _make)


def _make(seed: int) -> _Legacy:
    numpy_random: Any = sys.modules[MODULE]
    return _Legacy(numpy_random.RandomState(numpy_random.MT19937(numpy_random.SeedSequence(seed))))


def _same_method(frozen: Frozen, real: Callable[..., Any]) -> Callable[..., Any]:
    method: Callable[..., Any] = getattr(_legacy(frozen).state, real.__name__)
    return method


def _named(name: str) -> Replacement:
    return lambda frozen, _real: getattr(_legacy(frozen).state, name)


def _get_bit_generator(frozen: Frozen, _real: Callable[..., Any]) -> Callable[[], Any]:
    return lambda: _legacy(frozen).state._bit_generator  # noqa: SLF001 - numpy's own function does the same


def _set_bit_generator(frozen: Frozen, _real: Callable[..., Any]) -> Callable[[Any], None]:
    def set_bit_generator(bitgen: Any) -> None:
        numpy_random: Any = sys.modules[MODULE]
        _legacy(frozen).state = numpy_random.RandomState(bitgen)

    return set_bit_generator


_PLAIN: dict[str, Replacement] = {
    "seed": _named("seed"),
    "ranf": _named("random_sample"),
    "sample": _named("random_sample"),
    "get_bit_generator": _get_bit_generator,
    "set_bit_generator": _set_bit_generator,
}

"""The kinds that can be frozen, by the words of a header, of the settings and of a call."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal, get_args

from agenttape_core.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Collection

Kind = Literal["clock", "clock:ticking", "uuid", "random", "numpy", "env"]

KINDS: tuple[Kind, ...] = get_args(Kind)  # the kinds that can be frozen. The two clocks exclude each other.

DEFAULT_KINDS: tuple[Kind, ...] = ("clock", "uuid", "random", "numpy")  # the kinds that are frozen by default

TICKING: Kind = "clock:ticking"


def check_kinds(kinds: Collection[str]) -> None:
    """Raise `ConfigurationError` for unknown kinds of frozen values, and for two that exclude each other."""
    unknown = sorted(set(kinds) - set(KINDS))
    if unknown:
        raise ConfigurationError(f"cannot freeze {', '.join(unknown)}; expected only: {', '.join(KINDS)}")
    if {"clock", TICKING} <= set(kinds):
        raise ConfigurationError(
            f"cannot freeze both clock and {TICKING}, which are two clocks\n"
            f"  choose clock (passes only with sleeps) or {TICKING} (runs on from the recorded moment)"
        )


@lru_cache(maxsize=16)
def families(kinds: tuple[str, ...]) -> frozenset[str]:
    """Return the kinds that stand-ins ask for, remembered. Raises as `check_kinds` does."""
    check_kinds(kinds)
    return frozenset(map(family, kinds))


def family(kind: str) -> str:
    """Return the kind to which a wrapper belongs: a clock is a clock, however it runs."""
    return kind.partition(":")[0]

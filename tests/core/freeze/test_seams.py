"""Integrations name their frameworks' id makers and clocks."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

import pytest

from agenttape_core.errors import ConfigurationError
from agenttape_core.freeze import Frozen, register_seam

from .conftest import OpenSession

if TYPE_CHECKING:
    import types
    from collections.abc import Callable

    from agenttape_core.freeze import Frozen


SOURCE = "def make():\n    return 'real'\n"


def as_frozen(frozen: Frozen, real: Callable[..., Any]) -> Callable[..., Any]:
    """Shows both what is real and what is frozen."""
    return lambda: f"{real()} {frozen.next_uuid('seam', 7).version}"


def test_a_loaded_module_is_covered(
    session: OpenSession, loaded_module: Callable[[str, str], types.ModuleType]
) -> None:
    """The seam of a loaded module is replaced inside and restored after."""
    module: Any = loaded_module("seam_loaded", SOURCE)
    register_seam("seam_loaded", "make", "uuid", as_frozen)
    real = module.make
    with session():
        assert module.make() == "real 7"
    with session(kinds=["clock"]):
        assert module.make() == "real"
    assert module.make is real


def test_a_module_imported_later_is_covered(session: OpenSession, write_module: Callable[[str, str], str]) -> None:
    """A seam is filled when its module is imported inside; nothing is imported because of it."""
    name = write_module("seam_later", SOURCE)
    register_seam(name, "make", "uuid", as_frozen)
    with session():
        assert name not in sys.modules
        module = importlib.import_module(name)
        assert module.make() == "real 7"
        assert module.__spec__ is not None
        assert module.__loader__ is module.__spec__.loader
        assert type(module.__loader__).__module__ != "agenttape_core.freeze.install"
    assert module.make() == "real"
    assert importlib.reload(module).make() == "real"


def test_a_seam_can_be_registered_inside(
    session: OpenSession, loaded_module: Callable[[str, str], types.ModuleType]
) -> None:
    """An integration that is loaded in the middle of a session takes part at once."""
    module: Any = loaded_module("seam_inside", SOURCE)
    with session():
        register_seam("seam_inside", "make", "uuid", as_frozen)
        assert module.make() == "real 7"
        register_seam("seam_inside", "make", "uuid", lambda frozen, real: lambda: f"{real()} again")
        assert module.make() == "real again"
    assert module.make() == "real"


def test_a_seam_that_spread_is_restored(
    session: OpenSession,
    loaded_module: Callable[[str, str], types.ModuleType],
    write_module: Callable[[str, str], str],
) -> None:
    """A module imported inside that took the stand-in by name gets the real maker after."""
    loaded: Any = loaded_module("seam_source", SOURCE)
    register_seam("seam_source", "make", "uuid", as_frozen)
    name = write_module("seam_taker", "from seam_source import make\n")
    with session():
        taker = importlib.import_module(name)
        assert taker.make() == "real 7"
    assert taker.make is loaded.make
    assert taker.make() == "real"


def test_a_seam_goes_before_what_is_covered_anyway(
    session: OpenSession, loaded_module: Callable[[str, str], types.ModuleType]
) -> None:
    """A module's own `time` can be given another meaning than everyone's."""
    module: Any = loaded_module("seam_clock", "from time import time\n")
    register_seam("seam_clock", "time", "clock", lambda frozen, real: lambda: frozen.clock + 1)
    real = module.time
    for _ in range(2):
        with session(clock=5.0):
            assert module.time() == 6.0
        assert module.time is real


def test_what_is_missing_is_left_alone(
    session: OpenSession, loaded_module: Callable[[str, str], types.ModuleType]
) -> None:
    """A version of a framework without the attribute, or not installed at all, is no error."""
    loaded_module("seam_empty", "make = None\n")
    register_seam("seam_empty", "make", "uuid", as_frozen)
    register_seam("seam_empty", "other", "uuid", as_frozen)
    register_seam("seam_nowhere", "make", "uuid", as_frozen)
    with session(), pytest.raises(ModuleNotFoundError):
        importlib.import_module("seam_nowhere")


def test_an_unknown_kind_is_refused() -> None:
    """A seam belongs to one of the kinds."""
    with pytest.raises(ConfigurationError, match="weather"):
        register_seam("any", "make", "weather", as_frozen)

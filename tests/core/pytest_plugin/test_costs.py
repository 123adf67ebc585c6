"""The costs of replayed calls are looked up once, and sessions end with their tests: both keep a large suite quick."""

from __future__ import annotations

import gc
import sys
import weakref
from types import ModuleType
from typing import Any

import pytest

from agenttape_core import Session
from agenttape_core.integration import Usage
from agenttape_core.pytest_plugin.costs import RememberedPrices
from agenttape_core.tools.reading import prices as price_lists
from agenttape_core.tools.reading.prices import LIST, PriceTable

from .conftest import Project

USAGE = Usage(input_tokens=10, output_tokens=2)


class Cache:
    """Pytest's cache, as far as it is used."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}

    def get(self, key: str, default: Any) -> Any:
        return self.kept.get(key, default)

    def set(self, key: str, value: Any) -> None:
        self.kept[key] = value


class List(PriceTable):
    """A list of prices that counts how often it is asked."""

    def __init__(self) -> None:
        super().__init__({"a": price_lists.Price(2.0)})
        self.asked = 0

    def cost(self, model: str, provider: str, usage: Usage) -> float | None:
        self.asked += 1
        return super().cost(model, provider, usage)


@pytest.fixture(autouse=True)
def _not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, LIST, raising=False)


def costs(cache: Any, asked: List) -> list[float | None]:
    """Return what two models cost in one run."""
    remembered = RememberedPrices(cache, asked)
    found = [remembered.cost(model, "ChatA", USAGE) for model in ("a", "unknown", "a")]
    remembered.keep()
    return found


def test_asked_once() -> None:
    """A run does not look up again what it, or an earlier one, has looked up."""
    cache, asked = Cache(), List()
    assert costs(cache, asked) == costs(cache, asked) == [2e-05, None, 2e-05]
    assert asked.asked == 2


@pytest.mark.parametrize("kept", [None, 3, {"edition": [], "costs": {"a": "b"}}, {"edition": "x"}])
def test_another_list(kept: object) -> None:
    """What was kept of another edition of the list, or by somebody else, does not count."""
    cache, asked = Cache(), List()
    cache.kept["agenttape/costs"] = kept
    assert costs(cache, asked) == [2e-05, None, 2e-05]
    assert asked.asked == 2


def test_a_program_with_prices_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the program has loaded the list itself, it may have changed it, so nothing is remembered."""
    monkeypatch.setitem(sys.modules, LIST, ModuleType(LIST))
    cache, asked = Cache(), List()
    costs(cache, asked)
    assert (asked.asked, cache.kept) == (3, {})


def test_without_a_cache() -> None:
    """Without pytest's cache, each run looks up its costs."""
    asked = List()
    assert costs(None, asked) == costs(None, asked)
    assert asked.asked == 4


@pytest.mark.process
def test_sessions_end_with_their_tests(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a test ends, there is its session, and no session of the tests before it."""
    living: list[weakref.ref[Session]] = []
    real = Session.__init__

    def noting(self: Session, *args: Any) -> None:
        living.append(weakref.ref(self))
        real(self, *args)

    monkeypatch.setattr(Session, "__init__", noting)
    project.tests("@pytest.mark.cassette\n@pytest.mark.parametrize('n', [1, 2])\ndef test_it(n):\n    ask('hello')")
    project.record()
    seen = []

    class Plugin:
        def pytest_runtest_logfinish(self) -> None:
            gc.collect()
            seen.append(sum(reference() is not None for reference in living))

    living.clear()
    assert project.pytester.inline_run(plugins=[Plugin()]).ret == 0
    assert (len(living), seen) == (2, [1, 1])

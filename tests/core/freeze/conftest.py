"""A small session layer: the current session is a context variable, as it is for real sessions."""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import Context, ContextVar
from pathlib import Path
from typing import Any

import pytest

from agenttape_core.freeze import DEFAULT_KINDS, Environment, Frozen, freezing

MOMENT = 1_700_000_000.25  # 2023-11-14T22:13:20.25Z
OpenSession = Callable[..., AbstractContextManager[Frozen]]

_current: ContextVar[Frozen | None] = ContextVar("current", default=None)


def lookup() -> Frozen | None:
    """Give the current session."""
    return _current.get()


@contextmanager
def _session(
    *,
    kinds: Collection[str] = DEFAULT_KINDS,
    seed: str = "seed",
    clock: float = MOMENT,
    scope: Callable[[], str] = lambda: "root",
    environment: Environment | None = None,
) -> Iterator[Frozen]:
    frozen = Frozen(kinds=kinds, seed=seed, clock=clock, scope=scope, environment=environment)
    with freezing(lookup, kinds):
        token = _current.set(frozen)
        try:
            yield frozen
        finally:
            _current.reset(token)


def in_other_thread(function: Callable[..., object], *args: Any) -> None:
    """Call a function in a thread of nobody's, also where threads inherit the context of their maker."""
    thread = threading.Thread(target=Context().run, args=(function, *args))
    thread.start()
    thread.join()


@pytest.fixture
def session() -> OpenSession:
    """Opens sessions that are found by context."""
    return _session


@pytest.fixture
def write_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], str]]:
    """Writes importable modules, and forgets them at the end."""
    monkeypatch.syspath_prepend(str(tmp_path))
    names: list[str] = []

    def write(name: str, source: str) -> str:
        (tmp_path / f"{name}.py").write_text(source)
        names.append(name)
        return name

    yield write
    for name in names:
        sys.modules.pop(name, None)


@pytest.fixture
def loaded_module(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], types.ModuleType]:
    """Makes loaded modules out of source text."""

    def load(name: str, source: str) -> types.ModuleType:
        module = types.ModuleType(name)
        exec(source, module.__dict__)
        monkeypatch.setitem(sys.modules, name, module)
        return module

    return load

"""Integrations are connected while a session is open, as soon as their framework is imported."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any

import pytest

from agenttape_core import record_call, use_cassette
from agenttape_core.errors import ConfigurationError
from agenttape_core.guard import imports
from agenttape_core.lifecycle import entry_points, missing
from agenttape_core.lifecycle.entry_points import GROUP, Integrations

if TYPE_CHECKING:
    from pathlib import Path

FRAMEWORK = "a_framework_for_this_test"
events: list[str] = []


@contextmanager
def integration() -> Iterator[None]:
    """What an integration publishes."""
    events.append("connected")
    try:
        yield
    finally:
        events.append("disconnected")


@contextmanager
def broken() -> Iterator[None]:
    """An integration that does not fit its framework."""
    raise RuntimeError("does not fit")
    yield


@contextmanager
def recording() -> Iterator[None]:
    """A session that records a call: other tests may have imported frameworks, of which an empty one would complain."""
    with use_cassette("c", mode="once"):
        record_call("call", len, "x")
        yield


def installed(monkeypatch: pytest.MonkeyPatch, *functions: str) -> None:
    """Install only these integrations, for the framework of this test."""
    points = tuple(EntryPoint(FRAMEWORK, f"{__name__}:{function}", GROUP) for function in functions)
    monkeypatch.setattr(entry_points, "_installed", lambda _: points)


@pytest.fixture(autouse=True)
def framework(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A framework that can be imported, and one integration for it."""
    (tmp_path / f"{FRAMEWORK}.py").write_text("answer = 42\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    installed(monkeypatch, "integration")
    monkeypatch.setattr(missing, "FRAMEWORKS", {})  # those that other tests have imported
    events.clear()
    yield
    sys.modules.pop(FRAMEWORK, None)


def leaving() -> None:
    """An integration that would let a program end well."""
    sys.exit(0)


@pytest.mark.parametrize("function", ["broken", "leaving"])
def test_broken_integration_fails_the_session(monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    """What cannot be connected in the midst of a run fails it, though the program catches the error of its import.

    The framework cannot be imported at all then, however often the program tries.
    """
    with recording():
        pass
    installed(monkeypatch, function)
    with pytest.raises(ConfigurationError, match=f"integration for {FRAMEWORK} .* cannot be connected"):  # noqa: SIM117
        with use_cassette("c", on_unused="ignore"):
            record_call("call", len, "x")
            for _ in range(2):
                with pytest.raises(ConfigurationError):
                    importlib.import_module(FRAMEWORK)
    importlib.import_module(FRAMEWORK)


def test_integration_that_ends_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """An integration of a framework that is there already cannot end a program well before its block."""
    importlib.import_module(FRAMEWORK)
    installed(monkeypatch, "leaving")
    with pytest.raises(ConfigurationError, match="SystemExit: 0"), use_cassette("c", mode="all"):
        raise AssertionError("the block must not run")


def test_imported_before() -> None:
    """The integration of an imported framework is connected with the first session and goes with the last."""
    importlib.import_module(FRAMEWORK)
    integrations = Integrations()
    integrations.connect()
    integrations.connect()
    integrations.disconnect()
    assert events == ["connected"]
    integrations.disconnect()
    assert events == ["connected", "disconnected"]


def test_imported_meanwhile() -> None:
    """One that is imported while a session is open is connected after its import, and keeps its own loader."""
    before = list(sys.meta_path)
    with recording():
        assert events == []
        module: Any = importlib.import_module(FRAMEWORK)
        assert events == ["connected"]
        importlib.reload(module)
        assert events == ["connected"]
    assert events == ["connected", "disconnected"]
    assert module.answer == 42
    assert module.__loader__ is module.__spec__.loader
    assert not isinstance(module.__loader__, imports._ReportingLoader)
    assert sys.meta_path == before


def test_imported_unseen() -> None:
    """The next session connects what nobody noticed: test tools put back the finders of before, as pytest's do."""
    integrations, before = Integrations(), list(sys.meta_path)
    integrations.connect()
    sys.meta_path[:] = before
    importlib.import_module(FRAMEWORK)
    assert events == []
    integrations.connect()
    assert events == ["connected"]
    integrations.disconnect()
    integrations.disconnect()
    assert events == ["connected", "disconnected"]
    assert sys.meta_path == before


def test_package_without_a_file(tmp_path: Path) -> None:
    """A namespace package, as LlamaIndex is one, is noticed too, and what is in it is found."""
    (tmp_path / f"{FRAMEWORK}.py").unlink()
    (tmp_path / FRAMEWORK).mkdir()
    (tmp_path / FRAMEWORK / "part.py").write_text("answer = 42\n", encoding="utf-8")
    with recording():
        part: Any = importlib.import_module(f"{FRAMEWORK}.part")
        assert events == ["connected"]
    assert part.answer == 42
    assert sys.modules[FRAMEWORK].part is part
    del sys.modules[f"{FRAMEWORK}.part"]


def test_imported_afterwards() -> None:
    """One that is imported when no session is open any more is left alone."""
    with recording():
        pass
    importlib.import_module(FRAMEWORK)
    assert events == []


def test_never_imported() -> None:
    """A framework is not imported because there is an integration for it."""
    with recording():
        assert FRAMEWORK not in sys.modules
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(f"{FRAMEWORK}_that_does_not_exist")
    assert events == []


def test_one_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """When one fails to connect, those that are connected already are disconnected, and the next try starts anew."""
    importlib.import_module(FRAMEWORK)
    integrations = Integrations()
    installed(monkeypatch, "integration", "broken")
    with pytest.raises(ConfigurationError, match="does not fit"):
        integrations.connect()
    assert events == ["connected", "disconnected"]
    installed(monkeypatch, "integration")
    integrations.connect()
    integrations.disconnect()
    assert events == ["connected", "disconnected"] * 2


def test_one_that_fails_beside_one_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waited for an import when another one failed is connected once, not twice."""
    waiting = EntryPoint(FRAMEWORK, f"{__name__}:integration", GROUP)
    failing = EntryPoint("sys", f"{__name__}:broken", GROUP)
    integrations, before = Integrations(), list(sys.meta_path)
    monkeypatch.setattr(entry_points, "_installed", lambda _: (waiting, failing))
    with pytest.raises(ConfigurationError):
        integrations.connect()
    assert sys.meta_path == before
    monkeypatch.setattr(entry_points, "_installed", lambda _: (waiting,))
    integrations.connect()
    importlib.import_module(FRAMEWORK)
    integrations.disconnect()
    assert events == ["connected", "disconnected"]


def test_many_threads() -> None:
    """Sessions that open and close in many threads connect and disconnect in pairs."""
    importlib.import_module(FRAMEWORK)
    integrations, start = Integrations(), threading.Barrier(4)

    def run() -> None:
        start.wait()
        for _ in range(50):
            integrations.connect()
            integrations.disconnect()

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert events[::2] == ["connected"] * (len(events) // 2)
    assert events[1::2] == ["disconnected"] * (len(events) // 2)
    assert events

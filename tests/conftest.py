"""What holds for every test: nothing is timed, and no setting of the machine gets in."""

from __future__ import annotations

import gc
import os
import signal
import ssl
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from agenttape_core.lifecycle import session_stack
from agenttape_core.pytest_plugin.swallowed import CAUGHT

from .kit.fixtures import (
    forked_tests,
    interruptible,
    often,
    prices,
    project,
    python,
    python_of_tests,
    replays,
    uncollected,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

__all__ = [
    "forked_tests",
    "interruptible",
    "often",
    "prices",
    "project",
    "python",
    "python_of_tests",
    "replays",
    "uncollected",
]

# Compiling the packages and rewriting the tests anew, in each worker and in each process that a test starts, would cost
# more than many tests do.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Runs of pytest that tests start print no annotations into ours.
os.environ.pop("GITHUB_ACTIONS", None)
sys.dont_write_bytecode = False

# Hypothesis draws constants of the modules that happen to be loaded, too: in each worker other ones, whatever the seed.
# And it parses all of them for that.
providers._get_local_constants = lambda: providers._local_constants

# Before Python 3.13, `asyncio.run` has its handler of SIGINT printed twice in the end, and with it its own result, for
# an error that nobody sees. To print a graph's history takes as long as to record and replay the graph.
_int_to_enum = signal._int_to_enum
signal._int_to_enum = lambda value, kind: _int_to_enum(value, kind) if isinstance(value, int) else value

settings.register_profile(
    "agenttape", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=25, derandomize=True
)
settings.register_profile("quick", settings.get_profile("agenttape"), max_examples=10)
settings.register_profile("night", settings.get_profile("agenttape"), max_examples=500)
settings.load_profile("agenttape")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the tests that draw at random draw more."""
    group = parser.getgroup("agenttape's own tests")
    group.addoption("--night", action="store_true", help="run every cell of each sweep, and draw more examples")
    group.addoption("--fuzz-files", type=int, default=50, metavar="N", help="damage so many cassettes")
    group.addoption("--replays", type=int, default=1, metavar="N", help="replay each program so often at most")
    group.addoption("--orders", type=int, default=6, metavar="N", help="answer sound programs in so many orders")
    group.addoption("--programs", type=int, default=1, metavar="N", help="draw so many programs of each framework")
    group.addoption("--first-program", type=int, default=0, metavar="N", help="draw them from this seed on")
    group.addoption("--kills", type=int, default=12, metavar="N", help="kill so many recording processes")
    group.addoption("--every-check", action="store_true", help="run all checks on each integration that is broken")


def pytest_configure(config: pytest.Config) -> None:
    """Draw fewer examples in `make quick`, and more at night."""
    if _is_quick(config):
        settings.load_profile("quick")
    if config.getoption("night"):
        settings.load_profile("night")


def _is_quick(config: pytest.Config) -> bool:
    return bool(config.getoption("markexpr").startswith("not process"))


_IN_PROCESSES = "test_another_process_finds_the_recordings"
"""The check of the conformance suite that starts a process; a suite for everybody cannot have a marker of ours."""
_RECORDED_IN_PROCESSES = "kinds"
"""A fixture that starts processes, whichever test is the first to ask for it."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark those that start processes, before pytest chooses by markers; leave the night its tests."""
    for item in items:
        is_recorded = _RECORDED_IN_PROCESSES in getattr(item, "fixturenames", ())
        if is_recorded or item.name.partition("[")[0] == _IN_PROCESSES:
            item.add_marker(pytest.mark.process)
    if not (config.getoption("night") or config.getoption("update_examples", False)):  # tables are made of all cells
        kept = _without_rest_of_sweeps([item for item in items if item.get_closest_marker("night") is None])
        if config.getoption("markexpr") == "not process and not slow":
            kept = _two_cells_of_each([item for item in items if item in kept])
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = [item for item in items if item in kept]


def _without_rest_of_sweeps(items: list[pytest.Item]) -> set[pytest.Item]:
    """Return the items without the cells of sweeps whose values of parameters all are in other cells.

    The order is by a hash of the name, so that the kept cells combine all kinds of values, and are always the same.
    """
    sweeps = [item for item in items if isinstance(item, pytest.Function) and item.get_closest_marker("sweep")]
    seen: set[tuple[str, ...]] = set()
    kept = set(items).difference(sweeps)
    for item in sorted(sweeps, key=lambda item: crc32(item.nodeid.encode())):
        test = item.nodeid.partition("[")[0]
        cell = {(test, name, repr(value)) for name, value in item.callspec.params.items()}
        if not cell <= seen:
            seen |= cell
            kept.add(item)
    return kept


def _two_cells_of_each(items: list[pytest.Item]) -> set[pytest.Item]:
    """Return the items with at most two cells of each test, which are spread over its table and always the same."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in sorted(items, key=lambda item: crc32(item.nodeid.encode())):
        tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return {item for cells in tests.values() for item in cells[:2]}


def pytest_collection_finish(session: pytest.Session) -> None:
    """Let the garbage collector leave alone what is loaded: it would go through all of it thousands of times."""
    gc.collect()
    gc.freeze()
    if _is_quick(session.config):
        sys.addaudithook(_refuse_processes)


def _refuse_processes(event: str, args: tuple[Any, ...]) -> None:
    """Hold the tests without the marker `process` to what it promises; git and other small programs are let through."""
    if event == "os.fork" or (event == "subprocess.Popen" and "python" in Path(args[0] or args[1][0]).name):
        raise AssertionError("a test without the marker `process` starts one: mark it, or do without")


_forks: list[None] = []
"""An item for each fork of this process."""
os.register_at_fork(before=lambda: _forks.append(None))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Fail a test that forks, although it isn't marked `process`, in any run."""
    before = len(_forks)
    yield
    if len(_forks) > before and item.get_closest_marker("process") is None:
        raise AssertionError("a test without the marker `process` forks: mark it, or do without")


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish() -> None:
    """Save what `make coverage` has measured: pytest-xdist kills a worker whose last threads take long to end."""
    measuring = sys.modules.get("coverage")
    if measuring is not None and (measured := measuring.Coverage.current()) is not None:
        measured.save()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Don't list the failures that our tests swallow: they provoke them on purpose."""
    report = yield
    report.user_properties = [each for each in report.user_properties if each[0] != CAUGHT]
    return report


@pytest.fixture(autouse=True, scope="session")
def _no_waiting_for_the_machine() -> Iterator[None]:
    """Load no certificates, as nothing here is encrypted, and do not wait until the disk has what was written."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl.SSLContext, "load_verify_locations", lambda *_, **__: None)
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(autouse=True)
def _no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove `AGENTTAPE_*` from the environment."""
    for variable in [name for name in os.environ if name.startswith("AGENTTAPE_")]:
        monkeypatch.delenv(variable)


@pytest.fixture(autouse=True)
def _no_replay_left_open() -> Iterator[None]:
    """Take down what surrounded replays that pytest's own reports of a test in a test still hold."""
    yield
    session_stack.let_all_go()


@pytest.fixture(autouse=True, scope="module")
def _no_interpreter_left() -> Iterator[None]:
    """Fail the module that leaves another interpreter: a child forked beside one hangs (3.11), or crashes."""
    yield
    for name in ("_interpreters", "_xxsubinterpreters"):
        if name in sys.modules:
            assert len(sys.modules[name].list_all()) == 1, "an interpreter is left: destroy it"


@pytest.fixture(autouse=True)
def _no_database_left_open() -> Iterator[None]:
    """Fail the test that leaves a connection of aiosqlite open: collected later, it would fail another test."""
    before = set(threading.enumerate())
    yield
    ours = [each for each in threading.enumerate() if each.name.endswith("(_connection_worker_thread)")]
    for thread in set(ours) - before:
        thread.join(5)  # a closed one has still to end
        assert not thread.is_alive(), "a database is left open: close it, or dispose its engine"

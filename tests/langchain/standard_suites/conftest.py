"""One run of the standard suites of `langchain-tests`: recording or replaying.

`test_standard_suites.py` starts one process of pytest for each. The first has a model service; the second has no
sockets, and everything that could be reached raises. The tests of this project pass by this folder, so nothing of
`langchain-tests` is imported before a suite runs.
"""

from __future__ import annotations

import json
import os
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from agenttape_core import use_cassette

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syrupy.assertion import SnapshotAssertion

    from agenttape_core import Session

ROOT = Path(__file__).resolve().parents[3]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Say which run this is, and where its cassettes are."""
    parser.addoption("--suite-run", choices=("recording", "replaying"), default="recording")
    parser.addoption("--suite-folder", type=Path, help="where the cassettes and the counts of a run go")


@pytest.fixture(scope="session")
def run(request: pytest.FixtureRequest) -> str:
    """The name of this run."""
    named: str = request.config.getoption("--suite-run")
    return named


@pytest.fixture(scope="session")
def counts(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """The numbers of executed and replayed calls of each test; written when the run ends."""
    counts: dict[str, Any] = {}
    yield counts
    named = f"{request.config.getoption('--suite-run')}.json"
    (request.config.getoption("--suite-folder") / named).write_text(json.dumps(counts), encoding="utf-8")


@pytest.fixture(scope="session", autouse=True)
def _originals(run: str) -> Iterator[None]:
    """In a replay, every method that would reach the world raises."""
    from .originals import ORIGINALS, World

    with pytest.MonkeyPatch.context() as patch:
        if run == "replaying":
            World.gone = True
            for cls, names in ORIGINALS.items():
                for name in names:
                    patch.setattr(cls, name, _raising(cls, name))
        yield
        World.gone = False


def _raising(cls: type, name: str) -> Any:
    def original(*_: Any, **__: Any) -> Any:
        raise AssertionError(f"{cls.__name__}.{name} was really called although this is a replay")

    return original


@pytest.fixture(scope="session", autouse=True)
def _service(run: str) -> Iterator[None]:
    """Have OpenAI's client find the loopback server, except in a replay."""
    from .originals import GONE

    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "examples"))
        patch.setenv("OPENAI_API_KEY", "any-text")
        loopback = import_module("weather_agent.server").OpenAILoopback
        with nullcontext() if run == "replaying" else loopback() as server:
            patch.setenv("OPENAI_BASE_URL", server.base_url if server else GONE)
            yield


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_the_disk() -> Iterator[None]:
    """Nothing here is about crashes, and the files are many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _files_of_the_web() -> Iterator[None]:
    """The suites fetch a picture, a sound and a document; what is in them does not matter."""
    suite = import_module("langchain_tests.integration_tests.chat_models")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(suite, "httpx", SimpleNamespace(get=lambda url, **_: SimpleNamespace(content=url.encode())))
        patch.setattr(suite, "_get_base64_from_url", lambda _: "UklGRg==")
        yield


@pytest.fixture
def snapshot(snapshot: SnapshotAssertion, request: pytest.FixtureRequest) -> SnapshotAssertion:
    """Compare a serialised model with what it was in the first run."""
    from syrupy.extensions.amber import AmberSnapshotExtension

    # A folder of their own: syrupy compares each file beside its snapshots with each test.
    folder = str(request.config.getoption("--suite-folder") / "snapshots")
    here = type("Here", (AmberSnapshotExtension,), {"dirname": classmethod(lambda *_, **__: folder)})
    return snapshot.use_extension(here)


@pytest.fixture
def cassette(request: pytest.FixtureRequest) -> Path:
    """The cassette of a test."""
    name = request.node.nodeid.rpartition("/")[2].replace("::", ".")
    path: Path = request.config.getoption("--suite-folder") / f"{name.replace('[', '-').strip(']')}.yaml"
    return path


@pytest.fixture(autouse=True)
def session(
    run: str, counts: dict[str, Any], cassette: Path, request: pytest.FixtureRequest
) -> Iterator[Session | None]:
    """The session of a test; none for what needs none."""
    automatic = request.cls.automatic
    if automatic is None:
        yield None
        return
    with use_cassette(cassette, mode="all" if run == "recording" else "none", auto=automatic) as session:
        yield session
    report = session.report
    assert run == "recording" or not report.recorded
    counts[request.node.nodeid] = len(report.recorded) + len(report.replayed)

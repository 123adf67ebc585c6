"""Fixtures of the LangChain package: two stand-ins for OpenAI's service, both on loopback.

`loopback` answers like a model and never twice the same (the example's server); `real_exchanges` plays back
what OpenAI's service really sent, from the data folder beside the repository.
"""

from __future__ import annotations

import json
from contextlib import ExitStack, contextmanager
from http.server import ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from runpy import run_path
from typing import TYPE_CHECKING, Any, Self

import pytest

from ..kit import forks
from ..kit.replaying import Twice
from ..kit.serving import serving
from .fakes import World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from examples.weather_agent.server import OpenAILoopback

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT / ".." / "shared"
NO_PLUGINS = "-p no:benchmark -p no:codspeed -p no:langsmith_plugin -p no:randomly -p no:socket -p no:syrupy"
"""The options of runs in a test's process, without the plugins that LangChain's packages bring."""


class RealExchanges:
    """A running service that plays one file of real exchanges.

    Args:
        data_file: The exchanges, one JSON object a line.
    """

    def __init__(self, data_file: Path) -> None:
        tool = run_path(str(SHARED / "tools" / "openai_loopback.py"))
        self.exchanges = [json.loads(line) for line in data_file.read_text("utf-8").splitlines()]
        self._playing = tool["Exchanges"]([])
        self._playing.items, self._playing.used = [*self.exchanges], [False] * len(self.exchanges)
        self._service = ExitStack()
        server = ThreadingHTTPServer(("127.0.0.1", 0), tool["make_handler"](self._playing, 0))
        self.base_url = f"http://127.0.0.1:{self._service.enter_context(serving(server)).server_port}/v1"

    def stats(self) -> dict[str, int]:
        """The numbers of requests that were `served` from the file, and that `missed` it."""
        return {"served": self._playing.served, "missed": self._playing.missed}

    def stop(self) -> None:
        """Take the service away; a second time does nothing."""
        self._playing.items.clear()  # a connection that a client keeps is answered with an error
        self._service.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a `python` that begins with the model's package loaded."""
    loaded = (*forks.SESSION, "langchain_openai", "openai.resources.chat")
    with forks.commands(tmp_path_factory.mktemp("python"), loaded, "python") as folder:
        yield folder


@pytest.fixture
def world() -> Iterator[World]:
    """The world that scripted models and tools reach. If a test makes it `gone`, reaching it fails the test."""
    world = World()
    yield world
    assert world.trespasses == []


@pytest.fixture
def twice(world: World, tmp_path: Path) -> Twice:
    """Record a run, and replay it without the world."""
    return Twice(tmp_path / "twice.yaml", world)


@pytest.fixture
def loopback(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAILoopback]:
    """A running server that speaks Chat Completions and answers differently every time."""
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    with import_module("weather_agent.server").OpenAILoopback() as server:
        yield server


@contextmanager
def serving_as_openai(reply: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Serve replies where clients of OpenAI ask."""
    with import_module("examples.weather_agent.server").OpenAILoopback(reply) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-any")
        yield


@pytest.fixture
def real_exchanges() -> Iterator[Callable[[str], RealExchanges]]:
    """Start the service on a data file, by its name without suffix; it ends with the test."""
    with ExitStack() as stack:

        def start(name: str) -> RealExchanges:
            data_file = SHARED / "data" / "openai" / f"{name}.jsonl"
            if not data_file.exists():
                pytest.skip(f"the real exchanges are not here: ../shared/data/openai/{name}.jsonl")
            return stack.enter_context(RealExchanges(data_file))

        yield start

"""A replay reports to LangSmith only if it is traced, and is then marked there."""

# ruff: noqa: D103 - what is no test says by its name what it does

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import langsmith
import pytest
from langchain_core.tracers.context import tracing_v2_enabled
from langchain_core.tracers.langchain import LangChainTracer, wait_for_all_tracers
from langchain_core.tracers.run_collector import RunCollectorCallbackHandler
from langsmith import run_trees, traceable, tracing_context
from langsmith import utils as langsmith_utils

from agenttape_core import use_cassette
from agenttape_core.errors import NetworkBlockedError

from ..kit.serving import serving
from .fakes import AsyncChat, World


class FakeClient(langsmith.Client):
    """A client that keeps what it would send."""

    def __init__(self) -> None:
        super().__init__(api_url="http://localhost:1", api_key="k", auto_batch_tracing=False)
        self.created: list[dict[str, Any]] = []
        self.updated: list[dict[str, Any]] = []

    def create_run(self, *args: Any, **kwargs: Any) -> None:
        self.created.append(kwargs)

    def update_run(self, *args: Any, **kwargs: Any) -> None:
        self.updated.append(kwargs)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    """The client of all tracing that names none of its own."""
    client = FakeClient()
    monkeypatch.setattr(run_trees, "_CLIENT", client)
    return client


@pytest.fixture(autouse=True)
def _fresh_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """LangSmith remembers what it read from the environment."""
    for name in ("LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2", "LANGSMITH_ENDPOINT", "LANGCHAIN_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    langsmith_utils.get_env_var.cache_clear()
    yield
    monkeypatch.undo()
    langsmith_utils.get_env_var.cache_clear()


@pytest.fixture
def path(world: World, tmp_path: Path) -> Path:
    """A cassette that holds one question, recorded without tracing."""
    path = tmp_path / "question.yaml"
    with use_cassette(path, mode="all"):
        AsyncChat(world=world).invoke("hi")
    world.gone = True
    return path


def turn_on(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "true")
    langsmith_utils.get_env_var.cache_clear()


def by_environment(monkeypatch: pytest.MonkeyPatch, model: Any) -> None:
    turn_on(monkeypatch, "LANGSMITH_TRACING")
    model.invoke("hi")


def by_older_variable(monkeypatch: pytest.MonkeyPatch, model: Any) -> None:
    turn_on(monkeypatch, "LANGCHAIN_TRACING_V2")
    asyncio.run(model.ainvoke("hi"))


def by_context(monkeypatch: pytest.MonkeyPatch, model: Any) -> None:
    with tracing_context(enabled=True):
        model.invoke("hi")


def by_langchains_context(monkeypatch: pytest.MonkeyPatch, model: Any) -> None:
    with tracing_v2_enabled():
        model.invoke("hi")


def by_callback(monkeypatch: pytest.MonkeyPatch, model: Any) -> None:
    model.invoke("hi", config={"callbacks": [LangChainTracer()]})


def by_async_callback(monkeypatch: pytest.MonkeyPatch, model: Any) -> None:
    asyncio.run(model.ainvoke("hi", config={"callbacks": [LangChainTracer()]}))


def by_traceable(monkeypatch: pytest.MonkeyPatch, model: Any) -> None:
    turn_on(monkeypatch, "LANGSMITH_TRACING")

    @traceable
    def ask() -> Any:
        return model.invoke("hi")

    ask()


def by_forced_traceable(monkeypatch: pytest.MonkeyPatch, model: Any) -> None:
    @traceable(enabled=True)
    def ask() -> Any:
        return model.invoke("hi")

    ask()


WAYS = [
    by_environment, by_older_variable, by_context, by_langchains_context,
    by_callback, by_async_callback, by_traceable, by_forced_traceable,
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_silent_in_a_replay(
    way: Callable[..., None], world: World, path: Path, client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However tracing is turned on, a replay reports nothing; before and after it, and while recording, all goes on."""
    model = AsyncChat(world=world)
    with use_cassette(path):
        way(monkeypatch, model)
    assert (client.created, client.updated) == ([], [])
    world.gone = False
    with use_cassette(path, mode="all"):
        way(monkeypatch, model)
    recorded = [run["name"] for run in client.created]
    assert "AsyncChat" in recorded
    assert len(client.updated) == len(recorded)
    way(monkeypatch, model)
    assert [run["name"] for run in client.created] == recorded * 2
    assert not [run for run in client.created if "agenttape" in json.dumps([run["tags"], run["extra"]], default=str)]


@pytest.mark.parametrize("way", WAYS)
def test_marked_when_asked_for(
    way: Callable[..., None], world: World, path: Path, client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `allow_hosts={"tracing"}` a replay reports every run, each with the tag and with the cassette's name."""
    with use_cassette(path, allow_hosts={"tracing"}):
        way(monkeypatch, AsyncChat(world=world))
    assert "AsyncChat" in [run["name"] for run in client.created]
    for run in client.created + client.updated:
        assert run["tags"].count("agenttape:replay") == 1
        assert run["extra"]["metadata"]["agenttape_cassette"] == "question.yaml"


def test_the_users_tags_are_left_alone(world: World, path: Path, client: FakeClient) -> None:
    """The mark goes to what is sent, not into lists and dicts of the user's."""
    tags, metadata = ["mine"], {"a": 1}

    @traceable(enabled=True, tags=tags, metadata=metadata)
    def ask() -> Any:
        config: Any = {"tags": tags, "metadata": metadata}
        return AsyncChat(world=world).invoke("hi", config=config)

    with use_cassette(path, allow_hosts={"tracing"}):
        ask()
    assert client.created
    assert (tags, metadata) == (["mine"], {"a": 1})


def test_the_setting(world: World, path: Path, client: FakeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment may ask for it, and the call wins."""
    monkeypatch.setenv("AGENTTAPE_ALLOW_HOSTS", "tracing")
    with use_cassette(path):
        by_context(monkeypatch, AsyncChat(world=world))
    assert len(client.created) == 1
    with use_cassette(path, allow_hosts=()):
        by_context(monkeypatch, AsyncChat(world=world))
    assert len(client.created) == 1


async def test_outside_of_the_session(world: World, path: Path, client: FakeClient) -> None:
    """A task and a thread that are outside of a replay go on tracing while it is open."""

    @traceable(enabled=True)
    def work(name: str) -> str:
        return name

    may_begin = asyncio.Event()

    async def beside() -> None:
        await may_begin.wait()
        work("task")

    task = asyncio.create_task(beside())
    with use_cassette(path):
        may_begin.set()
        await task
        thread = threading.Thread(target=work, args=("thread",))
        thread.start()
        thread.join()
        work("inside")
        await AsyncChat(world=world).ainvoke("hi")
    assert [run["inputs"]["name"] for run in client.created] == ["task", "thread"]


async def test_local_handlers_stay(world: World, path: Path, client: FakeClient) -> None:
    """Handlers that collect runs within the process work in a replay as usual."""
    collector = RunCollectorCallbackHandler()
    with use_cassette(path):
        await AsyncChat(world=world).ainvoke("hi", config={"callbacks": [collector]})
    assert [run.name for run in collector.traced_runs] == ["AsyncChat"]


# -- the real client, which sends from a thread of its own ---------------------------------------------------------


class _Collecting(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._answer(_INFO)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.posted.extend(body.get("post", []))  # type: ignore[attr-defined]
        self._answer({})

    def _answer(self, content: Any) -> None:
        data = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Keep silent."""


_INFO = {
    "version": "1",
    "batch_ingest_config": {
        "use_multipart_endpoint": False,
        "size_limit": 100,
        "size_limit_bytes": 20_000_000,
        "scale_up_nthreads_limit": 1,
        "scale_up_qsize_trigger": 1000,
        "scale_down_nempty_trigger": 4,
    },
}


@contextmanager
def collecting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A service on loopback that collects runs, and an environment that traces to it."""
    service = ThreadingHTTPServer(("127.0.0.1", 0), _Collecting)
    service.posted = []  # type: ignore[attr-defined]
    with serving(service) as server:
        monkeypatch.setattr(run_trees, "_CLIENT", None)
        monkeypatch.setenv("LANGSMITH_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("LANGSMITH_API_KEY", "k")
        turn_on(monkeypatch, "LANGSMITH_TRACING")
        try:
            yield server
        finally:
            wait_for_all_tracers()
            if run_trees._CLIENT is not None:
                run_trees._CLIENT.cleanup()


@pytest.mark.parametrize("tracing", [True, False])
def test_over_the_network(tracing: bool, world: World, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's thread reaches LangSmith through the guard, with traced runs and with earlier ones."""
    with collecting(monkeypatch) as server:
        by_environment(monkeypatch, AsyncChat(world=World()))
        with use_cassette(path, allow_hosts={"tracing"} if tracing else ()) as replay:
            AsyncChat(world=world).invoke("hi")
            wait_for_all_tracers()
            sent = sorted(bool(run["tags"]) for run in server.posted)  # several threads of the client send
    assert sent == ([False, True] if tracing else [False])
    assert replay.report.blocked == ()


def test_other_calls_to_langsmith_are_refused(world: World, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the tracer's thread may reach LangSmith: a prompt that the run pulls from there is no trace."""
    with collecting(monkeypatch), pytest.raises(NetworkBlockedError), use_cassette(path):
        langsmith.Client(auto_batch_tracing=False).list_prompts()

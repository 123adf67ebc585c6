"""The library's agent tells its story; its client keeps every point of the kit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agenttape_core.testing import run_conformance

from ..llamaindex.kit.conformance import EmbeddingConformance, LLMConformance
from .conftest import EXAMPLES

if TYPE_CHECKING:
    from weather_agent.server import OpenAILoopback


pytestmark = pytest.mark.filterwarnings("ignore:.*attribute.*is deprecated")  # LlamaIndex's agents read such names


@pytest.fixture(autouse=True)
def _examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Find the examples."""
    monkeypatch.syspath_prepend(str(EXAMPLES))


def test_story_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It records, replays the same without its service, misses an edited word, and leaves nothing behind."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("AGENTTAPE_MODE", "all")  # a reader's own settings change nothing
    monkeypatch.setattr("tempfile.tempdir", None)
    assert import_module("library_agent.demo").main() == 0
    told = capsys.readouterr().out
    assert "RECORD   0 replayed, 6 recorded; 1 book reserved" in told
    assert "REPLAY   6 replayed, 0 recorded" in told
    assert "streamed events are equal" in told
    assert "- You are a librarian." in told
    assert "+ You are a bookseller." in told
    assert list(tmp_path.iterdir()) == []


def test_broken_story_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The story is not told to its end when an edited word finds a recording."""
    demo = import_module("library_agent.demo")
    monkeypatch.setattr(demo, "broken", lambda *_: "")
    assert demo.run(tmp_path) is False


def test_agent_does_not_know_agenttape() -> None:
    """Neither the agent nor its client imports AgentTape."""
    for name in ("agent", "client"):
        assert "import agenttape" not in (EXAMPLES / "library_agent" / f"{name}.py").read_text(encoding="utf-8")
        assert "from agenttape" not in (EXAMPLES / "library_agent" / f"{name}.py").read_text(encoding="utf-8")


class Served:
    """A suite with a service around each point."""

    server: OpenAILoopback

    @contextmanager
    def around(self, point: str) -> Iterator[None]:
        policy = import_module("weather_agent.policy")

        def answered(turn: Any) -> Any:
            tools = policy.UseEveryTool()._choose(turn)
            asked = f"{len(turn.body['messages'])} {turn.body['messages'][-1]['content']}"
            return policy.UseEveryTool()(turn) if tools else policy.Reply(f"You asked: {asked}")

        loopback = import_module("weather_agent.server").OpenAILoopback
        with loopback(lambda turn: answered(numberless(turn)), same_vectors=True) as self.server:
            yield


def numberless(turn: Any) -> Any:
    """Return a turn whose number says nothing, so that equal requests are answered alike."""
    return type(turn)(turn.body, 7)


class ServiceLLMConformance(Served, LLMConformance):
    """The example's LLM."""

    def make(self) -> Any:
        return import_module("library_agent.client").ServiceLLM(base_url=self.server.base_url)

    def make_failing(self) -> Any:
        self.server.fail_next(500)
        return self.make()

    def make_breaking(self) -> Any:
        self.server.cut_next_stream(after=3)
        return self.make()


class ServiceEmbeddingConformance(Served, EmbeddingConformance):
    """The example's embedding model."""

    def make(self) -> Any:
        return import_module("library_agent.client").ServiceEmbedding(base_url=self.server.base_url)

    def make_failing(self) -> Any:
        self.server.fail_next(500)
        return self.make()


@pytest.mark.parametrize("suite", [ServiceLLMConformance, ServiceEmbeddingConformance])
def test_client_keeps_every_point(suite: type[Any]) -> None:
    """The example's client is a model to copy: it keeps every point that applies to it."""
    results = run_conformance(suite)
    assert [str(result) for result in results if result.outcome == "failed"] == []
    assert sum(result.outcome == "passed" for result in results) > 25

"""The library's agent tells its story."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from .conftest import EXAMPLES

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

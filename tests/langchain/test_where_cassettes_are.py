"""Where the objects of LangChain's integration look for a bare name: a setting and a variable name the folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from langchain_core.language_models import FakeListChatModel

from agenttape_core import use_cassette
from agenttape_langchain import ReplayChatModel, TapeCallbackHandler

MODEL = FakeListChatModel(responses=["hi"])


@pytest.mark.parametrize(
    ("setting", "variable", "folder"),
    [("", "", "cassettes"), ("kept", "", "kept"), ("", "traces", "traces"), ("kept", "traces", "traces")],
)
def test_handlers_and_replay_models(
    setting: str, variable: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a handler observes under a bare name, and what a model replays under it, is in the folder of the project."""
    monkeypatch.chdir(tmp_path)
    Path("pyproject.toml").write_text(f"[tool.agenttape]\n{f'cassette_dir = {setting!r}' if setting else ''}\n")
    if variable:
        monkeypatch.setenv("AGENTTAPE_CASSETTE_DIR", variable)
    handler = TapeCallbackHandler("seen")
    MODEL.invoke("hello", config={"callbacks": [handler]})
    with use_cassette("made", mode="all"):
        MODEL.invoke("hello")
    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.yaml")) == [
        f"{folder}/made.yaml",
        f"{folder}/seen.yaml",
    ]
    for name in ("seen", "made"):
        assert ReplayChatModel(name).invoke("hello").text == "hi"

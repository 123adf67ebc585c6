"""`agenttape diff --base`: the recordings of the working tree beside those of a revision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ...kit.git import git
from .conftest import Ended, record

pytestmark = pytest.mark.process


@pytest.fixture
def repository(folder: Path) -> Path:
    """A repository in which one recording was changed since the last commit."""
    git("init", "-q", ".")
    git("add", "-A")
    git("commit", "-qm", "first")
    record(folder / "cassettes" / "weather.yaml", "Snow?")
    record(folder / "cassettes" / "new.yaml")
    return folder


def test_as_text_and_data(repository: Path, command: Any) -> None:
    """It says what has changed, as text, as Markdown and as data; other files are none of its business."""
    ended: Ended = command("diff")
    assert (ended.code, ended.out.splitlines()[0]) == (
        0,
        "AgentTape: 2 of 2 recordings changed, none took another path",
    )
    found = command("diff", "--base", "HEAD", "--json", "cassettes").json
    assert [(one["path"], one["state"]) for one in found["recordings"]] == [
        ("cassettes/new.yaml", "new"),
        ("cassettes/weather.yaml", "words"),
    ]
    assert command("diff", "--report", "diff.md").code == 0
    assert "\n### AgentTape: 2 of 2" in Path("diff.md").read_text("utf-8")
    assert command("diff", "--exit-code").code == 0
    (repository / "cassettes" / "weather.yaml").write_text("broken: [")
    broken = command("diff", "--exit-code")
    assert broken.code == 1
    assert "cassettes/weather.yaml:" in broken.out
    assert ".yaml.yaml" not in broken.out


def test_for_github(repository: Path, command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is added to the summary of the job, and a comment is written; a pull request has the branch as its base."""
    assert command("diff", "--github").code == 2
    summary = repository / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    ended: Ended = command("diff", "--github", "--report", "comment.md")
    assert (ended.code, ended.out) == (0, "")
    assert summary.read_text().startswith("before\n### AgentTape: 2 of 2 recordings changed")
    assert (repository / "comment.md").read_text().startswith("<!-- agenttape-report -->\n### AgentTape")
    monkeypatch.setenv("GITHUB_BASE_REF", "main")
    git("update-ref", "refs/remotes/origin/main", "HEAD")
    assert command("diff", "--json").json["base"] == "origin/main"


@pytest.mark.parametrize("base", ["nothing-like-it", "--output=x", "-h"])
def test_wrong_revisions(repository: Path, command: Any, base: str) -> None:
    """A revision that git does not know is refused, and no option gets to git."""
    ended: Ended = command("diff", f"--base={base}")
    assert ended.code == 2
    assert "a commit, branch or tag" in ended.err
    assert not (repository / "x").exists()

"""Many runs at once: totals by what calls belong to, coverage, and folders side by side."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agenttape_core.tools.reading.summary import WAYS, Group

from .conftest import record

SUMS = ("input_tokens", "output_tokens", "unpriced")


@pytest.mark.sweep
@pytest.mark.parametrize("way", WAYS)
def test_sums_agree(kind: str, way: str, recorded: Path, command: Any) -> None:
    """Whatever calls are grouped by, the sums over the groups are those of `stats`."""
    whole, groups = (
        command("show", "--stats", recorded, "--json").json,
        command("show", "--stats", recorded, "--by", way, "--json").json["groups"],
    )
    assert sum(group["calls"] for group in groups) == whole["interactions"]
    assert sum(group["failed"] for group in groups) == whole["raised"] + whole["cancelled"]
    assert [sum(group[name] for group in groups) for name in SUMS] == [whole[name] for name in SUMS]
    assert sum(group["seconds"] for group in groups) == pytest.approx(whole["seconds"], abs=0.01)
    assert len({group["name"] for group in groups}) == len(groups)
    assert command("show", "--stats", recorded, "--by", way).code == 0


def test_groups_of_an_agent(kinds: Any, command: Any) -> None:
    """The calls of an agent are found by its nodes and tools, with the time until its streams began."""

    def groups_by(way: str) -> dict[str, Any]:
        """Return the totals by what calls belong to."""
        found = command("show", "--stats", kinds["langchain"], "--by", way, "--json").json["groups"]
        return {group["name"]: group for group in found}

    nodes = groups_by("node")
    assert {name: group["calls"] for name, group in nodes.items()} == {"model": 2, "tools": 1}
    assert nodes["model"]["ttft_ms"] is not None
    assert {name: group["calls"] for name, group in groups_by("tool").items()} == {"": 2, "temperature": 1}
    assert list(groups_by("turn")) == [f"{kinds['langchain']} turn 1"]


def test_time_to_the_first_chunk() -> None:
    """The time to the first chunk is told as median and 95th percentile."""
    group = Group("x", first_ms=[float(number) for number in range(1, 102)])
    assert (group.ttft(0.5), group.ttft(0.95)) == (51.0, 96.0)
    assert (Group("x", first_ms=[3.0]).ttft(0.95), Group("x").ttft(0.5)) == (3.0, None)


def test_coverage(kind: str, recorded: Path, command: Any) -> None:
    """Tools that were offered, called and never failed are told; less than is asked for ends with 1."""
    found = command("check", "--only", "coverage", recorded, "--json").json["coverage"]
    if kind in {"langchain", "llamaindex"}:
        assert found["tools"] == [{"name": "temperature", "offered": 2, "called": 1, "failed": 0}]
        assert found["never"]["errors"] == ["temperature"]
    if kind == "langgraph":
        edges = {(each["from"], each["to"]): each["count"] for each in found["edges"]}
        assert edges[("__start__", "left")] == edges[("__start__", "right")] == edges[("join", "__end__")] == 1
    assert command("check", "--only", "coverage", recorded, "--fail-under", "100").code == 0


def test_coverage_of_a_graph(kinds: Any, folder: Path, command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes and edges of a graph that no run took are named, and count."""
    edges = [("__start__", "left"), ("left", "join"), ("join", "lost"), ("lost", "__end__")]
    drawn = SimpleNamespace(
        nodes=["__start__", "left", "join", "lost", "__end__"],
        edges=[SimpleNamespace(source=source, target=target) for source, target in edges],
    )
    app = SimpleNamespace(graph=SimpleNamespace(get_graph=lambda: drawn), other=3)
    monkeypatch.setitem(sys.modules, "house_app", app)
    shutil.copy(kinds["langgraph"], folder / "run.yaml")
    words = ("check", "--only", "coverage", "run.yaml", "--graph")
    result = command(*words, "house_app:graph", "--fail-under", "80", "--json")
    assert result.code == 1
    assert result.json["coverage"]["never"]["nodes"] == ["lost"]
    assert result.json["coverage"]["never"]["edges"] == ["join → lost", "lost → __end__"]
    assert "nodes that never ran: lost" in command(*words, "house_app:graph").out
    assert command(*words, "house_app:other").code == command(*words, "house_app:none").code == 2


def test_folders_side_by_side(folder: Path, command: Any) -> None:
    """Cassettes of one name are compared: same, other words, new, gone; a new recording of the same run is the same."""
    for name in ("same", "words", "gone"):
        record(folder / "before" / f"{name}.yaml")
    for name, question in {"same": "Rain?", "words": "Snow?", "new": "Rain?"}.items():
        record(folder / "now" / f"{name}.yaml", question)
    result = command("diff", "before", "now", "--exit-code")
    assert result.code == 1
    lines = [line.split()[:2] for line in result.out.splitlines()]
    assert lines[:4] == [["gone", "gone.yaml"], ["new", "new.yaml"], ["same", "same.yaml"], ["words", "words.yaml"]]
    assert "3 of 4 changed" in result.out
    assert command("diff", "before", "now", "--report", "diff.md").code == 0
    assert "| `words.yaml` | other words |" in Path("diff.md").read_text("utf-8")
    assert command("diff", "before", "now", "--json").json["changed"] == 3
    for name in ("words", "new"):
        (folder / "now" / f"{name}.yaml").unlink()
    for name in ("words", "gone"):
        (folder / "before" / f"{name}.yaml").unlink()
    assert command("diff", "before", "now", "--exit-code").code == 0
    assert command("diff", "before", "now", "--ignore", "model").code == 2
    assert command("diff", "before/same.yaml", "now/same.yaml", "--report", "diff.md").code == 2

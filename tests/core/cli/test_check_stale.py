"""Which cassettes are stale, and which are not."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agenttape_core.schema import Volatile

from ...kit.records import call, written

CALM = "You are a librarian. Be calm, be polite, and say what we have."
SHORT = "You are a librarian. Be short, be polite, and say what we have."


def aged(
    path: Path,
    days: float,
    system: str = CALM,
    *,
    model: str = "gpt-6",
    packages: dict[str, str] | None = None,
    description: str = "Reserve a book.",
) -> str:
    """Write a cassette of an agent that was recorded so many days ago."""
    created = (datetime.now(UTC) - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")
    messages = [{"role": "system", "content": system}, {"role": "user", "content": "Dune?"}]
    function = {"name": "reserve", "description": description, "parameters": {}}
    request = {"model": model, "messages": messages, "tools": [{"type": "function", "function": function}]}
    volatile = Volatile(created=created, packages=packages or {})
    return written(path, call(1, "agent/model@1/Chat", kind="chat", request=request), volatile=volatile).name


@pytest.fixture
def stale(command: Any, folder: Path) -> Any:
    """Run the command on cassettes; returns its exit code and what it found: cassette, check, text."""

    def stale(*words: object) -> tuple[int, list[tuple[str, str, str]]]:
        words = (*words, *(() if "--only" in words else ("--only", "stale")))
        ended = command("check", *words, "--json")
        assert command("check", *words).code == ended.code
        found = [each for run in ended.json["runs"] for one in run["checks"] for each in one["findings"]]
        return ended.code, [(each["path"], each["rule"], each["message"]) for each in found]

    return stale


@pytest.mark.parametrize("age", ["90", "90d", "12w", "2100h"])
def test_age(stale: Any, folder: Path, age: str) -> None:
    """A cassette may be as old as it is said, in hours, days or weeks; without a limit, of any age."""
    old, new = aged(folder / "old.yaml", 99), aged(folder / "new.yaml", 80)
    assert stale(old, new, "--max-age", age) == (1, [(old, "age", "recorded 99 days ago")])
    assert stale(old, new) == (0, [])


def test_models(command: Any, stale: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that is gone makes a cassette stale, one that will be is told; only a table of the project says so."""
    assert stale(aged(folder / "old.yaml", 1, model="gpt-4")) == (0, [])
    day = (datetime.now(UTC) + timedelta(days=9)).date().isoformat()
    (folder / "dates.json").write_text(json.dumps({"gone-1": "2026-01-31", "going": day}))
    monkeypatch.setenv("AGENTTAPE_RETIREMENTS", "dates.json")
    gone = aged(folder / "gone.yaml", 1, model="openai/Gone-1-2025-01-01")
    going = aged(folder / "going.yaml", 1, model="going")
    assert stale(gone) == (1, [(gone, "model", "openai/Gone-1-2025-01-01 was retired on 2026-01-31")])
    assert stale(going) == (0, [(going, "model", f"going will be retired on {day}")])
    assert stale(aged(folder / "other.yaml", 1, model="unknown")) == (0, [])
    (folder / "dates.json").write_text(json.dumps({"gone-1": "soon"}))
    ended = command("check", "--only", "stale", gone)
    assert (ended.code, "no table of retirements" in ended.err) == (2, True)


@pytest.mark.parametrize(
    ("version", "is_stale"), [("0.0", True), ("999.1.2", True), ("{}", False), ("{}.post9", False)]
)
def test_packages(stale: Any, folder: Path, version: str, is_stale: bool) -> None:
    """Another minor version of a package makes a cassette stale; what is not installed says nothing."""
    from importlib.metadata import version as installed

    now = ".".join(installed("pydantic").split(".")[:2])
    packages = {"pydantic": version.format(now), "not-installed-here": "1.0"}
    code, found = stale(aged(folder / "a.yaml", 1, packages=packages))
    assert (code, [check for _, check, _ in found]) == ((1, ["package"]) if is_stale else (0, []))


def test_an_older_prompt(stale: Any, folder: Path) -> None:
    """A cassette with an older version of the prompt that a later one has is stale, and it says which words."""
    old, new = aged(folder / "old.yaml", 9), aged(folder / "new.yaml", 1, SHORT)
    code, ((path, check, what),) = stale(old, new)
    assert (code, path, check) == (1, old, "prompt")
    assert what.startswith(f"older than the system prompt with the tools reserve in {new}: ")
    assert "[-calm-]" in what
    assert "{+short+}" in what
    assert stale(old, new, "--only", "tool") == (0, [])


def test_prompts_that_differ_by_design(stale: Any, folder: Path) -> None:
    """What is recorded together, what is used again later, and what is not alike is no older version."""
    together = [aged(folder / f"{n}.yaml", 1 + n / 1000, system) for n, system in enumerate((CALM, SHORT))]
    assert stale(*together) == (0, [])
    ages = enumerate([(9, CALM), (5, SHORT), (1, CALM)])
    again = [aged(folder / f"{n}.yaml", day, system) for n, (day, system) in ages]
    assert stale(*again)[1] == []
    other = aged(folder / "b.yaml", 1, "Translate all of this into French, please.")
    assert stale(aged(folder / "a.yaml", 9), other) == (0, [])


def test_prompts_that_are_different_each_time(stale: Any, folder: Path) -> None:
    """Of a place with many prompts, none is taken for an older version."""
    paths = [aged(folder / f"{n}.yaml", n + 1, f"{CALM} It is day {n}.") for n in range(21)]
    assert stale(*paths) == (0, [])
    assert stale(*paths[:2])[0] == 1


def test_an_older_tool(stale: Any, folder: Path) -> None:
    """A cassette whose model was offered an older form of a tool than in a later one is stale."""
    old = aged(folder / "old.yaml", 9)
    new = aged(folder / "new.yaml", 1, description="Reserve a book for a week.")
    code, ((path, check, what),) = stale(old, new)
    assert (code, path, check) == (1, old, "tool")
    assert what.startswith(f"reserve is older than in {new}: ")


@pytest.mark.parametrize("created", ["", "yesterday", "2026-13-99"])
def test_a_time_that_is_none(command: Any, stale: Any, folder: Path, created: str) -> None:
    """A cassette that does not say when it was recorded is too old for any limit; it is listed all the same."""
    path = folder / aged(folder / "a.yaml", 1)
    text = path.read_text()
    was = text[text.index("created:") :].partition("\n")[0]
    path.write_text(text.replace(was, f'created: "{created}"'))
    assert stale("a.yaml", "--max-age", "90d") == (1, [("a.yaml", "age", "it does not say when it was recorded")])
    assert stale("a.yaml") == (0, [])
    assert command("ls", "a.yaml").out.splitlines()[1].split()[1] == "?"


def test_a_time_without_a_zone(stale: Any, folder: Path) -> None:
    """It is taken for UTC."""
    path = folder / aged(folder / "a.yaml", 1)
    path.write_text(path.read_text().replace('Z"\n', '"\n'))
    assert stale("a.yaml", "--max-age", "20h")[0] == 1
    assert stale("a.yaml", "--max-age", "30h")[0] == 0


def test_bad_input(command: Any, folder: Path) -> None:
    """An age that is none ends with 2; a cassette that cannot be read ends with 3, beside what was found."""
    assert command("check", "--only", "stale", "--max-age", "soon").code == 2
    assert "--max-age=soon: expected a number of days" in command("check", "--only", "stale", "--max-age", "soon").err
    aged(folder / "old.yaml", 99)
    (folder / "broken.yaml").write_text("agenttape: 2\nname: x\n---\ninteraction: x\n")
    ended = command("check", "--only", "stale", ".", "--max-age", "90d", "--json")
    assert ended.code == 3
    assert {run["path"] for run in ended.json["runs"]} >= {"old.yaml", "broken.yaml"}
    assert command("check", "--only", "stale", "gone.yaml").code == 3

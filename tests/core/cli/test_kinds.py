"""The commands that read cassettes, on one of each kind: plain functions, LangChain, LangGraph and LlamaIndex."""

from __future__ import annotations

import io
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import open_cassette
from agenttape_core.experiments.verify import ALL_FACTORS

pytestmark = pytest.mark.process

READING = ("check", "ls", "show", "show --stats", "show --timeline")
COUNTS = {"functions": 5, "langchain": 3, "langgraph": 3, "llamaindex": 3}
FRAMEWORKS = ("langchain", "langgraph", "llamaindex")


def cut(path: Path) -> Path:
    """Cut a cassette off, as a full disk does."""
    path.write_bytes(path.read_bytes()[:-10])
    return path


@pytest.mark.sweep
@pytest.mark.parametrize("subcommand", [*READING, "check --stale"])
@pytest.mark.parametrize("words", [[], ["--json"]])
def test_one_that_is_cut_off(command: Any, recorded: Path, subcommand: str, words: list[str]) -> None:
    """One that is cut off ends with 3 and is named, also beside others that are whole."""
    ended = command(*subcommand.split(), cut(recorded), *words)
    assert ended.code == 3
    assert str(recorded) in ended.out + ended.err


def test_each_reading_command(command: Any, recorded: Path) -> None:
    """Each command that reads cassettes shows something of it, finds nothing wrong, and leaves it as it is."""
    before = recorded.read_bytes()
    for subcommand in (*READING, "check --only stale", "export", "cassette migrate", "cassette redact --dry-run"):
        ended = command(*subcommand.split(), recorded)
        assert (ended.code, ended.err) == (0, ""), subcommand
        assert ended.out.strip()
    assert recorded.read_bytes() == before


def test_what_is_in_it(command: Any, recorded: Path, kind: str) -> None:
    """Its calls and steps are listed, shown and added up, with its models and their cost as far as that is known."""
    count = COUNTS[kind]
    (listed,) = command("ls", recorded, "--json").json
    assert (listed["interactions"], listed["steps"] > 0) == (count, kind != "functions")
    models = {
        "functions": {},
        "langchain": {"gpt-5-mini": 2},
        "langgraph": {"fake-1": 3},
        "llamaindex": {"scripted-1": 2},
    }
    assert listed["models"] == models[kind]
    assert (listed["dollars"] > 0) is (kind == "langchain")
    shown = command("show", recorded, "--json").json
    assert len(shown["records"]) == len(list(open_cassette(recorded).records()))
    out = command("show", recorded).out
    assert all(f"{number}  " in out for number in range(1, count + 1))
    assert command("show", recorded, "--call", count, "--json").json["number"] == count
    assert command("show", recorded, "--step", 1).code == (3 if kind == "functions" else 0)
    total = command("show", "--stats", recorded, "--json").json
    assert (total["cassettes"], total["interactions"]) == (1, count)
    assert total["streamed"] == {"functions": 1, "langchain": 2, "langgraph": 0, "llamaindex": 2}[kind]
    assert command("check", recorded).out == "1 run, 2 checks: all passed\n"


def test_its_page(command: Any, recorded: Path) -> None:
    """It becomes a page beside where one works, alone or with another one, and JSON says whether they are the same."""
    page = f"{recorded.stem}.html"
    assert command("show", recorded, "--html", page) == (0, f"wrote {page}; open it in a browser\n", "")
    assert recorded.name in Path(page).read_text("utf-8")
    told = command("show", recorded, recorded, "--html", "both.html", "--json").json
    assert told["cassettes"] == [str(recorded)] * 2
    assert (told["written"], told["identical"]) == ("both.html", True)
    assert told["bytes"] == Path("both.html").stat().st_size


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["a.jsonl", "a.yaml.gz", "a.jsonl.zst"])
def test_convert(command: Any, recorded: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is written as another kind of file and back without loss, and read from standard input as such."""
    assert command("cassette", "convert", recorded, name).code == 0
    assert command("cassette", "convert", name, "back.yaml", "--json").json["source"] == name
    assert Path("back.yaml").read_bytes() == recorded.read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(Path(name).read_bytes())))
    assert command("show", "--stats", "-", "--json").json["interactions"] == len(open_cassette(recorded).entries)
    assert command("cassette", "convert", cut(recorded), "c.jsonl").code == 3


def test_diff(command: Any, recorded: Path) -> None:
    """It is like itself; where an answer differs, the first divergence is told."""
    other = recorded.with_name("other.yaml")
    other.write_text(recorded.read_text("utf-8").replace("Paris", "Rome").replace("to left", "to right"), "utf-8")
    assert command("diff", "--exit-code", recorded, recorded).code == 0
    ended = command("diff", "--exit-code", recorded, other)
    assert (ended.code, "first divergence" in ended.out) == (1, True)
    assert command("diff", recorded, other, "--json").json["identical"] is False
    assert command("diff", recorded, cut(other)).code == 3


def test_recover(command: Any, folder: Path, recorded: Path, kind: str, kinds: Mapping[str, Path]) -> None:
    """What its process would have left at its death becomes the same cassette."""
    (folder / "died").mkdir()
    shutil.copy(kinds[kind].with_suffix(".journal"), folder / "died" / f".{kind}.yaml.4711-0a1b2c3d.journal")
    ended = command("cassette", "recover", "died")
    assert (ended.code, ended.out.endswith(f" is now died/{kind}.yaml\n")) == (0, True)
    assert command("diff", "--exit-code", recorded, f"died/{kind}.yaml").code == 0
    assert command("show", "--timeline", f"died/{kind}.yaml", "--json").json["guessed"] == 0


@pytest.mark.night
@pytest.mark.parametrize("kind", ["functions", *FRAMEWORKS])
def test_verify(kind: str, command: Any, recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that replays one in two sessions does the same in other environments; how far it is, is shown."""
    Path("agent.py").write_text(
        "from agenttape_core import use_cassette\n"
        "from tests.core.cli.recorded_kinds import KINDS\n\n"
        "def run():\n"
        "    for _ in range(2):\n"
        f"        with use_cassette({str(recorded)!r}) as cassette:\n"
        f"            KINDS[{kind!r}]()\n"
        "        print(cassette.report)\n"
    )
    monkeypatch.setattr("sys.stderr", told := io.StringIO())
    monkeypatch.setattr(told, "isatty", lambda: True)
    # Not how fast threads are: those that are held up for long may come in an order of their own, which is told.
    of_threads = {"schedule", "switch_interval", "memory", "earlier_replays"}
    varied = [word for factor in sorted(set(ALL_FACTORS) - of_threads) for word in ("--vary", factor)]
    ended = command("verify", "agent.py:run", "--runs", 2, *varied)
    assert (ended.code, "agent.py:run is the same in 2 replays: it returned" in ended.out) == (0, True), ended.out
    assert "replaying" in told.getvalue()


def test_a_folder_of_all(command: Any, folder: Path, kinds: Any) -> None:
    """Cassettes of all kinds are listed, added up and looked through together."""
    for path in kinds.values():
        (folder / path.name).write_bytes(path.read_bytes())
    assert [row["path"] for row in command("ls", "--json").json] == [
        "cassettes/weather.yaml",
        *(f"{kind}.yaml" for kind in sorted(kinds)),
    ]
    assert command("show", "--stats", "--json").json["interactions"] == 3 + sum(COUNTS.values())
    assert command("cassette", "prune").code == 0
    assert command("check", "--only", "package", "--only", "prompt", "--only", "tool").code == 0

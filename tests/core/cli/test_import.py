"""`import` and `migrate` make cassettes of what other tools and older versions wrote."""

from __future__ import annotations

import base64
import gzip
import json
import shutil
from collections.abc import Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import yaml

from agenttape_core import open_cassette
from agenttape_core.cli.commands import import_ as foreign
from agenttape_core.storage import Journal

RUN = {
    "id": "1",
    "name": "ChatOpenAI",
    "run_type": "llm",
    "inputs": {"messages": [[{"type": "human", "content": "Say hello"}]]},
    "outputs": {"generations": [[{"message": {"type": "ai", "content": "Hello."}}]]},
    "extra": {"invocation_params": {"model": "gpt-5-mini"}},
}
EXCHANGE = {
    "request": {"body": "{}", "headers": {}, "method": "POST", "uri": "https://example.com/x"},
    "response": {"body": {"string": "hi"}, "headers": {}, "status": {"code": 200, "message": "OK"}},
}
OLDER = {"index": 0, "kind": "tool", "request": {"name": "f", "args": {}}, "response": {"value": "ok"}}
VCRPY = {"interactions": [EXCHANGE], "version": 1}
AGENTTAPE01 = {"version": "1", "interactions": [OLDER]}


def written(path: Path, data: object) -> Path:
    """Write a recording of another tool as its name says."""
    path.parent.mkdir(exist_ok=True, parents=True)
    if ".jsonl" in path.name and isinstance(data, list):
        text = "\n".join(map(json.dumps, data))
    else:
        text = json.dumps(data) if ".json" in path.name else yaml.safe_dump(data, sort_keys=False)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize(
    ("name", "data", "tool"),
    [
        ("v.yaml", VCRPY, "vcrpy"),
        ("v.json", VCRPY, "vcrpy"),
        ("v.yaml.gz", {"requests": [EXCHANGE["request"]], "responses": [EXCHANGE["response"]]}, "vcrpy"),
        ("l.json", [RUN], "langsmith"),
        ("l.json", {"runs": [RUN]}, "langsmith"),
        ("l.json", RUN, "langsmith"),
        ("l.jsonl", [RUN, {**RUN, "id": "2"}], "langsmith"),
        ("a.yaml", AGENTTAPE01, "agenttape01"),
        ("a.json", AGENTTAPE01, "agenttape01"),
        ("a.yaml", {"meta": {"deep": [[{"kind": 1}], "x"]}, **AGENTTAPE01}, "agenttape01"),
    ],
)
def test_told_by_content(command: Any, folder: Path, name: str, data: object, tool: str) -> None:
    """Each tool is told by what it writes; 1 says that something is lossy or missing, and the cassette is there."""
    written(folder / "old" / name, data)
    ended = command("import", f"old/{name}", "-o", "new.yaml", "--json")
    (row,) = ended.json
    assert (row["tool"], row["target"]) == (tool, "new.yaml")
    assert sum(row[grade] for grade in ("exact", "lossy", "missing")) == len(row["interactions"])
    assert ended.code == (1 if row["lossy"] or row["missing"] else 0)
    assert open_cassette(folder / "new.yaml").header.name == "new"


def test_a_folder(command: Any, folder: Path) -> None:
    """A folder becomes a folder; what is of no tool is passed over, and what is a cassette already is too."""
    written(folder / "old" / "deep" / "runs.json", [RUN])
    written(folder / "old" / "exchange.yaml", VCRPY)
    for name, text in {"docker.yaml": "services: {}\n", "torn.json": "{", "bin.yaml": "\x00", "empty.json": ""}.items():
        (folder / "old" / name).write_text(text)
    (folder / "old" / "weather.yaml").write_text((folder / "cassettes" / "weather.yaml").read_text())
    ended = command("import", "old", "-o", "new")
    assert ended.code == 1
    assert "old/deep/runs.json -> new/deep/runs.yaml: 1 exact, 0 lossy, 0 missing" in ended.out
    assert "4 files skipped: no known tool wrote such a file" in ended.out
    made = sorted(str(path.relative_to(folder)) for path in (folder / "new").rglob("*.yaml"))
    assert made == ["new/deep/runs.yaml", "new/exchange.yaml"]


def test_where_it_goes(command: Any, folder: Path) -> None:
    """Without -o it goes to the folder of the settings, and never over a cassette; a wrong tool is a problem."""
    (folder / "pyproject.toml").write_text('[tool.agenttape]\ncassette_dir = "tapes"\n')
    written(folder / "runs.json", [RUN])
    assert command("import", "runs.json").code == 0
    before = (folder / "tapes" / "runs.yaml").read_bytes()
    ended = command("import", "runs.json")
    assert ended.code == 2
    assert "tapes/runs.yaml exists\n  replace it: --overwrite" in ended.out
    assert (folder / "tapes" / "runs.yaml").read_bytes() == before
    assert command("import", "runs.json", "--overwrite").code == 0
    ended = command("import", "runs.json", "--from", "vcrpy", "-o", "other.yaml", "--json")
    assert (ended.code, "runs.json" in ended.json[0]["problem"]) == (3, True)


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ([], 2, "Missing argument"),
        (["gone.json"], 3, "there is no such file"),
        (["docker.yaml"], 2, "name the tool that wrote it: --from agenttape01 or langsmith or vcrpy"),
        (["a/same.json", "--from", "vcrpy"], 3, "a/same.json"),
        (["docker.yaml", "--from", "nope"], 2, "no importer for 'nope' is installed; there are: agenttape01"),
        (["a", "-o", "one.yaml"], 2, "is one cassette, and there are 2 files"),
        (["a"], 2, "would both become cassettes/same.yaml"),
        (["cassettes/weather.yaml"], 2, "is already a cassette of AgentTape"),
        (["a/same.yaml", "-o", "a", "--overwrite"], 2, "would be replaced by what is made of it"),
    ],
)
def test_bad_input(command: Any, folder: Path, words: Sequence[str], code: int, told: str) -> None:
    """What cannot be imported is refused before anything is written."""
    (folder / "empty").mkdir()
    assert command("import", "empty") == (0, "nothing to import\n", "")
    written(folder / "a" / "same.yaml", VCRPY)
    written(folder / "a" / "same.json", [RUN])
    ended = command("import", *words)
    assert ended.code == code
    assert told in ended.out + ended.err
    assert sorted(folder.glob("**/same*")) == [folder / "a" / "same.json", folder / "a" / "same.yaml"]


def test_without_an_importer(command: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no package brings an importer, it says what to install."""
    nothing: list[EntryPoint] = []
    monkeypatch.setattr(foreign, "entry_points", lambda **_: nothing)
    ended = command("import", "docker.yaml")
    assert ended.code == 2
    assert "pip install agenttape-langchain" in ended.err


GOLDEN = Path(__file__).parents[2] / "golden"
DATA = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 100).decode()


def old(folder: Path, name: str) -> Path:
    """Make a cassette of format 1 that would be written in format 2 now: it has large binary data in its text."""
    path = folder / name
    text = (GOLDEN / "v1" / name).read_text()
    path.write_text(text.replace("It is ", DATA))
    assert open_cassette(path).version == 1
    return path


@pytest.mark.parametrize("name", ["weather.yaml", "weather.jsonl"])
def test_an_old_one(command: Any, folder: Path, name: str) -> None:
    """What is older than it would be written is told by --dry-run, then migrated, and holds the same."""
    path = old(folder, name)
    text, before = path.read_bytes(), list(open_cassette(path).interactions())
    assert command("cassette", "migrate", name, "--dry-run").out == f"{name}: would be migrated from format 1 to 2\n"
    assert (command("cassette", "migrate", name, "--dry-run").code, path.read_bytes()) == (1, text)

    ended = command("cassette", "migrate", name)

    assert (ended.code, ended.out) == (0, f"{name}: migrated from format 1 to 2\n")
    migrated = open_cassette(path)
    assert (migrated.version, list(migrated.interactions())) == (2, before)
    assert [file.suffix for file in (folder / f"{name}.assets").iterdir()] == [".png"]
    assert command("cassette", "migrate", name, "--dry-run", "--json").json == [
        {"path": name, "format": 2, "needed": 2, "migrated": False}
    ]


@pytest.mark.parametrize("golden", ["v1/weather.yaml", "v1/weather.jsonl", "v2/steps.yaml", "v2/picture.jsonl"])
def test_golden_files_are_up_to_date(command: Any, folder: Path, golden: str) -> None:
    """A file of format 1 that needs no more than that stays as it is, byte for byte, and so does one of format 2."""
    path = folder / Path(golden).name
    shutil.copy(GOLDEN / golden, path)
    if (GOLDEN / f"{golden}.assets").exists():
        shutil.copytree(GOLDEN / f"{golden}.assets", folder / f"{path.name}.assets")
    before = path.read_bytes()
    ended = command("cassette", "migrate", path.name)
    assert ended.code == 0
    assert f"format {golden[1]}, up to date" in ended.out
    assert path.read_bytes() == before


def test_the_future_is_refused(command: Any, folder: Path) -> None:
    """A newer format ends with 3 and what to do; the others of the folder are migrated."""
    shutil.copy(GOLDEN / "future" / "weather.yaml", folder / "future.yaml")
    path = old(folder, "weather.jsonl")
    ended = command("cassette", "migrate", ".")
    assert ended.code == 3
    assert "pip install --upgrade agenttape-core" in ended.out
    assert open_cassette(path).version == 2
    assert "problem" in command("cassette", "migrate", "future.yaml", "--json").json[0]


def test_what_is_not_migrated(command: Any, folder: Path) -> None:
    """Standard input can only be checked; what is being recorded is left as it is."""
    assert command("cassette", "migrate", "-").code == 2
    assert command("cassette", "migrate", "gone.yaml").code == 3
    path = old(folder, "weather.yaml")
    journal = Journal(path, open_cassette(path).header)
    ended = command("cassette", "migrate", "weather.yaml")
    journal.abandon(keep=False)
    assert ended.code == 3
    assert open_cassette(path).version == 1

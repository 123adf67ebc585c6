"""Commands on many recordings in a store print what they print of the same recordings in a folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from agenttape_core import use_cassette

from .conftest import answer, look_up, record

STORE = "memory://bucket/runs"
RULES = "checks: 1\nevery:\n- called: look_up\n- never: delete_user\n- at_most: {calls: 2}\n"
MANY = 32


@pytest.fixture
def store(folder: Path) -> Iterator[Any]:
    """Recordings in `runs` and the same ones in a store in memory, next to files of other kinds."""
    for name in ("one", "b/two", "b/three.derived", "c/four"):
        record(folder / "runs" / f"{name}.yaml", f"{name}?")
    (folder / "runs" / "b" / "docker.yaml").write_text("services: {}\n")
    (folder / "runs" / "notes.txt").write_text("notes")
    (folder / "checks.yaml").write_text(RULES)
    system = fsspec.filesystem("memory")
    system.put(str(folder / "runs"), "/bucket/", recursive=True)
    yield system
    system.store.clear()
    system.pseudo_dirs[:] = [""]


def contents(store: Any) -> dict[str, bytes]:
    """The bytes of all files in a store."""
    return {name: store.cat_file(name) for name in store.find("")}


def as_in_folder(text: str) -> str:
    """What a command printed of the store, with the names of the folder."""
    return text.replace(STORE, "runs")


@pytest.mark.slow
@pytest.mark.usefixtures("store")
def test_a_command_takes_a_store(command: Any) -> None:
    """The output and the exit code are those of the folder with the same files."""
    for line in (
        "show --stats",
        "show --stats --by tool",
        "show --cache --json",
        "check",
        "check --checks checks.yaml --json",
        "check --checks checks.yaml --redact-prompts",
        "check --stale --only cache",
        "check --coverage",
        "export",
        "export --format jsonl",
        "export --format otel --redact-prompts",
        "cassette redact --dry-run",
        "cassette migrate --dry-run --json",
        "doctor",
    ):
        local, remote = (command(*line.split(), where) for where in ("runs", STORE))
        assert (remote.code, *map(as_in_folder, remote[1:])) == local, line
    local, remote = ([{**row, "read": None} for row in command("ls", "--json", at).json] for at in ("runs", STORE))
    assert as_in_folder(str(remote)) == str(local)


def test_a_glob_of_a_store_selects_cassettes(command: Any, store: Any) -> None:
    """One star for a part of a name, two for folders; a file URL and a path can hold one, too."""
    listed = [row["path"] for row in command("ls", f"{STORE}/*/t*.yaml", "--json").json]
    assert listed == [f"{STORE}/b/two.yaml"]
    here = Path("runs").absolute().as_posix()
    for start, shown in ((STORE, STORE), ("runs", "runs"), (f"file://{here}", here)):
        listed = [row["path"] for row in command("ls", f"{start}/**/*o*.yaml", "--json").json]
        assert listed == [f"{shown}/b/two.yaml", f"{shown}/c/four.yaml", f"{shown}/one.yaml"]


def test_a_damaged_cassette_in_a_store_is_named_and_the_rest_is_checked(command: Any, store: Any) -> None:
    """The exit code is 3, and the others are judged."""
    store.pipe_file("/bucket/runs/b/bad.yaml", b"agenttape: 3\nname")
    found = command("check", STORE, "--checks", "checks.yaml", "--json")
    assert found.code == 3
    runs = {run["run"].removeprefix(f"{STORE}/"): run for run in found.json["runs"]}
    assert [check["rule"] for check in runs["b/bad.yaml"]["checks"]] == ["readable"]
    assert [check["rule"] for check in runs["c/four.yaml"]["checks"]][:3] == ["called", "never", "at_most"]


def test_two_stores_are_compared_by_the_names_in_them(command: Any, store: Any, folder: Path) -> None:
    """A folder and a store, cassette by cassette."""
    record(folder / "runs" / "c" / "four.yaml", "another?")
    lines = command("diff", "runs", STORE).out.splitlines()
    assert [line.split()[:2] for line in lines[:3]] == [
        ["same", "b/three.derived.yaml"],
        ["same", "b/two.yaml"],
        ["words", "c/four.yaml"],
    ]
    assert "1 of" in lines[-1]


def test_pages_of_a_store(command: Any, store: Any, folder: Path) -> None:
    """Each cassette has a page."""
    written = command("show", STORE, "--html", "pages", "--json").json
    assert f"{STORE}/b/two.yaml" in written["pages"]
    assert (folder / "pages" / "b" / "two.yaml.html").is_file()


def test_secrets_in_a_store_are_replaced(command: Any, store: Any) -> None:
    """The cassette in the store is written again, without the secret; the others aren't touched."""
    key = "sk-proj-" + "a1B2" * 12
    text = store.cat_file("/bucket/runs/b/two.yaml")
    store.pipe_file("/bucket/runs/b/two.yaml", text.replace(b"content: ", f"content: {key} ".encode(), 1))
    others = {name: data for name, data in contents(store).items() if "two" not in name}
    found = command("cassette", "redact", STORE)
    assert f"{STORE}/b/two.yaml" in found.out
    assert found.code == 0
    after = contents(store)
    assert not any(key.encode() in data for data in after.values())
    assert {name: data for name, data in after.items() if "two" not in name} == others


def test_each_cassette_of_a_store_is_read_once(command: Any, store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By all checks together."""
    read: list[str] = []
    fetch = type(store).cat_file

    def counted(system: Any, path: str, *args: Any, **kwargs: Any) -> bytes:
        read.append(path)
        return bytes(fetch(system, path, *args, **kwargs))

    monkeypatch.setattr(type(store), "cat_file", counted)
    command("check", STORE, "--checks", "checks.yaml", "--only", "files", "--only", "secrets", "--only", "rules")
    assert len(read) == len(set(read)) == 5


@pytest.mark.parametrize("words", [("ls",), ("check",), ("export",), ("show", "--stats")])
def test_a_store_that_cannot_be_listed(command: Any, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    """The exit code is 3, and the message has the reason and what to do."""

    def refused(*args: object, **kwargs: object) -> None:
        raise PermissionError("Access Denied")

    monkeypatch.setattr(type(fsspec.filesystem("memory")), "find", refused)
    found = command(*words, STORE)
    assert found.code == 3
    assert "can't be listed: PermissionError: Access Denied\n  check the address and your rights" in found.err


def test_an_empty_store_and_a_missing_fsspec(command: Any, store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without cassettes is an error, and so is a URL that needs what isn't installed."""
    assert command("ls", "memory://bucket/nothing").code == 3
    assert command("ls", f"{STORE}/x*").code == 3
    monkeypatch.setitem(sys.modules, "fsspec", None)
    found = command("check", "s3://bucket/runs")
    assert found.code == 2
    assert "pip install" in found.err


@pytest.mark.parametrize(
    "words",
    [
        ("cassette", "checksum"),
        ("cassette", "prune"),
        ("check", "--score"),
        ("lab", "model", "openai:gpt-5", "x:y", "--run"),
    ],
)
def test_a_command_that_needs_local_files_refuses_a_store(command: Any, store: Any, words: tuple[str, ...]) -> None:
    """It exits with 2."""
    assert command(*words, STORE).code == 2


@pytest.fixture
def many(folder: Path) -> Path:
    """Many recordings of runs, one of which breaks a rule."""
    where = folder / "many"
    for number in range(MANY):
        with use_cassette(where / f"day{number % 7}" / f"{number:03}.yaml", mode="all"):
            answer("gpt-5", f"question {number}?")
            look_up("Paris")
            for _ in range(number == 29):
                look_up("Rome")
    (folder / "checks.yaml").write_text(RULES)
    return where


@pytest.mark.process
def test_processes_check_many_cassettes_with_the_same_report(
    command: Any, many: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reports of one process, of two, and of a store in memory are equal bytes; `benchmarks` take 20,000."""
    from agenttape_core.cli.commands import check

    words = ("check", "--checks", "checks.yaml", "--json")
    alone = command(*words, "many")
    system = fsspec.filesystem("memory")
    system.put(str(many), "/", recursive=True)
    remote = command(*words, "memory://many")
    system.store.clear()
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1}, raising=False)
    monkeypatch.setattr(check, "_MANY", MANY)
    monkeypatch.setattr(check, "_CHUNK", 12)
    several = command(*words, "many")
    assert several.out == alone.out
    assert remote.out.replace("memory://many", "many") == alone.out
    assert [run["run"] for run in alone.json["runs"] if not run["passed"]] == ["many/day1/029.yaml"]
    assert several.code == alone.code == remote.code == 1

"""`agenttape fleet forget` erases old recordings of a store, or a value in all of them, and reports what is left."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fsspec
import pytest

from agenttape_core import open_cassette
from agenttape_core.cli.app import run
from agenttape_core.redaction import new_key
from agenttape_core.schema import Header, Redaction, Volatile
from agenttape_core.storage import location_of, write_cassette
from agenttape_core.storage.lock import WriterLock

from ...kit.records import call

VALUE = 'hush "7" ünder/cover'

Command = Callable[..., tuple[int, str]]


@pytest.fixture(params=["folder", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An empty store: a folder, or one in memory."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    yield {"folder": "runs", "memory": "memory://bucket/runs"}[request.param]
    fsspec.filesystem("memory").store.clear()


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run a command of a fleet; `values` are on its standard input."""

    def command(*words: str, values: str = "") -> tuple[int, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(values))
        capsys.readouterr()
        code = run(["fleet", "forget", *words])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return command


def keep(store: str, name: str, days: float = 0, said: str = "sunny", **header: Any) -> str:
    """Write a recording of some days ago into a store, and return its name."""
    path = f"{store}/{name}"
    volatile = Volatile(created=(datetime.now(UTC) - timedelta(days=days)).isoformat())
    header = {"name": name, "volatile": volatile, "redaction": Redaction(key=new_key()), **header}
    write_cassette(location_of(path), Header(**header), [call(value=said, request={"arguments": {"city": "Paris"}})])
    return path


def names_in(store: str) -> list[str]:
    """The names of all files in a store, those of assets and hidden ones included."""
    system, root = fsspec.core.url_to_fs(store)
    return sorted(name.removeprefix(root).lstrip("/") for name in system.find(root))


def put(path: str, data: bytes) -> None:
    """Write a file of another kind into a store."""
    with fsspec.open(path, "wb") as file:
        file.write(data)


def test_recordings_that_are_too_old_are_erased_with_all_that_belongs_to_them(command: Command, store: str) -> None:
    """Assets, scores and judges' calls go with their recording; a younger one stays as it is."""
    keep(store, "a/old.yaml", 100, "picture " * 40_000)
    for name in ("old.scores.json", "old.tone.judge.yaml", "old.notes.txt"):
        put(f"{store}/a/{name}", b"of the run")
    keep(store, "new.yaml", 80)
    code, out = command(store, "--older-than", "90d")
    assert code == 0
    assert f"{store}/a/old.yaml: erased: recorded" in out
    assert "1 recording erased\nNot reached:" in out
    assert names_in(store) == ["a/old.notes.txt", "new.yaml"]


def test_a_dry_run_erases_nothing_and_lists_the_same(command: Command, store: str) -> None:
    """The exit code is 1 if there is something to erase, and 0 if not."""
    keep(store, "old.yaml", 100)
    keep(store, "of a wrong clock.yaml", -400)
    keep(store, "worse.yaml", 3, VALUE)
    before = names_in(store)
    code, out = command(store, "--older-than", "90d", "--dry-run", "--json")
    assert (code, [row["state"] for row in json.loads(out)["files"]]) == (1, ["erased"])
    code, out = command(store, "--value", "-", "--dry-run", values=VALUE)
    assert code == 1
    assert "worse.yaml: 1 place would be replaced" in out
    assert names_in(store) == before
    assert VALUE in str(open_cassette(f"{store}/worse.yaml").outcome(1).value)
    assert command(store, "--older-than", "101d", "--dry-run") == (0, "nothing to forget\n")


def test_what_cannot_be_judged_is_left_and_reported(command: Command, store: str) -> None:
    """A damaged file, one without a time, and one that was derived from an erased recording."""
    keep(store, "old.yaml", 100)
    keep(store, "copy.yaml", 1, derived_from="old.yaml")
    write_cassette(location_of(f"{store}/timeless.yaml"), Header(name="timeless"), [])
    put(f"{store}/bad.yaml", b"agenttape: 1\nname")
    put(f"{store}/checks.yaml", b"checks: 1\n")
    code, out = command(store, "--older-than", "90d")
    assert code == 3
    assert "copy.yaml: left: it was derived from old.yaml" in out
    assert "timeless.yaml: left: it has no time of recording" in out
    assert "bad.yaml" in out
    assert "1 recording erased, 2 left, 1 can't be read" in out
    assert names_in(store) == ["bad.yaml", "checks.yaml", "copy.yaml", "timeless.yaml"]


@pytest.mark.parametrize("suffix", [".yaml", ".jsonl", ".yaml.gz"])
def test_a_value_is_replaced_in_each_recording_that_holds_it(command: Command, store: str, suffix: str) -> None:
    """It's gone from all bytes, even from an asset; the others keep theirs, and the value is never printed."""
    held = keep(store, f"b/held{suffix}", said=f"it is {VALUE}.")
    big = keep(store, f"big{suffix}", said=f"{VALUE} " + "word " * 60_000)
    other = keep(store, f"other{suffix}")
    with fsspec.open(other, "rb") as file:
        before = file.read()
    code, out = command(store, "--value", "-", values=f"{VALUE}\n")
    assert code == 0, out
    assert f"{held}: 1 place replaced" in out
    assert "2 recordings changed" in out
    assert VALUE not in out
    for path in (held, big):
        assert VALUE not in str(open_cassette(path).outcome(1).value)
    with fsspec.open(other, "rb") as file:
        assert file.read() == before
    assert command(store, "--value", "-", values=VALUE) == (0, "nothing to forget\n")


def test_another_file_that_holds_the_value_is_left_and_reported(command: Command, store: str) -> None:
    """So is a file whose name holds it, without the value."""
    keep(store, "held.yaml", said=VALUE)
    put(f"{store}/trace.jsonl.txt", f'{{"said": {json.dumps(VALUE)}}}'.encode())
    put(f"{store}/about-bluebird.txt", b"")
    code, out = command(store, "--value", "-", values=f"{VALUE}\nbluebird")
    assert code == 1
    assert f"{store}/trace.jsonl.txt: left: it holds a value, and isn't a cassette" in out
    assert f"{store}/about-[value].txt: left: its name holds a value" in out
    assert VALUE not in out


def test_values_come_from_the_environment_too(command: Command, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value on the command line is refused, as other programs see it."""
    keep(store, "held.yaml", said=VALUE)
    assert command(store, "--value", VALUE)[0] == 2
    assert command(store, "--value", "-")[0] == 2
    assert command(store)[0] == 2
    assert command(store, "--value", "-", "--older-than", "1d", values=VALUE)[0] == 2
    monkeypatch.setenv("DEMO_VALUE", VALUE)
    assert command(store, "--value-from-env", "DEMO_VALUE")[0] == 0


def test_checksums_of_the_rest_stay_valid(command: Command, store: str, tmp_path: Path) -> None:
    """The file of checksums loses those of erased files, has new ones of changed files, and `check` passes."""
    if store.startswith("memory"):
        pytest.skip("only local files have checksums")
    for name, days, said in (("old", 100, "x"), ("held", 1, VALUE), ("rest", 1, "x")):
        keep(store, f"{name}.yaml", days, said)
    assert run(["cassette", "checksum", store]) == 0
    file = tmp_path / "agenttape-checksums.json"
    before = json.loads(file.read_text())["checksums"]
    assert command(store, "--older-than", "90d")[0] == 0
    assert command(store, "--value", "-", values=VALUE)[0] == 0
    after = json.loads(file.read_text())["checksums"]
    assert sorted(after) == ["runs/held.yaml", "runs/rest.yaml"]
    assert after["runs/rest.yaml"] == before["runs/rest.yaml"]
    assert after["runs/held.yaml"] != before["runs/held.yaml"]
    assert run(["check", store, "--only", "checksums"]) == 0


def test_a_recording_that_is_being_made_is_left(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session records to it now; its journal isn't touched."""
    monkeypatch.chdir(tmp_path)
    path = keep("runs", "old.yaml", 100)
    lock = WriterLock(Path(path), f"{os.getpid()} test")
    code, out = command("runs", "--older-than", "90d")
    lock.release()
    assert code == 1
    assert "a process is recording to it now" in out
    assert "old.yaml" in names_in("runs")


def test_a_store_that_cannot_be_listed_or_written(
    command: Command, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first exits with 3; of the second, what remains is left and reported."""
    assert command("memory://bucket/nothing", "--older-than", "1d")[0] == 3
    if store == "runs":
        return
    keep(store, "old.yaml", 100)

    def refused(*args: object) -> None:
        raise PermissionError("Access Denied")

    monkeypatch.setattr(type(fsspec.filesystem("memory")), "rm_file", refused)
    code, out = command(store, "--older-than", "90d")
    assert code == 1
    assert "can't be erased: PermissionError: Access Denied; check your rights" in out


def test_plans_of_the_rest_stay_valid(
    command: Command, store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An earlier plan holds for all recordings that weren't changed; changed and erased ones are named."""
    for name, days, said in (("old", 100, "x"), ("held", 1, VALUE), ("rest", 1, "x")):
        keep(store, f"{name}.yaml", days, said)
    rules, items = tmp_path / "rules.yaml", tmp_path / "items.jsonl"
    rules.write_text("checks: 1\nevery:\n- at_most: {calls: 6}\n")
    assert run(["fleet", "plan", store, "--experiment", "check", "--checks", str(rules)]) == 0
    items.write_text(capsys.readouterr().out)
    assert command(store, "--older-than", "90d")[0] == 0
    assert command(store, "--value", "-", values=VALUE)[0] == 0
    assert run(["fleet", "work", str(items), "--output", str(tmp_path / "out"), "--json"]) == 3
    told = json.loads(capsys.readouterr().out)
    assert told["verdicts"] == {"same": 1}
    assert sorted(("held" in line, "old" in line) for line in told["failed"]) == [(False, True), (True, False)]

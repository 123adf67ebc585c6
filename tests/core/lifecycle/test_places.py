"""A program that is recorded in one place is replayed in another one, by another user."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import Rule, boundary, open_cassette, use_cassette
from agenttape_core.errors import CassetteMissError, ConfigurationError
from agenttape_core.lifecycle.running_test import RunningTest, during


@contextmanager
def living(folder: Path, home: Path, fixtures: Mapping[str, str] = {}) -> Iterator[None]:
    """Work in a project in a folder, with a home folder, as a test of that project does."""
    for each in (folder, home):
        each.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").touch()
    test = RunningTest(folder, folder, lambda _: None, places=lambda: fixtures)
    with pytest.MonkeyPatch.context() as patch, during(test):
        patch.setenv("HOME", str(home))
        patch.chdir(folder)
        yield


@boundary("chat")
def ask(prompt: Any) -> Any:
    """Answer with what a model and its tools make of the places of a run."""
    here, home = Path.cwd(), Path.home()
    return {
        "echo": prompt,
        "path": here / "out.txt",
        "arguments": json.dumps({"file": f"{here}/a.txt", "home": str(home)}),
        "url": here.as_uri(),
        f"{home}/key": [f"wrote {here}/b c.txt."],
    }


@boundary("tool")
def read(name: str) -> str:
    """Fail with the path of a file in the message and in an attribute."""
    raise FileNotFoundError(2, "No such file", f"{Path.cwd()}/{name}")


def run() -> list[Any]:
    """Run a program whose requests and answers are about where it works."""
    answers = [ask(text) for text in (f"You work in {Path.cwd()}.", Path.cwd() / "x", f"{Path.home()}/.config")]
    with pytest.raises(FileNotFoundError) as failed:
        read("missing.txt")
    return [*answers, os.environ.get("DATA"), failed.value.filename, str(failed.value)]


PLACES = ["other", "with a blank/and more", "home/work/shop"]


@pytest.mark.parametrize("place", PLACES)
def test_another_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """Requests match in another folder and for another user, and answers and errors hold the paths of this run."""
    cassette = tmp_path / "c.yaml"
    with living(tmp_path / "home" / "ann" / "shop", tmp_path / "home" / "ann"):
        monkeypatch.setenv("DATA", f"{Path.cwd()}/data")
        with use_cassette(cassette, mode="all", freeze=["env"]):
            run()
    assert str(tmp_path) not in cassette.read_text()
    with living(tmp_path / place, tmp_path / "home"):
        monkeypatch.delenv("DATA")
        with use_cassette(cassette, freeze=["env"]):
            replayed = run()
        monkeypatch.setenv("DATA", f"{Path.cwd()}/data")
        assert replayed == [ask.__wrapped__(each["echo"]) for each in replayed[:3]] + run()[3:]


@pytest.mark.parametrize("sign", ["pytest.ini", "tox.ini", "uv.lock", "poetry.lock", "requirements.txt"])
def test_a_copy_without_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sign: str) -> None:
    """A project that was copied without its `.git` is at its root wherever its tests are started."""
    for name, root in (("mine", tmp_path / "mine"), ("copy", tmp_path / "copy")):
        (root / "tests" / "unit").mkdir(parents=True)
        (root / sign).touch()
        if name == "mine":
            (root / ".git").mkdir()
        monkeypatch.chdir(root if name == "mine" else root / "tests")
        test = RunningTest(root / "tests" / "unit", root, lambda _: None)
        with during(test), use_cassette(tmp_path / "c.yaml", mode="once"):
            assert ask(f"The data are in {root}/data.")["echo"] == f"The data are in {root}/data."


def test_the_same_place(tmp_path: Path) -> None:
    """Where it was recorded, a replay is the same to the last character."""
    with living(tmp_path / "a b" / "ü", tmp_path / "a b"):
        with use_cassette(tmp_path / "c.yaml", mode="all"):
            recorded = run()
        with use_cassette(tmp_path / "c.yaml"):
            assert run() == recorded


def test_temporary_folders_of_a_test(tmp_path: Path) -> None:
    """The folders of a test are places in sessions that it opens by itself, whatever number they have."""

    def run(number: int) -> Any:
        base = f"/tmp/pytest-of-me/pytest-{number}"
        fixtures = {"basetemp": f"{base}/popen-gw{number}", "tmp_path": f"{base}/popen-gw{number}/test_it0"}
        with living(tmp_path / str(number), tmp_path, fixtures), use_cassette(tmp_path / "c.yaml", mode="once"):
            return ask(f"see {fixtures['tmp_path']}/a.txt and {fixtures['basetemp']}/data0")["echo"]

    assert [run(number) for number in (1, 23)] == [
        f"see /tmp/pytest-of-me/pytest-{number}/popen-gw{number}/test_it0/a.txt and"
        f" /tmp/pytest-of-me/pytest-{number}/popen-gw{number}/data0"
        for number in (1, 23)
    ]


@pytest.mark.parametrize("off", [["project_root"], ["places"]])
def test_switched_off(tmp_path: Path, off: list[str]) -> None:
    """A place that is switched off is compared as it is, in the replay, too; an unknown name is refused."""
    with (
        living(tmp_path / "a", tmp_path),
        use_cassette(tmp_path / "c.yaml", mode="all", redact=[Rule(name, keep=True) for name in off]),
    ):
        ask(f"in {Path.cwd()}")
    assert open_cassette(tmp_path / "c.yaml").preface.redaction.off == off
    with living(tmp_path / "a", tmp_path), use_cassette(tmp_path / "c.yaml"):
        ask(f"in {Path.cwd()}")
    with living(tmp_path / "b", tmp_path), pytest.raises(CassetteMissError), use_cassette(tmp_path / "c.yaml"):
        ask(f"in {Path.cwd()}")
    with pytest.raises(ConfigurationError, match="cwd"), use_cassette("x", redact=[Rule("cwdd", keep=True)]):
        pass


def test_an_older_cassette(tmp_path: Path) -> None:
    """A cassette from before is compared as it was, where its paths are those of this run."""
    with living(tmp_path / "a", tmp_path):
        with use_cassette(tmp_path / "c.yaml", mode="all", redact=[Rule("places", keep=True)]):
            ask(f"in {Path.cwd()}")
        text = (tmp_path / "c.yaml").read_text()
        assert "  places: true\n" in text
        (tmp_path / "c.yaml").write_text(text.replace("  places: true\n", "").replace("  off:\n  - places\n", ""))
        with use_cassette(tmp_path / "c.yaml"):
            assert ask(f"in {Path.cwd()}")["echo"] == f"in {tmp_path}/a"

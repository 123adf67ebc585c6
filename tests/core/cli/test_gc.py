"""What nobody needs is found, and removed when asked; what can be recovered, or is not ours, stays."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import open_cassette, record_call, use_cassette
from agenttape_core.storage.lock import WriterLock

HASH = "5" * 64
OLD = time.time() - 2 * 3600
PICTURE = base64.b64encode(bytes(20_000)).decode()


def files(folder: Path) -> set[str]:
    """Return everything below a folder."""
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def old(path: Path, content: str = "torn") -> Path:
    """Write a file that nobody has touched for two hours."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    os.utime(path, (OLD, OLD))
    return path


@pytest.fixture
def pictured(folder: Path) -> Path:
    """A cassette with an asset that it needs."""
    path = folder / "pictured.yaml"
    with use_cassette(path, mode="all"):
        record_call("tool", lambda text: text, PICTURE)
    assert len(files(folder / "pictured.yaml.assets")) == 1
    return path


def test_assets(command: Any, folder: Path, pictured: Path) -> None:
    """An asset that a cassette refers to stays, also when others go, as long as its cassette; so do other files."""
    assert command("cassette", "prune", "--dry-run") == (0, "no unneeded files\n", "")
    assert command("cassette", "prune", "--json").json == {"deleted": True, "found": [], "problems": []}
    assets = folder / "pictured.yaml.assets"
    (needed,) = files(assets)
    old(assets / f"{HASH}.png")
    old(assets / "notes.txt")
    (found,) = command("cassette", "prune", "--dry-run", "--json").json["found"]
    assert (Path(found["path"]).name, found["kind"], found["size"]) == (f"{HASH}.png", "asset", 4)
    assert command("cassette", "prune", "--dry-run").code == 1
    assert command("cassette", "prune").code == 0
    assert files(assets) == {needed, "notes.txt"}
    assert open_cassette(pictured).interaction(1).outcome.value == PICTURE
    pictured.unlink()
    (assets / "notes.txt").unlink()
    (found,) = command("cassette", "prune", "--dry-run", "--json").json["found"]
    assert found["why"] == "its cassette is gone"
    assert command("cassette", "prune").code == 0
    assert not assets.exists()


def test_a_cassette_that_cannot_be_read(command: Any, folder: Path, pictured: Path) -> None:
    """What a cassette needs that cannot be read is not known: nothing is removed, and it ends with 3."""
    pictured.write_text(pictured.read_text().removesuffix("...\n"))
    before = files(folder)
    ended = command("cassette", "prune")
    assert ended.code == 3
    assert "pictured.yaml" in ended.out
    assert files(folder) == before


def test_what_is_being_recorded(command: Any, folder: Path, pictured: Path) -> None:
    """Nothing is found beside a cassette that is being recorded: its assets are written before it is."""
    old(folder / "pictured.yaml.assets" / HASH)
    lock = WriterLock(pictured, f"{os.getpid()} test")
    try:
        assert command("cassette", "prune", "--dry-run").code == command("cassette", "prune").code == 0
        assert len(files(folder / "pictured.yaml.assets")) == 2
    finally:
        lock.release()
    assert command("cassette", "prune", "--dry-run").code == 1


def test_locks(command: Any, folder: Path) -> None:
    """A lock that no process holds is found, and goes."""
    lock = old(folder / "cassettes" / ".weather.yaml.lock", "1 gone")
    assert (
        command("cassette", "prune", "--dry-run").out.splitlines()[0]
        == "found lock cassettes/.weather.yaml.lock: no process holds it"
    )
    assert command("cassette", "prune").code == 0
    assert not lock.exists()


@pytest.mark.parametrize("name", [".app.yaml.lock", ".a.tar.gz.lock", f"a.tar.gz.assets/{HASH}", f"web.assets/{HASH}"])
def test_what_is_of_others(command: Any, folder: Path, name: str) -> None:
    """Files of other tools, whose names are like ours, are left alone."""
    file = old(folder / name, "4711" if "app" in name else "4711 x")
    assert command("cassette", "prune").code == 0
    assert file.exists()


def test_what_is_left_of_writing(command: Any, folder: Path) -> None:
    """A torn temporary file goes; a whole one is somebody's recording, and stays; a fresh one may be in the making."""
    cassettes = folder / "cassettes"
    whole = old(cassettes / ".weather.yaml.12-0123abcd.tmp", (cassettes / "weather.yaml").read_text())
    fresh = cassettes / ".weather.yaml.13-0123abcd.tmp"
    fresh.write_text("torn")
    torn = [
        old(cassettes / ".weather.yaml.14-0123abcd.tmp"),
        old(cassettes / f"weather.yaml.assets/.{HASH}.1-0123abcd.tmp"),
    ]
    ended = command("cassette", "prune", "--json")
    assert {found["path"]: found["is_removable"] for found in ended.json["found"]} == {
        **{str(path.relative_to(folder)): True for path in torn},
        "cassettes/weather.yaml.assets": True,
        str(whole.relative_to(folder)): False,
    }
    assert (whole.exists(), fresh.exists(), *(path.exists() for path in torn)) == (True, True, False, False)
    assert "rename it" in command("cassette", "prune", "--dry-run").out


@pytest.mark.process
@pytest.mark.usefixtures("forked_tests")
def test_journals(command: Any, folder: Path) -> None:
    """What a process had recorded when it died is told and stays; a journal that holds nothing goes."""
    code = """
import os, sys
from agenttape_core import use_cassette, record_call
with use_cassette(sys.argv[1], mode="all"):
    if sys.argv[2:]:
        record_call("call", abs, -1)
    os._exit(1)
"""
    for words in (["empty.yaml"], ["full.yaml", "call"]):
        subprocess.run([sys.executable, "-c", code, *words], cwd=folder, check=False)
    assert command("cassette", "prune").code == 0
    (journal,) = folder.glob(".*.journal")
    assert journal.name.startswith(".full.yaml.")
    ended = command("cassette", "prune", "--dry-run")
    assert ended.code == 1
    assert ended.out.startswith(f"kept journal {journal.name}: ")
    assert "agenttape cassette recover" in ended.out
    assert command("cassette", "recover", "--json").json[0]["written"].endswith("full.yaml")
    assert command("cassette", "prune", "--dry-run").code == 0


def test_what_could_not_be_read(command: Any, folder: Path) -> None:
    """A broken file that was kept when its cassette was recorded anew is told, and a person removes it."""
    path = folder / "again.yaml"
    for _ in range(2):
        path.write_text("cut off")
        with use_cassette(path, mode="all"):
            record_call("call", abs, -1)
    ended = command("cassette", "prune", "--json")
    found = [(found["kind"], found["path"], found["is_removable"]) for found in ended.json["found"]]
    assert found == [("broken", f"again.yaml.broken{number}", False) for number in ("", "-2")]
    assert (ended.code, (folder / "again.yaml.broken").read_text()) == (0, "cut off")
    assert command("cassette", "prune", "--dry-run").out.startswith(
        "kept broken again.yaml.broken: it could not be read when "
    )


def test_links(command: Any, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Links are neither followed nor removed: what they lead to is not below the folder."""
    outside = tmp_path_factory.mktemp("outside")
    old(outside / "a.yaml.assets" / HASH)
    (folder / "linked").symlink_to(outside)
    (folder / "b.yaml.assets").symlink_to(outside / "a.yaml.assets")
    (folder / "c.yaml.assets").mkdir()
    (folder / "c.yaml.assets" / HASH).symlink_to(outside / "a.yaml.assets" / HASH)
    before = files(outside), files(folder)
    assert command("cassette", "prune").code == 0
    assert (files(outside), files(folder)) == before


@pytest.mark.process
def test_cassettes_of_no_test(command: Any, taped: Path) -> None:
    """The tests are asked which cassettes belong to none of them; those go with their assets, named ones stay.

    Where the tests cannot be collected, nothing is removed, and it ends with 2 and says what pytest said.
    """
    tests = taped / "test_it.py"
    tests.write_text("import pytest\n\n@pytest.mark.parametrize('n', [1])\ndef test_kept(n): ...\n")
    cassettes = taped / "cassettes"
    (cassettes / "test_it").mkdir()
    for name in ("test_kept[1]", "test_gone"):
        (cassettes / "test_it" / f"{name}.yaml").write_bytes((cassettes / "weather.yaml").read_bytes())
    old(cassettes / "test_it" / "test_gone.yaml.assets" / "notes.txt").unlink()
    assert command("cassette", "prune", "--dry-run").out.startswith(
        "found folder cassettes/test_it/test_gone.yaml.assets: it is empty\n"
    )
    ended = command("cassette", "prune", "--dry-run", "--tests", ".")
    assert ended.code == 1
    assert ended.out.startswith("found cassette cassettes/test_it/test_gone.yaml: it belongs to no test\n")
    old(cassettes / "test_it" / "test_gone.yaml.assets" / HASH)
    assert command("cassette", "prune", "--tests", ".").code == 0
    kept = {"weather.yaml", "weather.snapshot.yaml", "test_it", "test_it/test_kept[1].yaml"}
    assert files(cassettes) == kept
    tests.write_text("import nothing_of_that_name\n")
    ended = command("cassette", "prune", "--tests", ".")
    assert (ended.code, "nothing_of_that_name" in ended.err, files(cassettes)) == (2, True, kept)


@pytest.mark.process
def test_tests_of_a_project_in_which_warnings_are_errors(
    command: Any, taped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That AgentTape is imported before pytest is, is no reason not to collect such a project's tests."""
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    monkeypatch.delenv("PYTEST_PLUGINS")
    (taped / "pytest.ini").write_text(
        "[pytest]\nfilterwarnings = error\nasyncio_default_fixture_loop_scope = function\n"
        "addopts = -p no:langsmith_plugin\n"  # it warns when it is imported, on Python 3.14
    )
    (taped / "test_it.py").write_text("def test_kept(): ...\n")
    assert command("cassette", "prune", "--dry-run", "--tests", ".").code == 0


@pytest.mark.parametrize(("path", "code"), [("gone", 3), ("-", 2), ("s3://bucket/a.yaml", 2)])
def test_bad_input(command: Any, path: str, code: int) -> None:
    """A path that is nothing ends with 3, one that has no folder with 2."""
    assert command("cassette", "prune", "--dry-run", path).code == code

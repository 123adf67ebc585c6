"""Many files of a store: listed, read ahead, and created once."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fsspec
import pytest

from agenttape_core.errors import CassetteError, CassetteNotFoundError, CassetteWriteError, ConfigurationError
from agenttape_core.storage import Stored, create_once, list_files, location_of, read_ahead

FILES = ("b/two.yaml", "b/deep/three.jsonl", "one.yaml.gz", "one.yaml.gz.assets/x.yaml", "notes.txt", ".git/a.yaml")


@pytest.fixture(params=["path", "file", "memory", "memory root", "local"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A folder with files, on each sort of store."""
    local = (tmp_path / "runs").as_posix()
    yield {
        "path": local,
        "file": f"file://{local}",
        "memory": "memory://bucket/runs",
        "memory root": "memory:/",
        "local": f"local://{local}",
    }[request.param]
    fsspec.filesystem("memory").store.clear()


@pytest.fixture
def filled(folder: str) -> str:
    """The folder with `FILES`, each holding its own name."""
    for name in FILES:
        assert create_once(location_of(f"{folder}/{name}"), name.encode())
    return folder if folder != "memory:/" else "memory://"


def under(folder: str) -> str:
    """The start of the names of files in a folder."""
    return folder if folder.endswith("//") else f"{folder}/"


def names_in(found: list[Stored], folder: str) -> list[str]:
    """The names of listed files below a folder."""
    return [str(each.location).removeprefix(str(location_of(folder))).lstrip("/") for each in found]


def test_a_folder_lists_its_files_as_a_walk_of_the_disk_does(filled: str) -> None:
    """Sorted by folder and name, without hidden folders and assets, with sizes and versions."""
    found = list_files(filled)
    assert names_in(found, filled) == ["b/deep/three.jsonl", "b/two.yaml", "one.yaml.gz"]
    assert [each.size for each in found] == [18, 10, 11]
    assert all(each.modified for each in found)
    assert names_in(list_files(filled, lambda name: name.endswith(".txt")), filled) == ["notes.txt"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.yaml.gz", ["one.yaml.gz"]),
        ("*/*.yaml", ["b/two.yaml"]),
        ("**/*.yaml", ["b/two.yaml"]),
        ("b/**", ["b/deep/three.jsonl", "b/two.yaml"]),
        ("b/*", ["b/two.yaml"]),
        ("**/t*", ["b/deep/three.jsonl", "b/two.yaml"]),
        ("x*", []),
    ],
)
def test_a_glob_lists_the_files_that_it_means(filled: str, pattern: str, expected: list[str]) -> None:
    """A star stays in one folder, two stars cross folders."""
    assert names_in(list_files(f"{under(filled)}{pattern}"), filled) == expected


def test_another_version_is_listed_after_a_change(filled: str) -> None:
    """A file that was written again has another version, the others keep theirs."""
    before = {each.location: each.version for each in list_files(filled)}
    changed = next(iter(before))
    with fsspec.open(str(changed), "wb") as file:
        file.write(b"more bytes than before")
    after = {each.location: each.version for each in list_files(filled)}
    assert {name for name in before if before[name] != after[name]} == {changed}


def test_files_are_read_ahead_in_their_order(filled: str) -> None:
    """Each file comes with its own bytes, and one that is gone raises only for itself."""
    for n in range(30):
        create_once(list_files(filled)[0].location.with_name(f"{n:02}.yaml"), f"{n:02}.yaml".encode())
    files = list_files(filled)
    assert len(files) == 33
    gone = Stored(location_of(f"{under(filled)}gone.yaml"))
    got = list(read_ahead([*files[:5], gone, *files[5:]]))
    with pytest.raises(CassetteNotFoundError, match="gone"):
        got.pop(5)[1]()
    assert [file for file, _ in got] == files
    assert all(str(file.location).endswith(read().decode()) for file, read in got)


def test_one_of_many_writers_creates_a_file(folder: str) -> None:
    """Sixteen threads write the same file: one has written it, and its bytes are there."""
    if folder.startswith("local"):
        pytest.skip("fsspec's own store of local files can't create a file only if it is absent")
    target = location_of(f"{folder}/results/ab/item.json")
    with ThreadPoolExecutor(16) as pool:
        wrote = list(pool.map(lambda n: create_once(target, str(n).encode() * 100), range(16)))
    assert wrote.count(True) == 1
    ((_, read),) = read_ahead(list_files(f"{folder}/results", lambda name: True))
    assert read() == str(wrote.index(True)).encode() * 100


def test_a_file_that_is_there_is_not_written_again(folder: str) -> None:
    """The second writer drops its own bytes, and nothing else remains."""
    target = location_of(f"{folder}/item.json")
    assert create_once(target, b"first")
    assert not create_once(target, b"second")
    ((_, read),) = read_ahead(list_files(folder if folder != "memory:/" else "memory://", lambda name: True))
    assert read() == b"first"


@pytest.mark.parametrize("where", ["/no/such/folder", "memory://no-such-bucket", "/no/such/*/folder/*.yaml"])
def test_a_folder_that_is_not_there_is_an_error(where: str) -> None:
    """It isn't an empty one."""
    with pytest.raises(CassetteNotFoundError, match="no such"):
        list_files(where)


def test_a_store_that_cannot_be_listed_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error holds the reason, and no secret that the client quotes in it."""
    system = type(fsspec.filesystem("memory"))

    def refused(*args: object, **kwargs: object) -> None:
        raise PermissionError("Access Denied for key AKIA" + "Q3EGRVZNGXMPWTKD")

    monkeypatch.setattr(system, "find", refused)
    with pytest.raises(CassetteError, match="can't be listed: PermissionError: Access Denied") as caught:
        list_files("memory://bucket")
    assert "GRVZNG" not in str(caught.value)


def test_a_file_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    """A file where a folder should be."""
    (tmp_path / "results").write_text("")
    with pytest.raises(CassetteWriteError):
        create_once(tmp_path / "results" / "item.json", b"")


def test_a_missing_fsspec_is_named_with_its_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has the command."""
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(ConfigurationError, match="pip install"):
        list_files("s3://bucket/runs")

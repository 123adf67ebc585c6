"""Cassettes at a URL: recorded, replayed, recovered and converted like files."""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from agenttape_core import convert, open_cassette, recover, use_cassette
from agenttape_core.errors import (
    CassetteError,
    CassetteFormatError,
    CassetteLockedError,
    CassetteMissError,
    CassetteNotFoundError,
    CassetteWriteError,
    ConfigurationError,
    NetworkBlockedError,
)
from agenttape_core.integration import Boundary, current_session, intercept
from agenttape_core.schema import Header, Interaction, Outcome, Timing
from agenttape_core.storage import (
    CassetteUrl,
    Journal,
    cassette_path,
    leftover_journals,
    location_of,
    stem_of,
    write_cassette,
)

MakeInteraction = Callable[..., Interaction]
PICTURE = base64.b64encode(bytes(range(256)) * 100).decode()
HEADER = Header(name="tape")


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for what belongs to remote cassettes on this machine."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture(params=["memory", "memory root", "local"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CassetteUrl]:
    """The URL of a cassette that is not there, in file systems of fsspec."""
    yield CassetteUrl(
        {
            "memory": "memory://bucket/deep/tape.yaml",
            "memory root": "memory://tape.yaml",
            "local": f"local://{(tmp_path / 'remote' / 'deep').as_posix()}/tape.yaml",
        }[request.param]
    )
    fsspec.filesystem("memory").store.clear()


def files_at(url: CassetteUrl) -> list[str]:
    """The names of all files in the folder of a URL and below it."""
    system, root = fsspec.core.url_to_fs(str(url.folder))
    return sorted(path.removeprefix(root).lstrip("/") for path in system.find(root))


def ask(question: str, answer: Any = None) -> Any:
    """A call that answers what it is told to."""
    session_call = current_session().cross(Boundary("call"), "ask", {"question": question})
    return intercept(session_call, lambda: answer)


def test_a_session_records_to_a_url_and_replays_from_it(url: CassetteUrl, state: Path) -> None:
    """Record, replay, add, with an asset: nothing is written anywhere but at the URL and in the state folder."""
    picture = base64.b64decode(PICTURE)
    with use_cassette(str(url), mode="once") as cassette:
        ask("a", picture)
    assert str(cassette.path) == url
    assert len(files_at(url)) == 2

    with use_cassette(str(url)):
        assert ask("a") == picture
    with use_cassette(str(url), mode="new_episodes"):
        assert ask("a") == picture
        ask("b", "new")
    with use_cassette(str(url)) as cassette:
        assert (ask("a"), ask("b")) == (picture, "new")
    assert [item.kind for item in cassette.interactions] == ["call", "call"]
    with use_cassette(str(url), mode="all"):
        ask("c", "small")
    assert files_at(url) == ["tape.yaml"]
    system, root = fsspec.core.url_to_fs(str(url))
    assert not system.exists(f"{root}.assets")
    assert {path.name for path in state.rglob("*") if path.is_file()} == {"url"}


def test_a_derived_cassette_is_beside_its_own(url: CassetteUrl) -> None:
    """A replay with something live writes to the same folder, also behind a URL."""
    with use_cassette(str(url), mode="once"):
        ask("a", 1)
    with use_cassette(str(url), live={"ask"}):
        ask("a", 2)

    assert files_at(url) == ["tape.derived.yaml", "tape.yaml"]


def test_a_replay_reads_nothing_after_it_began(
    url: CassetteUrl, make: MakeInteraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole cassette and its assets are there before the guard closes the network: then no store is asked."""
    recorded = [make(1), make(2, outcome=Outcome(status="returned", value=PICTURE))]
    write_cassette(url, HEADER, recorded)
    cassette = open_cassette(url)

    def unreachable(*_: object, **__: object) -> None:
        raise NetworkBlockedError("the network is closed")

    for verb in ("open", "ls", "cat_file", "exists", "info"):
        monkeypatch.setattr(fsspec.AbstractFileSystem, verb, unreachable)
        monkeypatch.setattr(type(fsspec.core.url_to_fs(str(url))[0]), verb, unreachable)

    assert list(cassette.interactions()) == recorded
    assert cassette.outcome(2) == recorded[1].outcome


def test_a_miss_is_explained_without_asking_the_store(url: CassetteUrl, monkeypatch: pytest.MonkeyPatch) -> None:
    """The remedy names the command although the store cannot be reached any more."""
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "test_x.py::test_x (call)")
    with use_cassette(str(url), mode="once"):
        ask("a", 1)

    with (
        pytest.raises(CassetteMissError, match=r"AGENTTAPE_MODE=update pytest test_x\.py::test_x"),
        use_cassette(str(url), on_unused="ignore"),
    ):
        monkeypatch.setattr(fsspec.AbstractFileSystem, "exists", None)
        ask("something else")


def test_a_missing_cassette_is_not_found(url: CassetteUrl) -> None:
    """The error names the URL and how to record it."""
    with pytest.raises(CassetteNotFoundError, match="AGENTTAPE_MODE=once") as caught, use_cassette(str(url)):
        pass
    assert caught.value.path == url


def test_a_recording_that_was_given_up_is_recovered_to_its_url(url: CassetteUrl, make: MakeInteraction) -> None:
    """The journal is in a local folder, is found by the URL, and knows where it belongs."""
    journal = Journal(url, HEADER)
    journal.append(make(1, outcome=Outcome(status="returned", value=PICTURE)), Timing(duration_ms=1.0), (1,))
    left = journal.abandon(keep=True)
    assert left is not None

    with pytest.raises(CassetteNotFoundError, match="agenttape cassette recover"), use_cassette(str(url)):
        pass
    assert leftover_journals(url) == [left]
    assert recover(left) == url
    assert open_cassette(url).outcome(1).value == PICTURE
    assert leftover_journals(url) == []

    journal = Journal(url, HEADER)
    journal.append(make(1), Timing(duration_ms=1.0), (1,))
    second = journal.abandon(keep=True)
    assert second is not None
    assert recover(second) == url.with_name("tape.recovered.yaml")
    assert open_cassette(url).outcome(1).value == PICTURE


def test_there_is_one_writer_of_a_url(url: CassetteUrl) -> None:
    """A second session on this machine is refused, and told of the URL."""
    journal = Journal(url, HEADER)

    with pytest.raises(CassetteLockedError, match="another session") as caught:
        Journal(url, HEADER)

    assert caught.value.path == url
    journal.abandon(keep=False)


def test_a_write_that_fails_keeps_the_journal(
    url: CassetteUrl, make: MakeInteraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upload that breaks loses nothing, and the error does not quote what the client was called with."""
    journal = Journal(url, HEADER)
    journal.append(make(1), Timing(duration_ms=1.0), (1,))

    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("403 for key sk-proj-" + "aB3dE5fG7hJ9kL1m" * 3)

    with monkeypatch.context() as broken:
        broken.setattr(type(fsspec.core.url_to_fs(str(url))[0]), "pipe_file", refuse)
        with pytest.raises(CassetteWriteError, match=r"RuntimeError: 403 for key \[REDACTED") as caught:
            journal.commit(HEADER)
    assert str(journal.path) in str(caught.value)

    assert recover(journal.path) == url
    assert len(open_cassette(url).entries) == 1


def test_a_server_that_fails_is_a_format_error(
    url: CassetteUrl, make: MakeInteraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the client of a server raises, reading and converting end with an error of ours."""
    write_cassette(url, HEADER, [make(1)])

    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("no route")

    system = type(fsspec.core.url_to_fs(str(url))[0])
    with monkeypatch.context() as patched:
        patched.setattr(system, "open", refuse)
        patched.setattr(system, "cat_file", refuse)
        patched.setattr(system, "exists", refuse)
        with pytest.raises(CassetteFormatError, match="cannot be read: RuntimeError: no route"):
            open_cassette(url)
    monkeypatch.setattr(system, "exists", refuse)
    with pytest.raises(CassetteError, match="no route"):
        convert(url, url.with_name("other.yaml"))


def test_conversion_moves_between_disk_and_url(url: CassetteUrl, make: MakeInteraction, tmp_path: Path) -> None:
    """Up and down again, the file is byte for byte the same, its assets too."""
    recorded = [make(1, outcome=Outcome(status="returned", value=PICTURE))]
    source, back = tmp_path / "a.yaml", tmp_path / "b.yaml"
    write_cassette(source, HEADER, recorded)

    assert convert(source, str(url)) == url
    assert convert(str(url), back) == back

    assert back.read_bytes() == source.read_bytes()
    assert list(open_cassette(back).interactions()) == recorded


@pytest.mark.parametrize(
    ("named", "folder", "expected"),
    [
        ("s3://bucket/weather.yaml", "cassettes", CassetteUrl("s3://bucket/weather.yaml")),
        ("s3://bucket/weather", "cassettes", CassetteUrl("s3://bucket/weather.yaml")),
        ("weather", "s3://bucket/tapes/", CassetteUrl("s3://bucket/tapes/weather.yaml")),
        ("rome/weather", "s3://bucket", CassetteUrl("s3://bucket/rome/weather.yaml")),
        ("weather", "memory://", CassetteUrl("memory://weather.yaml")),
        ("weather.jsonl", "s3://bucket", Path("weather.jsonl")),
        ("simplecache::s3://bucket/a.yaml.gz", "x", CassetteUrl("simplecache::s3://bucket/a.yaml.gz")),
        ("file:///data/a%20b.yaml", "x", Path("/data/a b.yaml")),
        (Path("a/weather"), "cassettes", Path("cassettes/a/weather.yaml")),
    ],
)
def test_names_paths_and_urls_are_told_apart(named: str | Path, folder: str, expected: Any) -> None:
    """A URL is used as it is, a bare name lives in the folder, which may be a URL too."""
    found = cassette_path(named, folder)

    assert (found, type(found)) == (expected, type(expected))
    assert stem_of(found) in {"weather", "a", "a b"}
    assert found.with_name(found.name) == found


def test_the_url_of_a_folder_is_refused() -> None:
    """A cassette has a name."""
    with pytest.raises(ConfigurationError, match="found that of a folder: s3://bucket/"):
        cassette_path("s3://bucket/", "cassettes")


@pytest.mark.parametrize(
    "url", ["ftp://me:hunter2@host/a.yaml", "https://host/a.yaml?token=hunter2", "s3://key:hunter2@bucket/a.yaml"]
)
def test_a_url_with_credentials_is_refused(url: str) -> None:
    """What is printed and kept beside journals holds no secret, and neither does the error."""
    with pytest.raises(ConfigurationError, match="credentials") as caught:
        location_of(url)
    assert "hunter2" not in str(caught.value)


def test_what_a_url_needs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without fsspec, or with a scheme it does not know, the error says what to do."""
    with pytest.raises(ConfigurationError, match="fsspec cannot use this URL"):
        open_cassette("nowhere://bucket/tape.yaml")
    with pytest.raises(ConfigurationError, match="three slashes"):
        open_cassette("file://host/tape.yaml")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(ConfigurationError, match=r"pip install \"agenttape-core\[fsspec\]\""):
        open_cassette("s3://bucket/tape.yaml")


def test_a_state_folder_that_cannot_be_made_is_explained(
    url: CassetteUrl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says which variable chooses another one."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))

    with pytest.raises(CassetteWriteError, match=r"lock and journal.*\n  set XDG_STATE_HOME") as caught:
        Journal(url, HEADER)
    assert caught.value.path == url


@pytest.mark.process
def test_what_files_need_is_imported_when_they_need_it() -> None:
    """Importing the library loads no YAML reader, packer, client or file system."""
    heavy = ("yaml", "gzip", "fsspec", "zstandard", "urllib.request")
    code = f"import sys, agenttape_core; print([name for name in {heavy} if name in sys.modules])"

    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert found.stdout == "[]\n"

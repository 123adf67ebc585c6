"""A cassette that cannot be read is recorded anew in mode `record`, and what it was is kept beside the new one."""

from __future__ import annotations

import base64
import gzip
import re
from pathlib import Path

import fsspec
import pytest

from agenttape_core import open_cassette, use_cassette
from agenttape_core.errors import CassetteFormatError, CassetteVersionError
from agenttape_core.integration import Boundary, intercept
from agenttape_core.integration.observing import Observation

from .world import CASSETTE, World, ask, entries, files, is_unlocked, record

MARKERS = b"<<<<<<< ours\nname: c\n=======\nname: d\n>>>>>>> theirs\n"
BROKEN = {
    "cut off": lambda data: data[: len(data) // 2],
    "merge markers": lambda data: data.replace(b"name: c\n", MARKERS, 1),
    "a merge marker first": lambda data: b"<<<<<<< ours\n" + data,
    "empty": lambda _: b"",
    "no text": lambda _: b"\xff\xfe\x00",
}
"""What may have become of a good file."""


@pytest.mark.parametrize("how", BROKEN)
def test_recorded_anew(world: World, how: str) -> None:
    """Whatever is wrong with a cassette, mode `record` replaces it, and the same bytes are kept under another name."""
    record(world, "a")
    broken = BROKEN[how](CASSETTE.read_bytes())
    CASSETTE.write_bytes(broken)
    with use_cassette("c", mode="all") as session:
        ask(world, "b")
    assert entries(CASSETTE) == ["b"]
    assert session.put_aside == CASSETTE.absolute().with_name("c.yaml.broken")
    assert CASSETTE.with_name("c.yaml.broken").read_bytes() == broken
    assert files() == ["c.yaml", "c.yaml.broken"]
    assert is_unlocked()


def test_compressed(world: World) -> None:
    """A file that cannot be unpacked is kept as it is, packed."""
    path = CASSETTE.with_name("c.yaml.gz")
    record(world, "a")
    broken = gzip.compress(CASSETTE.read_bytes())[:-9]
    path.write_bytes(broken)
    with use_cassette(path, mode="all"):
        ask(world, "b")
    assert entries(path) == ["b"]
    assert path.with_name("c.yaml.gz.broken").read_bytes() == broken


def test_each_is_kept(world: World) -> None:
    """A second broken file does not take the place of the first."""
    for text in ("one", "two"):
        CASSETTE.parent.mkdir(exist_ok=True)
        CASSETTE.write_text(text)
        record(world, "a")
    kept = [CASSETTE.with_name(name).read_text() for name in ("c.yaml.broken", "c.yaml.broken-2")]
    assert kept == ["one", "two"]


def test_its_assets_are_kept(world: World) -> None:
    """The assets that only the broken cassette has are kept beside it, so that it can be mended."""
    picture = base64.b64encode(bytes(range(256)) * 100).decode()
    with use_cassette("c", mode="once"):
        world.tool("draw", picture=picture)
    CASSETTE.write_bytes(CASSETTE.read_bytes().removesuffix(b"...\n"))
    record(world, "a")
    assert files() == ["c.yaml", "c.yaml.broken", "c.yaml.broken.assets"]
    mended = CASSETTE.with_name("mended.yaml")
    CASSETTE.with_name("c.yaml.broken.assets").rename(mended.with_name("mended.yaml.assets"))
    mended.write_bytes(CASSETTE.with_name("c.yaml.broken").read_bytes() + b"...\n")
    assert open_cassette(mended).interaction(1).request["picture"] == picture


def test_a_run_that_fails_leaves_it(world: World) -> None:
    """It is put aside only when there is a new cassette."""
    record(world, "a")
    CASSETTE.write_text("cut off")
    with pytest.raises(ZeroDivisionError), use_cassette("c", mode="all"):
        ask(world, "b")
        raise ZeroDivisionError
    assert CASSETTE.read_text() == "cut off"
    assert not list(CASSETTE.parent.glob("*.broken*"))


def test_a_newer_format_is_no_broken_file(world: World) -> None:
    """What a newer version has written is good for somebody, and is refused in every mode."""
    record(world, "a")
    newer = re.sub("agenttape: [0-9]+", "agenttape: 999", CASSETTE.read_text(), count=1)
    CASSETTE.write_text(newer)
    with pytest.raises(CassetteVersionError), use_cassette("c", mode="all"):
        pass
    assert CASSETTE.read_text() == newer


def test_what_nobody_can_read_is_not_replaced(world: World) -> None:
    """A folder in the place of the cassette is told before anything is asked."""
    CASSETTE.mkdir(parents=True)
    with pytest.raises(CassetteFormatError, match="check the path"), use_cassette("c", mode="all"):
        ask(world, "a")
    assert world.reached == []


@pytest.mark.parametrize("mode", [None, "once", "new_episodes"])
def test_the_message_names_the_command(world: World, mode: str | None) -> None:
    """A replay says what helps, how to run it, and what becomes of the file then."""
    record(world, "a")
    CASSETTE.write_text("cut off")
    with pytest.raises(CassetteFormatError) as caught, use_cassette("c", mode=mode):
        pass
    first, *remedy = str(caught.value).splitlines()
    assert first == "cassettes/c.yaml:1: the file is cut off: its last line must be `...`"
    assert remedy[0] == "  restore it from version control, or"
    assert remedy[1].startswith(
        "  record everything again:  AGENTTAPE_MODE=record pytest " if mode is None else "  record everything again"
    )
    assert remedy[2] == "  which keeps this file as c.yaml.broken"


def test_a_handler_that_observes(world: World) -> None:
    """What only observes replaces whatever is there, a broken file too."""
    CASSETTE.parent.mkdir()
    CASSETTE.write_text("cut off")
    observation = Observation(CASSETTE)
    intercept(observation.session.cross(Boundary("tool"), "seen", {}), lambda: "x")
    observation.close()
    assert entries(CASSETTE) == ["seen"]
    assert world.reached == []


@pytest.mark.parametrize("mode", [None, "once", "update"])
def test_both_sides_of_a_merge(mode: str | None) -> None:
    """Where git has left both sides, the advice is to take one and to record what it lacks; no file is changed."""
    CASSETTE.parent.mkdir()
    CASSETTE.write_bytes(MARKERS)
    with pytest.raises(CassetteFormatError) as caught, use_cassette("c", mode=mode):
        pass
    *advice, again, kept = str(caught.value).splitlines()
    assert advice == [
        "cassettes/c.yaml:1: the file has an unresolved merge conflict",
        "  take one side:  git checkout --ours cassettes/c.yaml",
        "  and record what it lacks:  pytest --rerecord=changed",
        "  or,",
    ]
    assert (again[:25], kept) == ("  record everything again", "  which keeps this file as c.yaml.broken")
    assert CASSETTE.read_bytes() == MARKERS


def test_at_a_url(world: World, monkeypatch: pytest.MonkeyPatch, project: Path) -> None:
    """A broken cassette at a URL is kept at a URL beside it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(project / "state"))
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/broken/c.yaml", b"cut off")
    with use_cassette("memory://broken/c.yaml", mode="all") as session:
        ask(world, "b")
    assert session.put_aside == "memory://broken/c.yaml.broken"
    assert memory.cat_file("/broken/c.yaml.broken") == b"cut off"
    assert [entry.name for entry in open_cassette("memory://broken/c.yaml").entries] == ["b"]

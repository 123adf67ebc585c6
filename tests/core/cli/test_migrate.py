"""`migrate` brings older formats to what this version writes, in place, and leaves alone what is up to date."""

from __future__ import annotations

import base64
import shutil
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import open_cassette
from agenttape_core.storage import Journal

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


def test_bad_input(command: Any, folder: Path) -> None:
    """Standard input can only be checked; what is being recorded is left as it is."""
    assert command("cassette", "migrate", "-").code == 2
    assert command("cassette", "migrate", "gone.yaml").code == 3
    path = old(folder, "weather.yaml")
    journal = Journal(path, open_cassette(path).header)
    ended = command("cassette", "migrate", "weather.yaml")
    journal.abandon(keep=False)
    assert ended.code == 3
    assert open_cassette(path).version == 1

"""No command prints the key that the pseudonyms of a cassette were made with, nor writes it where no cassette is."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import open_cassette
from agenttape_core.cli.app import COMMANDS

from ...kit.git import git
from .conftest import record

WEATHER, SNOW = "cassettes/weather.yaml", "cassettes/snow.yaml"
JOURNAL = "cassettes/.cut.yaml.4711-0a1b2c3d.journal"
TABLE = [
    line.split()
    for line in f"""
    show {WEATHER}
    show {WEATHER} --call 1
    show {WEATHER} --html page.html
    show {WEATHER} {SNOW} --html page.html
    show --stats
    show --timeline {WEATHER}
    show cassettes/damaged0.yaml
    show cassettes/damaged1.yaml
    ls
    export {WEATHER}
    export {WEATHER} --format otel
    export {WEATHER} --format oracle
    diff
    diff {WEATHER} {SNOW}
    diff --base HEAD --report diff.md
    check
    check --stale --coverage --score
    check {WEATHER} --checks checks.yaml
    check --checks checks.yaml --report a.xml --report a.sarif --report a.trx --report a.md
    review list
    review accept --all
    review reject --all
    review {WEATHER}
    cassette checksum {WEATHER}
    cassette convert {WEATHER} once.jsonl
    cassette migrate
    cassette prune
    cassette recover {JOURNAL}
    cassette redact --value-from-env ASKED {WEATHER}
    cassette schema
    doctor
    import {WEATHER}
    init
    fleet plan cassettes --experiment check --checks checks.yaml
    fleet forget cassettes --older-than 90d --dry-run
    """.strip().splitlines()
]


@pytest.fixture
def keys(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys of two cassettes, one of them changed since the last commit, and of a journal; two are damaged."""
    monkeypatch.setenv("ASKED", "Rain?")
    (folder / "checks.yaml").write_text("checks: 1\nevery:\n- never: look_up\n")
    found = [_key(folder / WEATHER), _key(record(folder / SNOW, "Snow?"))]
    git("init", "-q", ".")
    git("add", "-A")
    git("commit", "-qm", "first")
    found.append(_key(record(folder / SNOW, "Hail?")))
    shutil.copy(record(folder / "other.yaml", "Sleet?"), folder / "cassettes" / "snow.pending.yaml")
    found.append(_key(folder / "other.yaml"))
    shutil.copy(folder / SNOW, folder / JOURNAL)
    text = (folder / WEATHER).read_text()
    for number, damaged in enumerate(
        [text.replace(found[0], f"[{found[0]}]"), text.replace(found[0], found[0] + ": x")]
    ):
        (folder / "cassettes" / f"damaged{number}.yaml").write_text(damaged)
    return found


def _key(path: Path) -> str:
    key = open_cassette(path).header.redaction.key
    assert key
    return key


def test_every_verb_is_in_the_table() -> None:
    """A command that is new comes into this table, or runs programs."""
    # Commands that run programs: `test_programs_keep_the_key` has them, or their own tests. What `serve` answers is
    # what `export` writes, and the tools of `mcp` are other commands.
    elsewhere = {"update", "lab", "record", "replay", "verify", "serve", "mcp"}
    assert {" ".join(words[: 1 + (words[0] == "cassette")]) for words in TABLE} | elsewhere == set(COMMANDS)


@pytest.mark.parametrize("words", TABLE, ids=" ".join)
def test_no_verb_prints_the_key(command: Any, folder: Path, keys: list[str], words: list[str]) -> None:
    """Whatever a command prints or complains of, and each file that it writes beside cassettes, is without the key."""

    def _has_key(path: Path) -> bool:
        """Return True for a cassette, which has its key in it, and for what git keeps of one."""
        return path.suffix in (".yaml", ".jsonl") or ".git" in path.parts

    before = set(folder.rglob("*"))
    ended = [command(*words), command(*words, "--json")]
    assert 2 not in {one.code for one in ended} or words[0] == "import"
    written = [path for path in folder.rglob("*") if path.is_file() and path not in before and not _has_key(path)]
    texts = [text for one in ended for text in (one.out, one.err)] + [path.read_text("utf-8") for path in written]
    assert any(texts)
    assert not [text for text in texts for key in keys if key in text]


@pytest.mark.process
def test_programs_keep_the_key(command: Any, folder: Path) -> None:
    """Nor does a command that runs a program print the key, nor the session of the program, also where it fails."""
    (folder / "app.py").write_text(
        "from agenttape_core import boundary\n\n@boundary('tool')\ndef ask(question):\n    return 'yes'\n\n"
        "def main():\n    ask('mail ann@nordwind-mail.com')\n\nif __name__ == '__main__':\n    main()\n"
    )
    recorded = ["--cassette", "run.yaml"]
    session = ["--json", *recorded]
    told = [command("record", *session, "app.py:main")]
    key = _key(folder / "run.yaml")
    told.append(
        command("verify", "app.py:main", "--cassette", "run.yaml", "--json", "--runs", "2", "--vary", "hash_seed")
    )
    told.append(command("lab", "orders", "app.py:main", *recorded, "--json"))
    (folder / "app.py").write_text((folder / "app.py").read_text().replace("mail ann", "write to ann"))
    told += [command("replay", *session, "app.py:main"), command("update", "--dry-run", *session, "app.py:main")]
    told.append(command("lab", "shrink", "app.py:main", *recorded))
    told.append(command("lab", "why", "app.py:main", *recorded))
    told.append(command("lab", "flaky", "app.py:main", *recorded, "--processes", "0"))
    assert [one.code for one in told] == [0, 0, 0, 1, 1, 1, 1, 0]
    assert not [text for one in told for text in (one.out, one.err) if key in text or "nordwind" in text]

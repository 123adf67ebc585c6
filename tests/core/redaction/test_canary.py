"""Secrets planted everywhere in a run, and looked for in every byte and every message that comes of it."""

from __future__ import annotations

import base64
import gzip
import json
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import boundary, open_cassette, recover, use_cassette
from agenttape_core.errors import CassetteMissError
from agenttape_core.storage import leftover_journals


class Canaries:
    """Fabricated secrets, each for one place."""

    def __init__(self) -> None:
        self.all: list[str] = []

    def form(self) -> str:
        """Return a new one that its own form gives away."""
        number = len(self.all)
        self.all.append("sk-" + "proj-" + f"Ca4na{number:03d}rY" * 5)
        return self.all[-1]

    def name(self) -> str:
        """Return a new one that only the name it stands under gives away."""
        self.all.append(f"can4ry-{len(self.all):03d}-plain")
        return self.all[-1]

    def assert_absent(self, data: bytes, where: object) -> None:
        """None of them stands in these bytes, plain, in base64 or in half."""
        for secret in self.all:
            middle = len(secret) // 2
            for form in (secret, secret[:middle], secret[middle:]):
                assert form.encode() not in data, f"{form} of {secret} in {where}"
            for pad in range(3):
                encoded = base64.b64encode(b"x" * pad + secret.encode())[4:-4]
                assert encoded not in data, f"{secret} in base64 in {where}"

    def assert_none_below(self, folder: Path) -> None:
        """None of them is in a file or in the name of one."""
        paths = list(folder.rglob("*"))
        assert any(path.is_file() for path in paths)
        for path in paths:
            self.assert_absent(str(path.relative_to(folder)).encode(), "a file name")
            if path.is_file():
                data = path.read_bytes()
                self.assert_absent(gzip.decompress(data) if path.suffix == ".gz" else data, path.name)


class RefusedError(Exception):
    """An error that carries more than its message."""

    def __init__(self, message: str, *, headers: dict[str, str]) -> None:
        super().__init__(message)
        self.headers = headers


class World:
    """What lies outside: it answers with what it was asked, and refuses when told so."""

    def __init__(self) -> None:
        self.gone = False

    @boundary("tool", name="echo")
    def echo(self, request: Any) -> Any:
        """Answer with the request."""
        assert not self.gone
        return {"you sent": request}

    @boundary("tool", name="refuse")
    def refuse(self, note: str, api_key: str) -> Any:
        """Raise an error that says everything."""
        assert not self.gone
        error = RefusedError(f"401 for {note}", headers={"X-Api-Key": api_key})
        error.add_note(f"tried with {note}")
        raise error from ValueError(f"caused by {note}")

    @boundary("chat", name="speak")
    def speak(self, text: str) -> Iterator[str]:
        """Stream a text in pieces of three characters."""
        assert not self.gone
        for at in range(0, len(text), 3):
            yield text[at : at + 3]


def planted(canary: Canaries) -> dict[str, Any]:
    """Return a request with a canary in every sort of place."""
    nested = {"password": canary.name(), "note": canary.form()}
    once = json.dumps({"inner": nested, "access_token": canary.name()})
    return {
        "prose": f"Use {canary.form()}, or ask alice@example.com.",
        "api_key": canary.name(),
        "json": once,
        "json twice": json.dumps({"arguments": json.dumps({"client_secret": canary.name(), "deep": once})}),
        "json thrice": json.dumps(json.dumps(json.dumps({"password": canary.name()}))),
        "url": f"https://bob:{canary.name()}@example.com/p?token={canary.name()}&x=1#access_token={canary.name()}",
        "headers": [("Authorization", f"Bearer {canary.name()}7"), ("X-Api-Key", canary.name())],
        "header dict": {"Set-Cookie": f"sid={canary.name()}", "Accept": "*/*"},
        "raw": f'{{"password": "{canary.name()}"}}'.encode(),
        "binary": b"\x89PNG\x00\xff" + canary.form().encode() + b"\xff\x00",
        "encoded": base64.b64encode(f"API_KEY={canary.form()}\n".encode()).decode(),
        canary.form(): "a key of a dict",
        "argv": ["login", "--password", canary.name(), "--verbose"],
        "environment": [{"name": "DB_PASSWORD", "value": canary.name()}],
        "tuple": (canary.form(), {canary.form()}),
        "sse": f'event: m\ndata: {{"access_token":"{canary.name()}"}}\n\n',
        "yaml": f"db:\n  password: {canary.name()}1\n",
        "pem": "-----BEGIN PRI" + f"VATE KEY-----\n{canary.form()}\n-----END PRI" + "VATE KEY-----",
    }


def run(world: World, request: dict[str, Any]) -> list[Any]:
    """Make every sort of call."""
    text, key = str(request["prose"]), str(request["api_key"])
    results: list[Any] = [world.echo(request), "".join(world.speak(text)), "".join(world.speak(request["json"]))]
    with pytest.raises(RefusedError) as caught:
        world.refuse(text, api_key=key)
    return [*results, str(caught.value), caught.value.headers]


@pytest.fixture
def canary() -> Canaries:
    """Secrets that were not used yet."""
    return Canaries()


@pytest.mark.parametrize("suffix", [".yaml", ".jsonl", ".jsonl.gz"])
def test_no_secret_reaches_the_disk_and_replay_is_the_same(canary: Canaries, suffix: str, tmp_path: Path) -> None:
    """No file holds a secret, midway or at the end, and a replay by who holds them gives the same results."""
    world, request = World(), planted(canary)
    path = tmp_path / f"c{suffix}"
    with use_cassette(path, mode="once") as session:
        recorded = run(world, request)
        canary.assert_none_below(tmp_path)  # the journal
        for shown in (session, session.report, session.interactions):
            canary.assert_absent(f"{shown} {shown!r}".encode(), "what a session shows")
    canary.assert_none_below(tmp_path)
    world.gone = True
    with use_cassette(path) as replay:
        assert run(world, request) == recorded
    assert str(replay.report) == "4 replayed, 0 recorded"
    for interaction in replay.interactions:
        pieces = "".join(str(chunk) for chunk in interaction.outcome.chunks or ())
        canary.assert_absent(pieces.encode(), "the chunks of a stream, put together")
    for shown in (replay, replay.report, replay.interactions, open_cassette(path).header):
        canary.assert_absent(f"{shown} {shown!r}".encode(), "what a replay shows")


def test_leftovers_of_a_crash_and_what_is_recovered(canary: Canaries, tmp_path: Path) -> None:
    """A journal that a killed process left holds no secret, nor does the cassette that is made of it."""
    alive, dead = tmp_path / "alive", tmp_path / "dead"
    with use_cassette(alive / "c.yaml", mode="once"):
        run(World(), planted(canary))
        shutil.copytree(alive, dead)
    (journal,) = leftover_journals(dead / "c.yaml")
    canary.assert_none_below(dead)
    recovered = recover(journal)
    canary.assert_none_below(dead)
    assert len(open_cassette(recovered).entries) == 4


def test_derived_cassettes(canary: Canaries, tmp_path: Path) -> None:
    """What a replay with something live writes beside the original holds no secret either."""
    world, request = World(), planted(canary)
    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="once"):
        run(world, request)
    with use_cassette(path, live={"echo"}):
        run(world, request)
    assert (tmp_path / "c.derived.yaml").exists()
    canary.assert_none_below(tmp_path)


def test_misses_and_logs(canary: Canaries, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """No explanation of a miss holds a secret, of the recording or of the call; nothing is logged."""
    caplog.set_level(logging.DEBUG)
    world = World()
    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="once"):
        world.echo(planted(canary))
    for changed in planted(canary), {"city": "Paris", **planted(canary)}, [planted(canary)], str(planted(canary)):
        with pytest.raises(CassetteMissError) as miss, use_cassette(path, on_unused="ignore") as session:
            world.echo(changed)
        said = f"{miss.value} {miss.value!r} {miss.value.args} {vars(miss.value)} {session.report.missed}"
        canary.assert_absent(said.encode(), "the explanation of a miss")
    canary.assert_absent(caplog.text.encode(), "a log")


def test_key_in_the_environment_is_not_in_the_file(
    canary: Canaries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the key in the environment, the files hold neither the secrets nor the key to try guesses with."""
    key = "c0ffee" * 10
    monkeypatch.setenv("AGENTTAPE_REDACTION_KEY", key)
    with use_cassette(tmp_path / "c.yaml", mode="once") as session:
        World().echo(planted(canary))
        canary.assert_absent(repr(session).encode(), "repr")
    canary.assert_none_below(tmp_path)
    assert all(key.encode() not in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())

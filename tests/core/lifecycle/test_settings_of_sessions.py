"""A setting of the project holds for every kind of session that it can mean something to, as the documentation lists.

For each setting a probe observes one thing that the setting can change. The setting holds for a kind of session if the
probe observes something else with it than without it.
"""

# ruff: noqa: D103 - a probe says by its name which setting it is for

from __future__ import annotations

import os
import re
import shutil
import socket
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from agenttape_core import Session, open_cassette, use_cassette
from agenttape_core.errors import UnrecordedCallError
from agenttape_core.integration import Boundary, current_session, intercept
from agenttape_core.integration.cassettes import deriving
from agenttape_core.integration.importing import CallFacts, Importing
from agenttape_core.integration.observing import Observation
from agenttape_core.integration.stand_ins import Recording, open_replay
from agenttape_core.settings import Settings

PAGE = Path(__file__).resolve().parents[3] / "docs" / "configuration.md"
SECTION = PAGE.read_text(encoding="utf-8").partition("## Kinds of sessions")[2].partition("\n## ")[0]
LISTED = {
    name: [cell.strip() == "yes" for cell in cells.strip(" |").split("|")]
    for name, cells in re.findall(r"^\| `(\w+)` (\|.*\|)$", SECTION, re.MULTILINE)
}
KINDS = ("block", "fork", "replay object", "cache", "observer", "import")
"""The columns of the documentation, in their order."""
WRITERS = ("block", "cache", "observer", "import")
TOOL = Boundary("tool")
KEY = "00" * 32
RULES = '[{name = "ticket", pattern = "T-[0-9]+"}]'
Ask = Callable[..., Any]
"""Calls a tool; what it really returns is the first argument, what it is asked are the others."""


class Unknown:
    """A value that no codec knows."""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a project with a folder for cassettes."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@contextmanager
def opened(kind: str, name: str = "c", mode: str | None = None) -> Iterator[Ask]:
    """Open a session of a kind. The mode counts where one can be chosen; with any, a fork may execute."""
    if kind == "block":
        with use_cassette(name, mode=mode) as session:
            yield asking(session)
    elif kind == "fork":
        with (block := deriving(name, live={"tool"})) as session:  # tools are executed only if named
            if mode is not None:
                block.allow_execution()
            yield asking(session)
    elif kind == "replay object":
        yield asking(open_replay(name))
    elif kind == "cache":
        recording = Recording(name, mode=mode, on_repeat="last", redact=True, tags=(), remedy=lambda _: [])
        try:
            yield asking(recording.session)
        finally:
            recording.close()
    elif kind == "observer":
        observation = Observation(name)
        try:
            yield asking(observation.session)
        finally:
            observation.close()
    else:
        with Importing(name, overwrite=True) as importing:
            yield lambda answer="executed", **body: importing.session_call(TOOL, "t", body).returned(answer)


def asking(session: Session) -> Ask:
    """Return what calls a tool in a session."""
    return lambda answer="executed", **body: intercept(session.cross(TOOL, "t", body), lambda: answer)


def recorded(name: str = "c", facts: CallFacts | None = None, **body: Any) -> None:
    """Record a call, as an importer does."""
    with Importing(name, overwrite=True) as importing:
        importing.session_call(TOOL, "t", body, facts).returned("recorded")


def outcome(work: Callable[[], Any]) -> Any:
    """Return what comes of it, or the name of what it raises."""
    try:
        return work()
    except BaseException as error:
        return type(error).__name__


def replay(kind: str, *bodies: dict[str, Any], mode: str | None = None) -> list[Any]:
    """Ask for calls, and return what comes of each."""
    found: list[Any] = []
    with suppress(BaseException), opened(kind, mode=mode) as ask:
        found += [outcome(lambda body=body: ask(**body)) for body in bodies]
    return found


def written(kind: str, answer: Any = "executed", **body: Any) -> Path:
    """Record a call to a cassette of its own, or derive one from what is recorded."""
    with opened(kind, "c" if kind == "fork" else "new", mode="all") as ask:
        ask(answer, **body)
    return Path("cassettes/c.derived.yaml" if kind == "fork" else "cassettes/new.yaml")


# -- one probe for each setting ------------------------------------------------------------------------------------


def opens(kind: str, name: str) -> Any:
    """Return what a cassette answers, or why it cannot be opened."""

    def first() -> Any:
        with opened(kind, name) as ask:
            return ask(x=1)

    return outcome(first)


def mode(kind: str) -> Any:
    return opens(kind, "new")


def cassette_dir(kind: str) -> Any:
    Path("cassettes/c.yaml").rename("tapes/c.yaml")
    if kind not in WRITERS:
        return opens(kind, "c")
    written(kind)
    return sorted(path.parent.name for path in Path().rglob("new.yaml"))


def live(kind: str) -> Any:
    return replay(kind, {"x": 1})


def frozen(kind: str) -> Any:
    return replay(kind, {"x": 2}, mode="new_episodes")


def through(kind: str) -> Any:
    return replay(kind, {"x": 1})


def on_repeat(kind: str) -> Any:
    return replay(kind, {"x": 1}, {"x": 1})


def other_request(kind: str) -> Any:
    return replay(kind, {"x": 2})


def ignore(kind: str) -> Any:
    found = open_cassette(written(kind, x=1)).preface.ignore if kind in WRITERS else None
    return found, replay(kind, {"x": 2})


def candidate(kind: str) -> Any:
    recorded(x=1)
    return replay(kind, {"x": 1})  # one that cannot be made opens nothing


def unrecorded(kind: str) -> Any:
    recorded(x=1)

    def missing() -> None:
        with opened(kind) as ask, suppress(UnrecordedCallError):
            ask(x=2)

    with patch.dict(os.environ, {"AGENTTAPE_ON_MISS": "return"}):
        return outcome(missing)


def unavailable(kind: str) -> Any:
    recorded(x=1)
    said: list[str] = []
    with patch.dict(os.environ, {"AGENTTAPE_ON_MISS": "return"}), suppress(BaseException), opened(kind) as ask:
        try:
            ask(x=2)
        except UnrecordedCallError as error:
            said.append(str(error))
    return said


def on_unused(kind: str) -> Any:
    def nothing() -> None:
        with opened(kind):
            pass

    return outcome(nothing)


def on_error(kind: str) -> Any:
    def failing() -> None:
        with opened(kind, "c" if kind == "fork" else "new", mode="all") as ask:
            if kind != "replay object":
                ask(x=3)
            raise ValueError

    outcome(failing)
    return sorted(path.name for path in Path("cassettes").glob("*.yaml"))


def review(kind: str) -> Any:
    recorded(x=1)
    with suppress(BaseException), opened(kind, mode="all") as ask:
        ask(x=1)
    return sorted(path.name for path in Path("cassettes").iterdir() if "pending" in path.name)


def accept(kind: str) -> Any:
    kept = outcome(lambda: bool(written(kind, Unknown(), x=4))) if kind != "replay object" else None
    recorded(facts=CallFacts(loss="half of it"), x=1)
    return kept, replay(kind, {"x": 1})


def pace(kind: str) -> Any:
    began = time.monotonic()
    replay(kind, {"x": 1})
    return time.monotonic() - began >= 0.2  # of 10 seconds


def http(kind: str) -> Any:
    """Return the error of a request to a port at which nobody listens: its own, that of the guard, or a miss."""
    found: list[Any] = []
    with suppress(BaseException), opened(kind) as ask:
        ask(x=1)
        found.append(outcome(lambda: urllib.request.urlopen("http://127.0.0.1:1")))
    return found


def freeze(kind: str) -> Any:
    return open_cassette(written(kind, x=1)).preface.freeze.kinds if kind != "replay object" else None


def check_replay(kind: str) -> Any:
    called = []
    if kind == "block":
        use_cassette("proved", mode="all")(lambda: called.append(1))()
    return called  # a setting proves what tests record, and nothing else


def allow_hosts(kind: str) -> Any:
    found: list[Any] = []
    with socket.create_server(("127.0.0.1", 0)) as server, suppress(BaseException), opened(kind) as ask:
        ask(x=1)
        found.append(outcome(lambda: socket.create_connection(server.getsockname()).close()))
    return found


def events(kind: str) -> Any:
    with suppress(BaseException), opened(kind) as ask:
        ask(x=1)
    return Path("events.jsonl").exists()


def run_id(kind: str) -> Any:
    found: list[Any] = []
    with suppress(BaseException), opened(kind) as ask:
        ask(x=1)
        session = current_session()
        found.append(session is not None and session.report.run_id == "build-7")
    return found


def tags(kind: str) -> Any:
    return open_cassette(written(kind, x=1)).preface.tags if kind != "replay object" else None


def redaction_key(kind: str) -> Any:
    return [open_cassette(written(kind)).preface.redaction.key is None] if kind in WRITERS else opens(kind, "keyed")


def redaction_rules(kind: str) -> Any:
    return ["T-1" in written(kind, "T-1").read_text("utf-8")] if kind in WRITERS else opens(kind, "ruled")


PROBES: dict[str, tuple[Callable[[str], Any], str]] = {
    "mode": (mode, '"once"'),
    "cassette_dir": (cassette_dir, '"tapes"'),
    "live": (live, '["tool"]'),
    "replay_only": (frozen, '["tool"]'),
    "step_into": (through, '["tool"]'),
    "on_repeat": (on_repeat, '"last"'),
    "match_on": (other_request, '["exact", "request", "address"]'),
    "ignore": (ignore, '["x"]'),
    "on_miss": (other_request, '"return"'),
    "candidate": (candidate, '"nobody:x"'),
    "on_unrecorded": (unrecorded, '"fail"'),
    "unavailable": (unavailable, '"Not now."'),
    "on_unused": (on_unused, '"ignore"'),
    "on_error": (on_error, '"keep"'),
    "review": (review, "true"),
    "accept": (accept, '["lossy", "opaque"]'),
    "pace": (pace, "0.02"),
    "http": (http, "true"),
    "check_replay": (check_replay, '"fail"'),
    "freeze": (freeze, '["uuid"]'),
    "allow_hosts": (allow_hosts, '["program:loopback"]'),
    "events": (events, '"events.jsonl"'),
    "tags": (tags, '["nightly"]'),
    "run_id": (run_id, '"build-7"'),
    "redaction_key": (redaction_key, f'"{KEY}"'),
    "redaction_rules": (redaction_rules, RULES),
}


def test_all_settings_of_sessions_are_listed() -> None:
    """The documentation has a row for each setting but those that only commands read; so have these tests."""
    assert list(LISTED) == [name for name in Settings._fields if name not in {"prices", "retirements"}]
    assert PROBES.keys() == LISTED.keys()
    assert {len(row) for row in LISTED.values()} == {len(KINDS)}


def configured(setting: str) -> None:
    """Write the file of a project with one setting."""
    Path("pyproject.toml").write_text(f"[tool.agenttape]\n{setting} = {PROBES[setting][1]}\n", encoding="utf-8")


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a cassette, one with a key of its own, and one with a rule, which the tests copy."""
    folder = tmp_path_factory.mktemp("recordings")
    (folder / "tapes").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        recorded(facts=CallFacts(duration_ms=10_000), x=1)
        configured("redaction_rules")
        recorded("ruled", x=1)
        Path("pyproject.toml").unlink()
        patch.setenv("AGENTTAPE_REDACTION_KEY", KEY)
        recorded("keyed", x=1)
    return folder


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("setting", PROBES)
def test_holds_where_it_is_listed(setting: str, kind: str, recordings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting changes what its probe observes of the kinds of sessions that it is listed for, and of no others."""

    def observed(probe: Callable[[str], Any], kind: str, patch: pytest.MonkeyPatch, setting: str = "") -> Any:
        """Return what a probe observes in a project of its own, with a setting or without any."""
        patch.chdir(shutil.copytree(recordings, setting or "none"))
        if setting == "redaction_key":
            patch.setenv("AGENTTAPE_REDACTION_KEY", KEY)
        elif setting:
            configured(setting)
        return probe(kind)

    probe, _ = PROBES[setting]
    found = []
    for given in ("", setting):
        with monkeypatch.context() as patch:
            found.append(observed(probe, kind, patch, given))
    assert (found[0] != found[1]) == LISTED[setting][KINDS.index(kind)], found


def test_a_call_wins_over_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is given to a stand-in, an observer or an importer holds, whatever the project says."""
    recorded(x=1)
    Path("pyproject.toml").write_text('[tool.agenttape]\non_repeat = "last"\ntags = ["nightly"]\n', encoding="utf-8")
    ask = asking(open_replay("c", {"on_repeat": "fail"}))
    assert [outcome(lambda: ask(x=1)) for _ in range(2)] == ["recorded", "CassetteMissError"]
    with Importing("new", tags=["mine"]) as importing:
        importing.session_call(TOOL, "t", {}).returned(1)
    assert open_cassette("cassettes/new.yaml").preface.tags == ["mine"]
    observation = Observation("seen", tags=["mine"])
    asking(observation.session)(x=1)
    observation.close()
    assert open_cassette("cassettes/seen.yaml").preface.tags == ["mine"]

"""Freeze through the public face: recorded in the header, reproduced on replay, real where something is executed."""

from __future__ import annotations

import asyncio
import os
import random
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agenttape_core import Rule, open_cassette, use_cassette
from agenttape_core.errors import ConfigurationError
from agenttape_core.integration import Boundary, current_session, intercept

from ...kit.left_behind import left_behind

if TYPE_CHECKING:
    from collections.abc import Callable

np = pytest.importorskip("numpy")

SECRET = "sk-proj-" + "Zx9" * 14
ALL = ("clock:ticking", "uuid", "random", "numpy", "env")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty project, with a model and a key in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENT_MODEL", "small")
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.delenv("AGENT_ABSENT", raising=False)


def call(name: str, real: Callable[[], Any] = lambda: "answer", kind: str = "tool") -> Any:
    """Cross a boundary, so that there is something to record."""
    session = current_session()
    assert session is not None
    return intercept(session.cross(Boundary(kind), name, {}), real)


def header_text() -> str:
    """The cassette as it is in the file."""
    (path,) = Path("cassettes").iterdir()
    return path.read_text(encoding="utf-8")


def drawn() -> list[Any]:
    """Ask for everything but the time."""
    return [
        uuid.uuid4(),
        random.random(),
        random.Random().random(),
        np.random.rand(),
        np.random.default_rng().random(),
        os.environ["AGENT_MODEL"],
        os.getenv("AGENT_ABSENT"),
    ]


@pytest.mark.parametrize("suffix", ["yaml", "jsonl"])
def test_all_kinds_are_recorded_and_replayed(suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The header says what was frozen; a replay freezes that, whatever it is asked for."""
    path = f"cassettes/c.{suffix}"
    with use_cassette(path, mode="once", freeze=ALL):
        recorded = drawn()
        call("a")
    freeze = open_cassette(path).header.freeze
    assert freeze.kinds == sorted(ALL)
    assert freeze.environment == {"AGENT_ABSENT": None, "AGENT_MODEL": "small"}
    monkeypatch.setenv("AGENT_MODEL", "large")
    monkeypatch.setenv("AGENT_ABSENT", "now there")
    for freeze_now in ((), ("clock",), ALL):
        with use_cassette(path, freeze=freeze_now):
            assert drawn() == recorded
            call("a")
    assert (os.environ["AGENT_MODEL"], os.environ["AGENT_ABSENT"]) == ("large", "now there")


def test_the_ticking_clock_replays_from_its_beginning() -> None:
    """A replay starts at the recorded moment and runs on from there; the header keeps which of the two clocks it is."""
    with use_cassette("c", mode="once", freeze=("clock:ticking",)):
        first = time.time()
        call("a")
    header = open_cassette("cassettes/c.yaml").header
    assert header.freeze.kinds == ["clock:ticking"]
    begun = header.volatile.clock
    assert begun is not None
    assert begun - 1e-6 <= first
    with use_cassette("c"):
        looks = [time.time(), datetime.now(UTC).timestamp()]
        while time.time() == looks[0]:
            pass
        call("a")
    assert begun - 1e-6 <= looks[0] <= looks[1] + 1e-6
    assert looks[1] < first + 60


def test_the_default_is_said_in_the_header() -> None:
    """The standing clock, ids and random numbers, numpy's included; not the environment."""
    with use_cassette("c", mode="once"):
        call("a")
        assert os.environ["AGENT_MODEL"] == "small"
    freeze = open_cassette("cassettes/c.yaml").header.freeze
    assert freeze.kinds == ["clock", "numpy", "random", "uuid"]
    assert freeze.environment == {}
    assert "environment" not in header_text()


def test_two_clocks_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a call and in the settings alike, before anything is opened."""
    with pytest.raises(ConfigurationError, match="both clock and clock:ticking"):
        use_cassette("c", mode="once", freeze=("clock", "clock:ticking")).__enter__()
    monkeypatch.setenv("AGENTTAPE_FREEZE", "clock:ticking,clock")
    with pytest.raises(ConfigurationError, match="both clock and clock:ticking"):
        use_cassette("c", mode="once").__enter__()


def test_a_secret_variable_never_reaches_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pseudonym does. The session that records uses the secret, a replay the live one or else the pseudonym."""
    monkeypatch.setenv("AGENT_DB_PASSWORD", "hunter2hunter2")
    monkeypatch.setenv("AGENT_URL", "https://me:s3cr3t-pa55@db.example/x")
    names = ["OPENAI_API_KEY", "AGENT_DB_PASSWORD", "AGENT_URL"]
    with use_cassette("c", mode="once", freeze=("env",)):
        values = [os.environ[name] for name in names]
        call("a")
    assert values == [SECRET, "hunter2hunter2", "https://me:s3cr3t-pa55@db.example/x"]
    for secret in (SECRET, "hunter2", "s3cr3t-pa55"):
        assert secret not in header_text()
    monkeypatch.setenv("OPENAI_API_KEY", "sk-proj-another")
    monkeypatch.delenv("AGENT_DB_PASSWORD")
    monkeypatch.delenv("AGENT_URL")
    with use_cassette("c"):
        key, password, url = [os.environ[name] for name in names]
        call("a")
    assert key == "sk-proj-another"
    assert password.startswith("[REDACTED:")
    assert url.startswith("https://")
    assert "[REDACTED:" in url


def test_redaction_rules_of_the_user_hold_for_variables() -> None:
    """A rule by name and one by pattern."""
    rules = [Rule("customer", pattern="small")]
    with use_cassette("c", mode="once", freeze=("env",), redact=rules):
        assert os.environ["AGENT_MODEL"] == "small"
        call("a")
    recorded = open_cassette("cassettes/c.yaml").header.freeze.environment["AGENT_MODEL"]
    assert recorded is not None
    assert recorded.startswith("[REDACTED:customer:")


@pytest.mark.parametrize("value", ["", " ", "null", "~", "a\nb", "x: y", "\u2028", "\x1b[0m", "1e9", "é" * 200])
@pytest.mark.parametrize("suffix", ["yaml", "jsonl"])
def test_every_value_survives(value: str, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a variable can hold is the same on replay."""
    path = f"cassettes/c.{suffix}"
    monkeypatch.setenv("AGENT_MODEL", value)
    with use_cassette(path, mode="once", freeze=("env",)):
        assert os.environ["AGENT_MODEL"] == value
        call("a")
    monkeypatch.setenv("AGENT_MODEL", "other")
    with use_cassette(path):
        assert os.environ["AGENT_MODEL"] == value
        call("a")


def test_new_episodes_learn_new_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is recorded stays, what is read for the first time is added when something is recorded."""
    with use_cassette("c", mode="once", freeze=("env",)):
        assert os.environ["AGENT_MODEL"] == "small"
        call("a")
    monkeypatch.setenv("AGENT_MODEL", "large")
    monkeypatch.setenv("AGENT_NEW", "n")
    with use_cassette("c", mode="new_episodes"):
        assert (os.environ["AGENT_MODEL"], os.environ["AGENT_NEW"]) == ("small", "n")
        call("a")
        call("b")
    assert open_cassette("cassettes/c.yaml").header.freeze.environment == {"AGENT_MODEL": "small", "AGENT_NEW": "n"}


def test_what_is_executed_is_real(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside an executed boundary numbers are noise and variables live, and nothing of them is recorded."""

    def inside() -> list[Any]:
        return [time.time(), np.random.default_rng().random(), random.Random().random(), os.environ.get("AGENT_INNER")]

    monkeypatch.setenv("AGENT_INNER", "real")
    rounds = []
    for _ in range(2):
        with use_cassette("c", mode="all", freeze=("clock", "random", "numpy", "env")):
            before = drawn()[1:]
            rounds.append(call("a", inside, kind="chat"))
            assert drawn()[1:] != before
    assert not set(rounds[0][:3]) & set(rounds[1][:3])
    assert rounds[0][3] == "real"
    assert "AGENT_INNER" not in header_text()


async def test_two_sessions_with_different_clocks() -> None:
    """Side by side in one event loop, one stands and one ticks, and each replays as it was alone."""
    for name, kinds in (("standing", ("clock", "uuid", "numpy")), ("ticking", ("clock:ticking", "uuid", "numpy"))):
        with use_cassette(name, mode="once", freeze=kinds):
            call("a")

    async def run(name: str, turn: list[asyncio.Event], index: int) -> list[Any]:
        seen: list[Any] = []
        async with use_cassette(name):
            for _ in range(3):
                seen.append((time.time(), uuid.uuid4(), np.random.rand()))
                turn[1 - index].set()
                await turn[index].wait()
                turn[index].clear()
            call("a")
            turn[1 - index].set()
        return seen

    async def together() -> list[list[Any]]:
        turn = [asyncio.Event(), asyncio.Event()]
        return list(await asyncio.gather(run("standing", turn, 0), run("ticking", turn, 1)))

    standing, ticking = await together()
    clocks = [open_cassette(f"cassettes/{name}.yaml").header.volatile.clock for name in ("standing", "ticking")]
    assert [look[0] for look in standing] == [clocks[0]] * 3
    assert len({look[0] for look in ticking}) == 3
    again = await together()
    assert [look[1:] for look in again[0]] == [look[1:] for look in standing]
    assert [look[1:] for look in again[1]] == [look[1:] for look in ticking]
    assert left_behind() == []


def test_nested_sessions_have_clocks_of_their_own() -> None:
    """The inner one is in force until its end; one that freezes nothing is real; then the outer one goes on."""
    with use_cassette("outer", mode="once"):
        outer, drawn_outer = time.time(), uuid.uuid4()
        with use_cassette("inner", mode="once", freeze=("clock:ticking",)):
            looks = [time.time() for _ in range(2)]
            while time.time() == looks[0]:
                pass
        with use_cassette("real", mode="once", freeze=()):
            assert time.time() > outer
            assert uuid.uuid4() != drawn_outer
        assert time.time() == outer
        call("a")
    assert left_behind() == []


def test_an_exception_leaves_nothing() -> None:
    """Every stand-in of every kind is gone when the body raised."""
    methods = dict(vars(type(os.environ))), vars(random.Random)["seed"], uuid.uuid4.__code__, asyncio.sleep.__code__
    with pytest.raises(ZeroDivisionError), use_cassette("c", mode="once", freeze=ALL):
        drawn()
        assert left_behind() != []
        _ = 1 / 0
    assert left_behind() == []
    assert methods == (
        dict(vars(type(os.environ))),
        vars(random.Random)["seed"],
        uuid.uuid4.__code__,
        asyncio.sleep.__code__,
    )
    assert {type(time.time), type(np.random.rand)} == {type(len), type(np.random.mtrand._rand.rand)}


def test_a_cassette_of_before_freezes_what_it_says() -> None:
    """A recording that knows nothing of numpy leaves numpy alone."""
    with use_cassette("c", mode="once", freeze=("clock", "uuid", "random")):
        call("a")
    with use_cassette("c"):
        assert np.random.default_rng().random() != np.random.default_rng().random()
        call("a")

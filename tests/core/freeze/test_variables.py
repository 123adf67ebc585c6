"""Environment variables: what the session's code read while recording, it reads on replay."""

from __future__ import annotations

import asyncio
import importlib
import os
import subprocess
import sys
from os import environ, getenv
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from agenttape_core.freeze import Environment

from .conftest import OpenSession, in_other_thread

if TYPE_CHECKING:
    from collections.abc import Callable


ENV = ["env"]
SECRET = "[REDACTED:openai:0123abcd]"


@pytest.fixture(autouse=True)
def _variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start each test with one variable that is there and one that is not."""
    monkeypatch.setenv("AGENT_MODEL", "live")
    monkeypatch.delenv("AGENT_ABSENT", raising=False)
    monkeypatch.setenv("AGENT_KEY", "live key")
    for scratch in ("AGENT_NEW", "AGENT_OTHER"):
        monkeypatch.setenv(scratch, "x")  # so that whatever a test does to it is undone
        monkeypatch.delenv(scratch)


def learning() -> Environment:
    """What a recording starts with."""
    return Environment({}, learns=True)


def replaying(**recorded: str | None) -> Environment:
    """What a replay starts with."""
    return Environment(recorded, learns=False)


def test_what_is_read_is_learned(session: OpenSession) -> None:
    """By every way to read a single variable; absent ones as absent; what is not read is not learned."""
    environment = learning()
    with session(kinds=ENV, environment=environment):
        assert os.environ["AGENT_MODEL"] == environ.get("AGENT_MODEL") == getenv("AGENT_MODEL") == "live"
        assert "AGENT_KEY" in os.environ
        assert getenv("AGENT_ABSENT", "default") == "default"
        with pytest.raises(KeyError, match="AGENT_OTHER"):
            os.environ["AGENT_OTHER"]
    assert environment.learned == {
        "AGENT_ABSENT": None,
        "AGENT_KEY": "live key",
        "AGENT_MODEL": "live",
        "AGENT_OTHER": None,
    }


def test_what_was_recorded_is_read(session: OpenSession) -> None:
    """Recorded values hide live ones, recorded absence hides presence, and nothing of it is in the real environment."""
    with session(kinds=ENV, environment=replaying(AGENT_MODEL="recorded", AGENT_KEY=None, AGENT_NEW="n")):
        assert os.environ["AGENT_MODEL"] == environ.get("AGENT_MODEL") == getenv("AGENT_MODEL") == "recorded"
        assert "AGENT_KEY" not in os.environ
        assert getenv("AGENT_KEY") is None
        assert os.environ["AGENT_NEW"] == "n"
        with pytest.raises(KeyError, match="AGENT_KEY"):
            os.environ["AGENT_KEY"]
    assert (os.environ["AGENT_MODEL"], os.environ["AGENT_KEY"], getenv("AGENT_NEW")) == ("live", "live key", None)


def test_what_was_not_recorded_is_live(session: OpenSession) -> None:
    """A variable that the recording never read has its real value."""
    with session(kinds=ENV, environment=replaying()):
        assert os.environ["AGENT_MODEL"] == "live"
        os.environ["AGENT_MODEL"] = "newer"
        assert os.environ["AGENT_MODEL"] == "newer"


def test_a_recording_sees_what_it_records(session: OpenSession) -> None:
    """A variable that somebody else changes meanwhile keeps its first value, as it will on replay."""
    with session(kinds=ENV, environment=learning()) as _:
        assert os.environ["AGENT_MODEL"] == "live"
        in_other_thread(os.environ.__setitem__, "AGENT_MODEL", "changed")
        assert os.environ["AGENT_MODEL"] == "live"
    assert os.environ["AGENT_MODEL"] == "changed"


def test_a_secret_is_the_live_one_or_its_pseudonym(session: OpenSession) -> None:
    """Who has the secret uses it; who has not can still make the client that wants one."""
    recorded = {"AGENT_KEY": SECRET, "AGENT_NEW": f"Bearer {SECRET}"}
    with session(kinds=ENV, environment=Environment(recorded, learns=False)):
        assert os.environ["AGENT_KEY"] == "live key"
        assert os.environ["AGENT_NEW"] == f"Bearer {SECRET}"


def test_writes_win(session: OpenSession) -> None:
    """What the code sets or removes is really set or removed, and read from then on."""
    with session(kinds=ENV, environment=replaying(AGENT_MODEL="recorded", AGENT_KEY="k", AGENT_NEW=None)):
        os.environ["AGENT_MODEL"] = "mine"
        assert os.environ.setdefault("AGENT_NEW", "made") == "made"
        del os.environ["AGENT_KEY"]
        assert (os.environ["AGENT_MODEL"], getenv("AGENT_NEW"), getenv("AGENT_KEY")) == ("mine", "made", None)
    assert (os.environ["AGENT_MODEL"], os.environ["AGENT_NEW"], getenv("AGENT_KEY")) == ("mine", "made", None)


def test_what_was_written_first_is_not_learned(session: OpenSession) -> None:
    """A variable that the code set itself is not a fact of its environment."""
    environment = learning()
    with session(kinds=ENV, environment=environment):
        os.environ["AGENT_NEW"] = "mine"
        assert os.environ["AGENT_NEW"] == "mine"
    assert environment.learned == {}


def test_setting_the_live_value_wins_too(session: OpenSession) -> None:
    """A write counts even if it changes nothing in the real environment."""
    with session(kinds=ENV, environment=replaying(AGENT_MODEL="recorded")):
        os.environ["AGENT_MODEL"] = "live"
        assert os.environ["AGENT_MODEL"] == "live"


def test_setdefault_keeps_what_was_recorded(session: OpenSession) -> None:
    """Where the recording had a value, none is set."""
    with session(kinds=ENV, environment=replaying(AGENT_NEW="recorded")):
        assert os.environ.setdefault("AGENT_NEW", "made") == "recorded"
    assert "AGENT_NEW" not in os.environ


def test_removing_follows_the_recording(session: OpenSession) -> None:
    """What was there can be removed once, what was absent cannot, whatever is there now."""
    with session(kinds=ENV, environment=replaying(AGENT_NEW="recorded", AGENT_KEY=None)):
        assert os.environ.pop("AGENT_NEW") == "recorded"
        assert getenv("AGENT_NEW") is None
        with pytest.raises(KeyError):
            del os.environ["AGENT_NEW"]
        with pytest.raises(KeyError):
            del os.environ["AGENT_KEY"]
        assert os.environ.pop("AGENT_KEY", "default") == "default"
    assert os.environ["AGENT_KEY"] == "live key"


def test_walking_shows_the_live_environment(session: OpenSession) -> None:
    """Copies and iterations are real, learn nothing, and are fit to be passed to a child process."""
    real = dict(os.environ)
    environment = learning()
    with session(kinds=ENV, environment=environment):
        assert os.environ.copy() == dict(os.environ) == {**os.environ} == real
        assert dict(os.environ.items()) == {name: os.environ[name] for name in os.environ} == os.environ | {}
        assert list(os.environ) == list(real)
        assert len(os.environ) == len(real)
    assert environment.learned == {}
    with session(kinds=ENV, environment=replaying(AGENT_MODEL="recorded", AGENT_NEW="n")):
        assert dict(os.environ) == real
        assert os.environ["AGENT_MODEL"] == "recorded"


@pytest.mark.process
def test_a_child_process_gets_the_real_environment(session: OpenSession) -> None:
    """With what the session wrote, and without what it only saw."""
    show = "import os; print(os.environ['AGENT_MODEL'], os.environ['AGENT_NEW'], os.environ.get('AGENT_KEY'))"
    with session(kinds=ENV, environment=replaying(AGENT_MODEL="recorded", AGENT_KEY=SECRET)):
        os.environ["AGENT_NEW"] = "written"
        for env in (None, {**os.environ}):
            child = subprocess.run([sys.executable, "-c", show], env=env, capture_output=True, text=True, check=True)
            assert child.stdout.split() == ["live", "written", "live", "key"]


def test_patching_all_of_it_is_undone(session: OpenSession) -> None:
    """`mock.patch.dict` puts back what was really there, and the recorded values show again."""
    real = dict(os.environ)
    with session(kinds=ENV, environment=replaying(AGENT_MODEL="recorded", AGENT_KEY=None)):
        with mock.patch.dict(os.environ, {"AGENT_MODEL": "patched", "AGENT_NEW": "n"}):
            assert (os.environ["AGENT_MODEL"], os.environ["AGENT_NEW"]) == ("patched", "n")
            assert "AGENT_KEY" not in os.environ
        assert (os.environ["AGENT_MODEL"], getenv("AGENT_NEW")) == ("recorded", None)
        assert "AGENT_KEY" not in os.environ
        with mock.patch.dict(os.environ, {"AGENT_NEW": "n"}, clear=True):
            assert (list(os.environ), getenv("AGENT_MODEL")) == (["AGENT_NEW"], None)
        assert os.environ["AGENT_MODEL"] == "recorded"
    assert dict(os.environ) == real


def test_monkeypatch_restores_what_was_real(session: OpenSession) -> None:
    """A patch that outlives the session leaves no recorded value behind."""
    real = dict(os.environ)
    with pytest.MonkeyPatch.context() as patch:
        with session(kinds=ENV, environment=replaying(AGENT_MODEL="recorded", AGENT_NEW="recorded")):
            patch.setenv("AGENT_MODEL", "patched")
            patch.setenv("AGENT_NEW", "patched")
            assert (os.environ["AGENT_MODEL"], os.environ["AGENT_NEW"]) == ("patched", "patched")
        assert os.environ["AGENT_NEW"] == "patched"
    assert dict(os.environ) == real


@pytest.mark.skipif(not hasattr(os, "environb"), reason="this system has no environment of bytes")
def test_bytes_are_the_same_environment(session: OpenSession) -> None:
    """`environb` and `environ` show one environment and learn one; what is no text is live."""
    os.environb[b"AGENT_NEW"] = b"\xff\xfe"
    environment = learning()
    with session(kinds=ENV, environment=environment):
        assert os.environb[b"AGENT_NEW"] == b"\xff\xfe"
        assert os.environb.get(b"AGENT_ABSENT") is None
    # What is no text cannot stand in a cassette: it stays live.
    assert environment.learned == {"AGENT_ABSENT": None}
    with session(kinds=ENV, environment=replaying(AGENT_MODEL="r\u00e9corded")):
        assert os.environb[b"AGENT_MODEL"] == "r\u00e9corded".encode()
        assert os.environ["AGENT_MODEL"] == "r\u00e9corded"
        assert dict(os.environb)[b"AGENT_MODEL"] == b"live"


@pytest.mark.parametrize(
    "name", ["AGENTTAPE_MODE", "PYTEST_CURRENT_TEST", "PYTHONPATH", "HOME", "PATH", "TMPDIR", "HTTPS_PROXY", "no_proxy"]
)
def test_the_machine_is_never_frozen(session: OpenSession, name: str) -> None:
    """What tells of the machine, the process or a tool is live, and never in a cassette."""
    environment = Environment({name: "recorded"}, learns=True)
    live = os.environ.get(name)
    with session(kinds=ENV, environment=environment):
        assert os.environ.get(name) == live
    assert environment.learned == {}


def test_a_wrong_key_is_refused_as_ever(session: OpenSession) -> None:
    """What is no name gets the same error as outside."""
    wrong: Any = 5
    with session(kinds=ENV, environment=learning()):
        with pytest.raises(TypeError, match="str expected"):
            os.environ[wrong]
        with pytest.raises(TypeError, match="str expected"):
            os.environ[wrong] = "x"
        with pytest.raises(TypeError, match="str expected"):
            os.environ["AGENT_MODEL"] = wrong
        with pytest.raises(TypeError, match="str expected"):
            del os.environ[wrong]


def test_an_import_inside_reads_the_live_environment(
    session: OpenSession, write_module: Callable[[str, str], str]
) -> None:
    """What a module reads when it is imported is the process's: only the first session of it would see that."""
    name = write_module("reads_environment", "import os\nmodel = os.environ['AGENT_MODEL']\n")
    environment = learning()
    with session(kinds=ENV, environment=environment):
        assert importlib.import_module(name).model == "live"
    assert environment.learned == {}


def test_other_threads_see_the_real_environment(session: OpenSession) -> None:
    """A thread of nobody's reads and learns nothing of the session's."""
    seen: list[str] = []
    with session(kinds=ENV, environment=replaying(AGENT_MODEL="recorded")):
        in_other_thread(lambda: seen.append(os.environ["AGENT_MODEL"]))
        assert os.environ["AGENT_MODEL"] == "recorded"
    assert seen == ["live"]


async def test_two_sessions_in_one_loop_see_two_environments(session: OpenSession) -> None:
    """Each task reads what its own session recorded, also while the other is in the middle of its session."""

    async def run(index: int) -> list[str]:
        with session(kinds=ENV, environment=replaying(AGENT_MODEL=str(index))):
            seen = []
            for _ in range(3):
                seen.append(os.environ["AGENT_MODEL"])
                await asyncio.sleep(0)
            return seen

    assert list(await asyncio.gather(run(0), run(1))) == [["0"] * 3, ["1"] * 3]


def test_nothing_stays_behind(session: OpenSession) -> None:
    """The class of the environment has its own methods again, after an error too, and other sessions leave it alone."""
    methods = dict(vars(type(os.environ)))
    with session():
        assert dict(vars(type(os.environ))) == methods
        with pytest.raises(ZeroDivisionError), session(kinds=ENV, environment=learning()):
            assert dict(vars(type(os.environ))) != methods
            _ = 1 / 0
        assert dict(vars(type(os.environ))) == methods
    assert dict(vars(type(os.environ))) == methods

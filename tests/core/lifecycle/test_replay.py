"""Sessions that are nobody's current one: an observed run, and a cassette that stands in for something."""

from __future__ import annotations

from pathlib import Path

import pytest

from agenttape_core import Rule, Session, open_cassette
from agenttape_core.errors import CassetteMissError, CassetteNotFoundError, ConfigurationError
from agenttape_core.integration import Boundary, current_session, intercept
from agenttape_core.integration.observing import Observation
from agenttape_core.integration.stand_ins import open_replay

from ..session.world import World

pytestmark = pytest.mark.usefixtures("project")


def ask(session: Session, world: World, name: str) -> str:
    """Call a tool in a session that is given."""
    session_call = session.cross(Boundary("tool"), name, {"tool": name})
    answer: str = intercept(session_call, lambda: world.reach(name))
    return answer


def test_observe_and_replay() -> None:
    """What was observed is a cassette; replaying it is nobody's current session, and serves without the world."""
    world, observation = World(), Observation("runs/one.jsonl", tags=["production"])
    assert ask(observation.session, world, "a") == "a 1"
    assert current_session() is None
    observation.flush()
    assert open_cassette("runs/one.jsonl").header.tags == ["production"]
    replay = open_replay("runs/one.jsonl")
    assert ask(replay, world, "a") == "a 1"
    assert current_session() is None
    with pytest.raises(CassetteMissError, match="record the agent again, and replay the new cassette"):
        ask(replay, world, "b")
    assert world.reached == ["a"]


def test_flushed_often() -> None:
    """Each flush adds to what is written, in order; one without anything new changes nothing."""
    world, observation = World(), Observation("runs/one.yaml")
    observation.flush()
    assert not Path("runs").exists()
    for name in ("a", "b", "a"):
        ask(observation.session, world, name)
        observation.flush()
    before = Path("runs/one.yaml").read_bytes()
    observation.flush()
    assert Path("runs/one.yaml").read_bytes() == before
    cassette = open_cassette("runs/one.yaml")
    assert [(e.number, e.name) for e in cassette.entries] == [(1, "a"), (2, "b"), (3, "a")]
    assert set(cassette.header.volatile.timings) == {1, 2, 3}


def test_bad_arguments() -> None:
    """What cannot be written or read is refused at once."""
    with pytest.raises(CassetteNotFoundError):
        open_replay("nothing")
    with pytest.raises(ConfigurationError):
        Observation("one.gz").session.path  # noqa: B018
    observation = Observation("ruled", redact=[Rule("mine", literal="abc")])
    ask(observation.session, World(), "a")
    observation.flush()
    with pytest.raises(ConfigurationError, match="mine"):
        open_replay("ruled")
    assert open_replay("ruled", redact=[Rule("mine", literal="abc")]).mode == "replay"

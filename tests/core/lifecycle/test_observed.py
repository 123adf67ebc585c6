"""Observing many runs: the file is written when it is worth it, a journal holds the rest, and nobody interferes."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pytest

from agenttape_core import Rule, Session, open_cassette, recover, use_cassette
from agenttape_core.errors import (
    CassetteLockedError,
    CassetteMissError,
    CassetteNotFoundError,
    ConfigurationError,
    SessionStateError,
)
from agenttape_core.integration import (
    Boundary,
    StepEvent,
    current_session,
    executing,
    intercept,
    plain_value,
    record_step,
)
from agenttape_core.integration.observing import Observation, as_observed
from agenttape_core.integration.stand_ins import open_replay

from ..session.world import World

pytestmark = pytest.mark.usefixtures("project")


def observe(observation: Observation, name: str, answer: str = "x") -> None:
    """Observe a run of one call."""
    session_call = observation.session.cross(Boundary("tool"), name, {"name": name})
    intercept(session_call, lambda: answer)
    observation.run_ended()


def names(path: str) -> list[str]:
    """The calls of a cassette."""
    return [entry.name for entry in open_cassette(path).entries]


def journals() -> list[Path]:
    """What is beside the cassette."""
    return sorted(Path("runs").glob(".*.journal"))


def test_small_files_are_complete_after_each_run() -> None:
    """As long as it is small, the cassette holds every run that has ended, and nothing else is left beside it."""
    observation = Observation("runs/one.yaml")
    for number in range(5):
        observe(observation, f"call{number}")
        assert names("runs/one.yaml") == [f"call{n}" for n in range(number + 1)]
        assert [path.name for path in Path("runs").iterdir()] == ["one.yaml"]


def test_writing_is_linear() -> None:
    """A large file is not written for every run: the bytes written stay within a few times the bytes recorded."""
    observation = Observation("runs/many.jsonl")
    sizes = []
    for number in range(120):
        observe(observation, f"call{number}", f"{number} " * 1000)
        size = Path("runs/many.jsonl").stat().st_size
        if not sizes or size != sizes[-1]:
            sizes.append(size)
    large = [size for size in sizes if size > 64 * 1024]
    assert len(large) < 12
    assert all(after > before * 1.4 for before, after in pairwise(large))
    observation.close()
    assert names("runs/many.jsonl") == [f"call{n}" for n in range(120)]
    assert journals() == []


def test_what_is_not_yet_in_the_file_is_in_the_journal() -> None:
    """A process that dies between two writings loses nothing that has ended."""
    observation = Observation("runs/many.yaml")
    observe(observation, "large", "x " * 50_000)
    observe(observation, "small")
    assert names("runs/many.yaml") == ["large"]
    (journal,) = journals()
    copy = journal.with_name(".copy.yaml.1-ab.journal")  # as it is after a crash, when nobody holds it
    copy.write_bytes(journal.read_bytes())
    assert names(str(recover(copy))) == ["small"]
    observation.flush()
    assert names("runs/many.yaml") == ["large", "small"]


def test_close_ends_it() -> None:
    """After `close` everything is written, and nothing more is taken."""
    observation = Observation("runs/one.yaml")
    observe(observation, "a")
    observation.close()
    observation.close()
    with pytest.raises(SessionStateError, match="closed"):
        observation.session  # noqa: B018


def test_second_writer_is_refused() -> None:
    """While one records, another is refused when it is made; when one was replaced in between, the first is."""
    first, second = Observation("runs/one.yaml"), Observation("runs/one.yaml")
    first.session  # noqa: B018
    with pytest.raises(CassetteLockedError, match="recording to this cassette"):
        Observation("runs/one.yaml")
    with pytest.raises(CassetteLockedError):
        second.session  # noqa: B018
    observe(first, "a")
    observe(second, "b")
    assert names("runs/one.yaml") == ["b"]
    with pytest.raises(CassetteLockedError, match="has replaced what was observed"):
        observe(first, "c")
    assert names("runs/one.yaml") == ["b"]
    assert names(str(recover(*journals()))) == ["c"]


def test_a_file_that_was_moved_away_is_begun_anew() -> None:
    """Who rotates the files gets a new one with what came after."""
    observation = Observation("runs/one.jsonl")
    observe(observation, "a")
    Path("runs/one.jsonl").rename("runs/old.jsonl")
    observe(observation, "b")
    assert (names("runs/old.jsonl"), names("runs/one.jsonl")) == (["a"], ["b"])


def test_inbound_input_is_in_the_header() -> None:
    """The first input is kept, redacted, so that the run can be started without the test; later ones are not."""
    observation = Observation("runs/one.yaml", redact=[Rule("customer", literal="Ms Smith")])
    for question in ("Hello from Ms Smith", "Hello again"):
        observation.note_input(plain_value({"question": question}))
        observe(observation, question)
    kept = open_cassette("runs/one.yaml").header.input["question"]
    assert kept.startswith("Hello from [REDACTED:customer:")


def test_steps_are_redacted() -> None:
    """Nothing that a step says holds a secret: names of fields, texts, errors."""
    observation = Observation("runs/one.yaml")
    session = observation.session
    secret = "sk-proj-" + "a1B2" * 12
    event = StepEvent(
        "event",
        "told",
        "told",
        session.root.moment(),
        0.0,
        tags=[secret],
        metadata={"api_key": "swordfish", "object": object()},
        error=ValueError(secret),
        missing=secret,
        data=plain_value([secret, object()]),
    )
    record_step(session, event)
    observation.close()
    text = Path("runs/one.yaml").read_text()
    assert secret not in text
    assert "swordfish" not in text
    assert text.count("$opaque") == 2


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_observes_for_itself() -> None:
    """A forked process neither writes what its parent has observed nor loses what it observes itself."""
    observation = Observation("runs/one.yaml")
    observation.session  # noqa: B018
    child = os.fork()
    if child == 0:
        observation.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    observe(observation, "parent")
    assert names("runs/one.yaml") == ["parent"]


def test_code_that_crosses_for_sessions_crosses_for_an_observation() -> None:
    """Within `as_observed` the observation's session is the current one, below its call; outside nothing is."""
    observation = Observation("seen.yaml")
    with use_cassette("recorded.yaml", mode="all") as session:
        outer = observation.session.cross(Boundary("tool"), "outer", {})
        with as_observed(observation.session, outer):
            assert current_session() is observation.session
            assert executing() is outer
            inner = observation.session.cross(Boundary("tool"), "inner", {})
        assert current_session() is session
        assert executing() is None
        assert session.root.child("next").address == "next"
    inner.returned("in")
    outer.returned("out")
    observation.close()
    first, second = open_cassette("seen.yaml").interactions()
    assert (second.name, second.parent, second.address) == ("inner", first.number, "outer/inner")


# -- a cassette that stands in for something ------------------------------------------------------------------


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
    """Each flush adds to what is written, in order; one without anything new changes nothing; a new one starts anew."""
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
    observation = Observation("runs/one.yaml")
    ask(observation.session, world, "c")
    observation.flush()
    assert names("runs/one.yaml") == ["c"]


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

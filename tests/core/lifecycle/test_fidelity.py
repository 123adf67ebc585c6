"""A recording that is not exactly what came back is not replayed unless the session is told to."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from threading import Barrier
from typing import Any

import pytest

from agenttape_core import open_cassette, use_cassette
from agenttape_core.errors import CassetteMissError, ConfigurationError, UnrecordedCallError, UnusedInteractionsError
from agenttape_core.integration import StepEvent, record_step
from agenttape_core.integration.observing import Observation
from agenttape_core.integration.stand_ins import open_replay

from ..session.world import World, call

pytestmark = pytest.mark.usefixtures("project")


@pytest.fixture(params=["runs/seen.yaml", "runs/seen.jsonl"])
def seen(request: pytest.FixtureRequest) -> str:
    """A cassette of an exact and a lossy call, with a word `fidelity` in the exact one, and of one that is missing."""
    path: str = request.param
    observation = Observation(path)
    session = observation.session
    from agenttape_core.integration import Boundary, intercept

    for name, note in (("sound", ""), ("half", "its chunks were not seen")):
        session_call = session.cross(Boundary("tool"), name, {"fidelity": "lossy", "x": {"fidelity": "lossy"}})
        session_call.fidelity_note = note
        intercept(session_call, lambda name=name: f"recorded {name}")
    record_step(session, StepEvent("tool", "gone", "gone", session.root.moment(), 0.0, missing="it was cancelled"))
    gap = StepEvent("gap", "observer", "", (), 0.0, missing="nobody tells of embeddings", data=["embeddings"])
    record_step(session, gap)
    observation.close()
    return path


def ask(name: str, boundary: str = "tool") -> Any:
    """Ask for a call; the real one must not happen."""
    return call(name, lambda: World().reach("trespass"), boundary, fidelity="lossy", x={"fidelity": "lossy"})


def test_the_mark_is_on_the_record(seen: str) -> None:
    """The file says which interaction is lossy and why, and says nothing of exact ones."""
    cassette = open_cassette(seen)
    assert [(i.fidelity, i.fidelity_note) for i in cassette.interactions()] == [
        ("exact", ""),
        ("lossy", "its chunks were not seen"),
    ]
    assert [cassette.fidelity_note(number) for number in (1, 2)] == ["", "its chunks were not seen"]


def test_refused_with_the_reason(seen: str) -> None:
    """An exact call of the same file is replayed; the lossy one is a miss that says why and what to do."""
    with (
        pytest.raises(
            CassetteMissError, match=r"was recorded incompletely \(call 2\): its chunks were not seen"
        ) as caught,
        use_cassette(seen),
    ):
        assert ask("sound") == "recorded sound"
        ask("half")
    assert 'accept={"lossy"}' in str(caught.value)


def test_replayed_when_told(seen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The option, the setting and the environment accept what was recorded."""
    with use_cassette(seen, accept={"lossy"}) as cassette:
        assert (ask("sound"), ask("half")) == ("recorded sound", "recorded half")
    assert str(cassette.report) == "2 replayed, 0 recorded"
    monkeypatch.setenv("AGENTTAPE_ACCEPT", "lossy")
    assert open_replay(seen).policy.accepts_lossy
    with pytest.raises(ConfigurationError, match="accept"):
        use_cassette(seen, accept={"perhaps"}).__enter__()  # type: ignore[arg-type]


def refused(name: str) -> str:
    """Ask for a call that is refused, and return the reason: the cause of what a model may read."""
    with pytest.raises(UnrecordedCallError) as caught:
        ask(name)
    return str(caught.value.__cause__)


def test_refused_is_not_used_up(seen: str) -> None:
    """A lossy recording that is refused stays: each request for it gets the reason, and in the end it is unused."""
    with use_cassette(seen, on_miss="return", on_unused="ignore") as cassette:
        ask("sound")
        first, second = refused("half"), refused("half")
    assert "was recorded incompletely (call 2): its chunks were not seen" in first
    assert second == first.replace(" at half:", " at half#2:")
    assert [call_record.number for call_record in cassette.report.unused] == [2]
    with pytest.raises(UnusedInteractionsError, match="half"), use_cassette(seen, on_miss="return", on_unused="fail"):
        ask("sound")
        refused("half")


def test_refused_again_with_the_remedy(seen: str) -> None:
    """Where a miss is raised and eaten, the next one names the remedy as well."""
    with pytest.raises(CassetteMissError), use_cassette(seen):
        ask("sound")
        for _ in range(2):
            with pytest.raises(
                CassetteMissError, match=r'accept what was recorded:  use_cassette\(..., accept={"lossy"}\)'
            ):
                ask("half")


def test_refused_to_every_thread(seen: str) -> None:
    """Of two threads that ask at once, both get the reason."""
    start = Barrier(2)

    def half() -> str:
        start.wait()
        return refused("half")

    with use_cassette(seen, on_miss="return", on_unused="ignore") as cassette, ThreadPoolExecutor(2) as pool:
        ask("sound")
        asked = [pool.submit(copy_context().run, half) for _ in range(2)]
        assert all("was recorded incompletely (call 2): its chunks were not seen" in one.result() for one in asked)
    assert len(cassette.report.unrecorded) == 2
    assert [call_record.number for call_record in cassette.report.unused] == [2]


def test_new_episodes_keep_steps_and_marks(seen: str) -> None:
    """Adding to an observed cassette loses neither its steps nor its marks."""
    before = list(open_cassette(seen).records())
    timings = open_cassette(seen).header.volatile
    with use_cassette(seen, mode="new_episodes", accept={"lossy"}):
        assert (ask("sound"), ask("half")) == ("recorded sound", "recorded half")
        assert call("more", lambda: "executed", y=1) == "executed"
    after = open_cassette(seen)
    assert list(after.records())[:-1] == before
    assert after.header.volatile.steps == timings.steps
    with use_cassette(seen, accept={"lossy"}, ignore=["y"]):  # compared anew, and marked all the same
        ask("sound")
        ask("half")
        call("more", lambda: "trespass", y=2)


def test_a_miss_says_what_is_known_to_be_missing(seen: str) -> None:
    """A call that was seen and not recorded, and a kind of calls that nobody saw, are explained by the cassette."""
    with pytest.raises(CassetteMissError, match=r"missing +it was cancelled"), use_cassette(seen):
        call("gone", lambda: "trespass", y=1)
    with pytest.raises(CassetteMissError, match=r"missing +nobody tells of embeddings"), use_cassette(seen):
        call("any", lambda: "trespass", "embeddings", y=1)
    with pytest.raises(CassetteMissError) as caught, use_cassette(seen):
        call("other", lambda: "trespass", y=1)
    assert "missing " not in str(caught.value)

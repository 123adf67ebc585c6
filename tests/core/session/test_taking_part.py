"""What takes part in a session, what an address is called, and texts that steps only name."""

from __future__ import annotations

import asyncio
import threading
from time import perf_counter
from typing import TYPE_CHECKING, Any

import pytest

from agenttape_core import open_cassette, use_cassette
from agenttape_core.errors import CassetteMissError
from agenttape_core.integration import (
    Boundary,
    StepEvent,
    current_session,
    intercept,
    record_step,
    register_address_reader,
    taking_part,
)
from agenttape_core.session import miss

from ...kit.installed import install

if TYPE_CHECKING:
    from pathlib import Path

LONG = "a text of more than a hundred characters " * 3


def test_inside_of_what_takes_part(tmp_path: Path) -> None:
    """A session is automatic inside of what takes part in it, in threads and tasks that inherit, and nowhere else."""
    with use_cassette(tmp_path / "a.yaml", mode="all", auto=False) as session:
        assert not session.auto
        with taking_part(session):
            assert session.auto
            with use_cassette(tmp_path / "b.yaml", mode="all", auto=False) as inner:
                assert not inner.auto
                with taking_part(inner):
                    assert inner.auto
                    assert session.auto

            async def ask() -> bool:
                return session.auto

            assert asyncio.run(ask())
            seen: list[bool] = []
            thread = threading.Thread(target=lambda: seen.append(session.auto))
            thread.start()
            thread.join()
            assert seen == [False]
        assert not session.auto


def test_an_address_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A miss says what an integration calls the place, where one has words for it."""
    monkeypatch.setattr(miss, "_readers", [])
    register_address_reader(lambda address: "the second room" if address.endswith("#2") else None)
    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="all") as session:
        intercept(session.cross(Boundary("call"), "ask", {"n": 1}), lambda: "answer")
    with pytest.raises(CassetteMissError) as missed, use_cassette(path) as session:
        intercept(session.cross(Boundary("call"), "ask", {"n": 1}), lambda: "answer")
        session.cross(Boundary("call"), "ask", {"n": 2})
    assert " in the second room\n" in str(missed.value)


def test_texts_that_interactions_hold(tmp_path: Path) -> None:
    """A step that repeats texts refers to the long ones of interactions; what else there is stays as it is."""
    path = tmp_path / "c.yaml"
    output = {"said": [LONG, "short", LONG + "?"]}
    with use_cassette(path, mode="all") as session:
        assert current_session() is session
        session.ledger.refer_to_texts()
        intercept(session.cross(Boundary("call"), "ask", {"n": 1}), lambda: {"answer": [LONG, "short"]})
        for repeats in (True, False):
            place = session.root.child("node")
            event = StepEvent("node", "n", place.address, place.order, perf_counter(), output=output, repeats=repeats)
            record_step(session, event)
    named, whole = [step.output for step in open_cassette(path).steps()]
    assert named == {"said": [{"$ref": {"at": "ask", "chars": len(LONG)}}, "short", LONG + "?"]}
    assert whole == output


REPORTS = """
import threading

def begin(stop, seen):
    def report():
        seen.append(current())
        while not stop.wait(60):
            pass

    from agenttape_core.scheduling.participants import current_participant as current
    thread = threading.Thread(target=report)
    thread.start()
    return thread
"""


@pytest.mark.parametrize(("module", "takes_part"), [("posthog.consumer", False), ("posthog_other.consumer", True)])
def test_threads_of_telemetry_have_no_turn(tmp_path: Path, module: str, takes_part: bool) -> None:
    """A thread of telemetry runs as it likes: the program's threads don't wait for a turn that it has."""
    consumer: Any = install(tmp_path, module.partition(".")[0].replace("_", "-"), module, REPORTS)

    def program() -> list[object]:
        stop, seen = threading.Event(), list[object]()
        reporting = consumer.begin(stop, seen)
        for _ in range(3):
            working = threading.Thread(target=lambda: None)
            working.start()
            working.join()
        stop.set()
        reporting.join()
        return seen

    for mode in ("record", "replay"):
        with use_cassette(tmp_path / "c.yaml", mode=mode) as session:
            seen = program()
        assert [each is not None for each in seen] == [takes_part]
        assert not session.report.nondeterminism

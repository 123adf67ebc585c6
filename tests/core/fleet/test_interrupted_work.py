"""Workers that are killed or interrupted: no outcome is lost or made twice, and a second run does the rest."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from agenttape_core.errors import counted
from agenttape_core.fleet.outcomes import key_of, outcomes_in
from agenttape_core.fleet.working import work_all

from . import desk
from .conftest import CHECK, REPLAY, RULES, Command, outcomes, plan, planned


@pytest.mark.process
def test_killed(fleet: Command) -> None:
    """Workers are killed at random moments: each outcome is whole, and the last run makes only the rest."""
    Path("rules.yaml").write_text(RULES)
    desk.record(Path("runs"), ["Paris"] * 60)
    made = planned(fleet, "runs", *CHECK)
    draw, endings = Random(7), []
    for _ in range(5):
        children = []
        for shard in (made.shard(1, 2), made.shard(2, 2) + made.shard(1, 2)):  # both may come to the same item
            moment = draw.uniform(0.005, 0.06)
            child = os.fork()
            if not child:
                signal.signal(signal.SIGPROF, signal.SIG_DFL)
                signal.setitimer(signal.ITIMER_PROF, moment)  # ends it as kill does: no code of ours runs
                work_all(shard, output="out", settings=made.settings)
                os._exit(0)
            children.append(child)
        endings += [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert -signal.SIGPROF in endings
    ids = {item.id for item in made.items}
    before = {one.item: Path("out", key_of(one.item)).stat().st_mtime_ns for one in outcomes_in("out", ids)}
    assert len(before) > 0
    done = work_all(made.items, output="out", settings=made.settings)
    assert (done.known, done.verdicts.total()) == (len(before), 60 - len(before))
    assert {id_: Path("out", key_of(id_)).stat().st_mtime_ns for id_ in before} == before
    assert {one.item for one in outcomes_in("out", ids)} == ids


@pytest.mark.slow
@pytest.mark.parametrize("concurrency", ["1", "3"])
def test_interrupted(fleet: Command, monkeypatch: pytest.MonkeyPatch, interruptible: None, concurrency: str) -> None:
    """Ctrl-C ends the work with 130, its outcomes are kept, and the next run does the rest."""
    del interruptible
    desk.record(Path("runs"), ["Paris", "Oslo"] + ["Rome"] * 18)
    items = plan(fleet, "runs", *REPLAY)
    monkeypatch.setattr(desk, "how", "is interrupted")
    ended = fleet("work", items, "--output", "out", "--concurrency", concurrency)
    assert ended.code == 130
    count = len(outcomes())
    assert count < 20 or concurrency == "3"  # threads may finish all before the main one gets the signal
    not_done = f"agenttape: {counted(20 - count, 'item')} not done; run it again to do only what is missing"
    assert (not_done in ended.err) == (count < 20)
    monkeypatch.setattr(desk, "how", "as recorded")
    assert Counter(fleet("work", items, "--output", "out", "--json").json["verdicts"]) == Counter(same=20 - count)


def test_clock_that_jumps(fleet: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that is set back while runs are recorded and worked on changes no duration and no outcome."""
    moments = iter(range(10**6, 0, -1))
    monkeypatch.setattr("time.time", lambda: float(next(moments)))
    Path("rules.yaml").write_text(RULES)
    desk.record(Path("runs"), ["Paris", "Oslo"])
    assert all(0 <= item.seconds < 60 for item in planned(fleet, "runs", *CHECK).items)
    assert fleet("work", "items.jsonl", "--output", "out").code == 0
    assert all(0 <= one.seconds < 60 for one in outcomes())

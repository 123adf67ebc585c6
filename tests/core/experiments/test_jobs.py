"""What every experiment is made of: jobs in parallel, interruptions, results in all forms, and earlier reports."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import thread as pools
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import Variation, boundary, use_cassette
from agenttape_core.errors import ConfigurationError
from agenttape_core.experiments import drive, faults, flaky, independent, orders, program_of, shrink, why
from agenttape_core.experiments.engine import Jobs
from agenttape_core.experiments.result import Result, Summary, columns, earlier, read
from agenttape_core.scheduling.threads import Waits
from agenttape_core.tools.reporting import Finding, Level
from agenttape_core.tools.reporting.forms import write_report

THREADS: set[str] = set()
"""The names of the threads that have run a program."""


@boundary("tool")
async def look_up(name: str) -> str:
    """Find a fact."""
    return f"{name} is open from 6 to 11"


@boundary("chat")
async def ask(prompt: str) -> str:
    """Answer a prompt."""
    return prompt.upper()


@boundary("tool")
def price(name: str) -> float:
    """Return a price."""
    return len(name) / 2


@boundary("chat")
def say(prompt: str) -> str:
    """Answer a prompt."""
    return prompt.upper()


async def side_by_side() -> str:
    """Look up two places side by side, and ask about both, with the time and a draw in the question."""
    THREADS.add(threading.current_thread().name)
    facts = await asyncio.gather(look_up("Lucia"), look_up("Dune"))
    await asyncio.sleep(0.01)
    return await ask(f"{', '.join(facts)}, at {time.time()}: {random.random()}")


def in_threads() -> str:
    """Look up two prices in threads, again if that fails, and ask about both."""
    THREADS.add(threading.current_thread().name)

    def again(name: str) -> float:
        try:
            return price(name)
        except Exception:
            return price(name)

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(again, ["Lucia", "Dune"]))
    return say(f"{found}, at {time.time()}: {random.random()}")


def recorded(program: Callable[[], Any], folder: Path) -> Path:
    """Record a program, and return the cassette."""
    path = folder / "run.yaml"
    with use_cassette(path, mode="once"):
        asyncio.run(side_by_side()) if program is side_by_side else in_threads()
    THREADS.clear()
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "experiment"),
    [
        pytest.param(side_by_side, faults, marks=pytest.mark.night),
        pytest.param(side_by_side, flaky, marks=pytest.mark.night),
        (in_threads, why),
    ],
)
def test_same(program: Callable[[], Any], experiment: Callable[..., Any], tmp_path: Path) -> None:
    """What is found with four jobs is what is found with one, and several threads have run the program."""
    path = recorded(program, tmp_path)
    more: dict[str, Any] = {"processes": 0, "samples": 6} if experiment is flaky else {}
    alone = experiment(program, path, **more)
    assert len(THREADS) == 1
    together = experiment(program, path, jobs=4, **more)
    assert len(THREADS) > 2
    assert together.to_dict() == alone.to_dict()
    assert str(together) == str(alone)


@pytest.mark.slow
def test_the_lock_of_all_pools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No replay waits in its own order for the lock of all pools, which another replay has taken."""
    waited_for: list[int] = []
    real = Waits.wait

    def wait(self: Waits, one: Any, wait: Any) -> bool | None:
        waited_for.append(wait.key)
        return real(self, one, wait)

    path = recorded(in_threads, tmp_path)
    monkeypatch.setattr(Waits, "wait", wait)
    faults(in_threads, path, jobs=4)
    assert waited_for
    assert id(pools._global_shutdown_lock) not in waited_for


@pytest.mark.parametrize("jobs", [0, True, "2"])
def test_refused(jobs: Any, tmp_path: Path) -> None:
    """A number of jobs from one on is expected."""
    with pytest.raises(ConfigurationError, match="at least 1"):
        faults(in_threads, recorded(in_threads, tmp_path), jobs=jobs)


def test_experiments_that_take_steps(tmp_path: Path) -> None:
    """Where each replay decides what the next one varies, there are no jobs."""
    path = recorded(in_threads, tmp_path)
    for experiment in (orders, shrink):
        with pytest.raises((TypeError, ConfigurationError)):
            experiment(in_threads, path, jobs=2)


def test_environment(tmp_path: Path) -> None:
    """A replay in this process can't have another environment, by hand or in an experiment."""
    varied = Variation(recorded(in_threads, tmp_path), environment={"hash_seed": 1})
    with pytest.raises(ConfigurationError, match="a replay in this process keeps its own"):
        use_cassette(tmp_path / "run.yaml", vary=varied).__enter__()
    with pytest.raises(ConfigurationError, match="a replay in this process keeps its own"):
        program_of(in_threads).run(varied)


def test_own_experiment(tmp_path: Path) -> None:
    """An experiment gets the runs of independent variations in their order, and may yield others after them."""
    path = recorded(side_by_side, tmp_path)

    def experiment() -> Any:
        runs = []
        for variation in independent([Variation(path), Variation(path, order="2,1"), Variation(path, order="1,2")]):
            runs.append((yield variation))  # noqa: PERF401 - a comprehension can't yield
        runs.append((yield Variation(path)))
        return [run.result for run in runs], [run.session.report.nondeterminism for run in runs]

    found = [drive(program_of(side_by_side), experiment(), jobs=jobs) for jobs in (1, 3)]
    assert found[0] == found[1]
    assert independent([]) == []


async def answer() -> str:
    """Look up two places side by side, and ask about both."""
    facts = await asyncio.gather(look_up("Lucia"), look_up("Dune"))
    return await ask(", ".join(facts))


@pytest.fixture
def cassette(tmp_path: Path) -> Path:
    """The recorded run."""
    with use_cassette(tmp_path / "run.yaml", mode="once"):
        asyncio.run(answer())
    return tmp_path / "run.yaml"


def after(runs: int) -> Callable[[], None]:
    """Return what interrupts an experiment after some runs."""
    count = itertools.count(1)

    def interrupt() -> None:
        if next(count) == runs:
            raise KeyboardInterrupt

    return interrupt


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [pytest.param(1, marks=pytest.mark.night), 2])
def test_interrupted_faults(cassette: Path, tmp_path: Path, jobs: int) -> None:
    """The cells that came first are in the matrix, which shows how many weren't tried; a later run tries those."""
    whole = faults(answer, cassette)
    found = faults(answer, cassette, jobs=jobs, on_run=after(6))
    assert found.untried
    assert found.cells == whole.cells[: len(found.cells)]
    assert f"interrupted: {found.untried} faults not tried" in str(found)
    report = tmp_path / "report.json"
    report.write_text(json.dumps({"tests": [found.to_dict()]}))
    runs: list[None] = []
    resumed = faults(answer, cassette, resume=report, on_run=lambda: runs.append(None))
    assert len(runs) == 2 + found.untried, "a plain run and a control besides"
    assert resumed == whole


@pytest.mark.slow
def test_interrupted_orders(cassette: Path) -> None:
    """The orders that were tried are no proof that all are the same."""
    assert (orders(answer, cassette).orders, orders(answer, cassette).is_exhaustive) == (2, True)
    found = orders(answer, cassette, on_run=after(5))
    assert (found.orders, found.is_exhaustive, found.is_whole) == (1, False, False)
    assert "interrupted" in str(found)


def test_interrupted_why(cassette: Path) -> None:
    """The links that were tested are shown."""
    found = why(answer, cassette, on_run=after(5))
    assert [edge.source for edge in found.links] == [1]
    assert "interrupted: not each recorded answer was tried" in str(found)


@pytest.mark.slow
def test_interrupted_shrink(cassette: Path) -> None:
    """The cassette that was found so far is written, and still fails."""

    async def fails() -> None:
        """Fail by what the model says."""
        assert "LUCIA" not in await answer()

    found = shrink(fails, cassette, on_run=after(12))
    assert not found.is_minimal
    assert found.replays < shrink(fails, cassette, to=cassette.with_name("whole.yaml")).replays
    assert found.cassette.is_file()


@pytest.mark.slow
def test_interrupted_flaky(cassette: Path) -> None:
    """The parts that were varied are shown, with their samples, and no other part is begun."""
    part: Any = flaky(answer, cassette, samples=3, processes=0, on_run=after(3))
    assert [(group.part, len(group.samples), group.skipped) for group in part.groups] == [("code", 2, "interrupted")]
    late: Any = flaky(answer, cassette, samples=3, processes=0, on_run=after(8))
    assert [(group.part, group.skipped) for group in late.groups] == [("code", ""), ("order", "interrupted")]
    found: Any = flaky(answer, cassette, samples=3, processes=0, on_run=after(5))
    assert [group.part for group in found.groups] == ["code"]
    assert "interrupted: not all parts were tried" in found.notes


def test_what_does_not_keep_anything(cassette: Path) -> None:
    """Before there is anything to compare with, an interruption is one."""
    with pytest.raises(KeyboardInterrupt):
        faults(answer, cassette, on_run=after(1))
    with pytest.raises(ConfigurationError, match="not a report of this experiment as JSON"):
        faults(answer, cassette, resume=cassette)


@pytest.mark.parametrize("runs_before_the_end", [True, False])
def test_interrupted_start_of_a_thread(monkeypatch: pytest.MonkeyPatch, runs_before_the_end: bool) -> None:
    """Work in a thread whose start Ctrl-C interrupts has ended when the block has, or never begins."""
    taken, left = threading.Event(), threading.Event()
    threads: list[threading.Thread] = []
    seen: list[bool] = []
    start, take = threading.Thread.start, Future.set_running_or_notify_cancel

    def start_interrupted(thread: threading.Thread) -> None:
        start(thread)
        threads.append(thread)
        taken.wait()
        raise KeyboardInterrupt

    def held_before(future: Future[None]) -> bool:
        taken.set()
        return left.wait() and take(future)

    def work(_: int) -> None:
        taken.set()
        seen.append(left.wait(0.1))  # long enough for a block that doesn't wait for it

    monkeypatch.setattr(threading.Thread, "start", start_interrupted)
    if not runs_before_the_end:
        monkeypatch.setattr(Future, "set_running_or_notify_cancel", held_before)
    with pytest.raises(KeyboardInterrupt), Jobs(2) as jobs:
        list(jobs.each(work, [1]))
    left.set()
    threads[0].join()
    assert seen == [False] * runs_before_the_end


@dataclass(frozen=True, slots=True)
class Slow(Result):
    """The calls of a program that are slow."""

    program: str
    calls: tuple[tuple[str, int], ...]
    level: Level = "error"
    experiment = "slow"

    def summary(self) -> Summary:
        """Return a row and a finding for each call."""
        found = [Finding(f"{name} took {seconds} s", level=self.level) for name, seconds in self.calls]
        rows = columns([(name, f"{seconds} s") for name, seconds in self.calls])
        return Summary(self.program, "desk.yaml", f"{self.program}: {len(found)} slow", rows, found)


def test_one_summary_makes_all_forms(tmp_path: Path) -> None:
    """The text is the line and the table, the findings fail it, and each report has them with the rule and the file."""
    found = Slow("desk:answer", (("look_up", 12), ("ask", 7)))
    assert str(found) == "desk:answer: 2 slow\nlook_up  12 s\nask      7 s"
    assert (found.ok, found.is_whole) == (False, True)
    (checked,) = found.to_checked()
    assert [(one.rule, one.path, one.message) for one in checked.findings] == [
        ("slow", "desk.yaml", "look_up took 12 s"),
        ("slow", "desk.yaml", "ask took 7 s"),
    ]
    for name in ("report.json", "report.md", "report.sarif", "report.trx", "report.txt"):
        write_report(str(tmp_path / name), found.to_checked(), found.to_dict(), str(found))
        assert "look_up" in (tmp_path / name).read_text()


def test_warnings_fail_nothing() -> None:
    """A result with warnings alone, or without a finding, is ok."""
    assert Slow("desk:answer", (("ask", 7),), level="warning").ok
    assert Slow("desk:answer", ()).ok


def test_plain_data_come_back(tmp_path: Path) -> None:
    """What `to_dict` makes plain is read again after JSON, also from a report; another file is refused."""
    found = Slow("desk:answer", (("ask", 7),))
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain == json.loads(json.dumps(asdict(found)))
    assert read(Slow, {**plain, "more": 1}) == found
    report = tmp_path / "report.json"
    report.write_text(json.dumps({"slow": [plain]}))
    assert earlier(report, "slow", lambda one: read(Slow, one)) == [found]
    for text in ("", "[]", '{"slow": 1}', '{"slow": [{"program": "desk"}]}', '{"quick": []}'):
        report.write_text(text)
        with pytest.raises(ConfigurationError, match="not a report of this experiment as JSON"):
            earlier(report, "slow", lambda one: read(Slow, one))


@pytest.mark.parametrize("count", [1, 3])
def test_answers_come_in_order(count: int) -> None:
    """Work in several threads is answered in the order of its items, as in one thread."""
    with Jobs(count) as pool:
        assert list(pool.each(lambda number: number * number, range(20))) == [number * number for number in range(20)]

"""Orders of the answers to calls that overlap: imposed on a replay, or searched for the smallest that changes it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from agenttape_core import Session, Variation, open_cassette, use_cassette, verify
from agenttape_core.errors import ConfigurationError, SessionStateError
from agenttape_core.experiments import orders
from agenttape_core.experiments.strategies.order_search import Search, Tried
from agenttape_core.experiments.verify.child import ended, outcomes_in_other_orders
from agenttape_core.scheduling import ChoicePoint, Choices

from ....kit.asking import ask, look, words


async def asks() -> list[str]:
    """Ask twice in each of three tasks."""
    log: list[str] = []

    async def one(name: str) -> None:
        log.append(await ask(f"{name}0"))
        log.append(await ask(f"{name}1"))

    await asyncio.gather(*map(one, "abc"))
    return log


async def streams() -> list[str]:
    """Read two streams side by side."""
    log: list[str] = []

    async def one(name: str) -> None:
        log.extend([word async for word in words(name)])

    await asyncio.gather(one("a"), one("b"))
    return log


async def looks() -> list[str]:
    """Call a synchronous tool in three threads, and note the order in which they come back."""
    log: list[str] = []

    async def one(name: str) -> None:
        log.append(await asyncio.to_thread(look, name))

    await asyncio.gather(*map(one, "abc"))
    return log


async def sleeps() -> list[str]:
    """Ask at once, and after a sleep."""
    log: list[str] = []

    async def one(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        log.append(await ask(name))

    await asyncio.gather(one("a", 0), one("b", 0.05))
    return log


Program = Callable[[], Awaitable[Any]]


def run_in(program: Program, path: Path, **options: Any) -> tuple[Any, Session]:
    """Run a program in a session."""
    vary = Variation(order=options.pop("order")) if "order" in options else None

    async def runs() -> tuple[Any, Session]:
        async with use_cassette(path, vary=vary, **options) as session:
            return await program(), session

    return asyncio.run(runs())


@pytest.mark.parametrize(
    ("program", "order", "log"),
    [
        (asks, "", ["a0!", "b0!", "c0!", "a1!", "b1!", "c1!"]),
        (asks, "5", ["c0!", "a0!", "b0!", "a1!", "b1!", "c1!"]),
        (asks, "5, 6", ["c0!", "c1!", "a0!", "b0!", "a1!", "b1!"]),
        (asks, [6, 1], ["b0!", "c0!", "c1!", "a0!", "a1!", "b1!"]),
        (asks, ["ask~1", 1], ["b0!", "a0!", "c0!", "a1!", "b1!", "c1!"]),
        (streams, "2,1", ["b0", "b1", "b2", "a0", "a1", "a2"]),
        (sleeps, "2,1", ["b!", "a!"]),
    ],
)
def test_an_order_is_imposed(tmp_path: Path, program: Program, order: Any, log: list[str]) -> None:
    """Calls that wait are answered in the order that was given, and the rest as recorded."""
    run_in(program, tmp_path / "run.yaml", mode="all")
    got, session = run_in(program, tmp_path / "run.yaml", order=order)
    assert (got, session.report.nondeterminism) == (log, ())


def test_an_order_of_calls_in_threads_is_imposed(tmp_path: Path) -> None:
    """Calls of threads are answered in the order that was given, whichever came first in the recording."""
    run_in(looks, tmp_path / "run.yaml", mode="all")
    numbers = {
        each.request["arguments"]["question"]: each.number
        for each in open_cassette(tmp_path / "run.yaml").interactions()
    }
    got, session = run_in(looks, tmp_path / "run.yaml", order=[numbers[name] for name in "cab"])
    assert (got, session.report.nondeterminism) == (["c.", "a.", "b."], ())


@pytest.mark.parametrize("recorded_first", ["a", "b"])
@pytest.mark.parametrize("first", ["a", "b"])
def test_the_speed_of_threads_chooses_nothing(tmp_path: Path, first: str, recorded_first: str) -> None:
    """What was called in threads beside a task is answered in one order, but where a thread waits for the other."""

    class Paced(ThreadPoolExecutor):
        """Threads of which one comes back only after the event loop has been told of the other."""

        def __init__(self, first: str) -> None:
            super().__init__(2)
            self.first, self.is_told = first, Event()
            self.given: list[Future[Any]] = []

        def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:
            """Note what is given out."""
            self.given.append(super().submit(*args, **kwargs))
            return self.given[-1]

        def look(self, name: str) -> str:
            """Call the tool, and come back in time."""
            said = look(name)
            if name != self.first:
                self.is_told.wait()
            return said

        def start(self, name: str) -> asyncio.Future[str]:
            """Look in a thread."""
            looking = asyncio.get_running_loop().run_in_executor(self, self.look, name)
            if name == self.first:
                self.given[-1].add_done_callback(lambda _: self.is_told.set())
            return looking

    async def looks_and_asks(first: str) -> list[str]:
        log: list[str] = []

        async def one(answer: Awaitable[str]) -> None:
            log.append(await answer)

        with Paced(first) as threads:
            await asyncio.gather(one(threads.start("a")), one(threads.start("b")), one(ask("c")))
        return log

    run_in(partial(looks_and_asks, recorded_first), tmp_path / "run.yaml", mode="all")
    got, session = run_in(partial(looks_and_asks, first), tmp_path / "run.yaml", order="")
    expected = ["c!", "a.", "b."] if first == "a" else ["c!", "b.", "a."]
    assert (got, session.report.nondeterminism) == (expected, ())


@pytest.mark.parametrize("order", ["2,1", "4,3,2,1"])
def test_what_cannot_be_reached_is_said(tmp_path: Path, order: str) -> None:
    """A call that is made only after one that was to wait for it is named, and nothing hangs."""
    run_in(asks, tmp_path / "run.yaml", mode="all")
    got, session = run_in(asks, tmp_path / "run.yaml", order=order)
    assert sorted(got) == ["a0!", "a1!", "b0!", "b1!", "c0!", "c1!"]
    assert "cannot be answered before call" in session.report.nondeterminism[0]


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ("9", "no call 9; its calls are 1 to 6"),
        ("first", "no recorded call has the address 'first'; the nearest is ask"),
        (["ask~7"], r"the address 'ask~7'; the nearest is ask~"),
        (3, "expected numbers of recorded calls"),
        ([True], "expected numbers of recorded calls"),
        ([1.5], "expected numbers of recorded calls"),
    ],
)
def test_an_order_of_no_calls_is_refused(tmp_path: Path, order: Any, said: str) -> None:
    """An order names recorded calls, or the session does not open."""
    run_in(asks, tmp_path / "run.yaml", mode="all")
    with pytest.raises(ConfigurationError, match=said):
        run_in(asks, tmp_path / "run.yaml", order=order)


@pytest.mark.parametrize("options", [{"mode": "all"}, {"live": {"call"}}, {"mode": "new_episodes"}])
def test_only_a_strict_replay_has_another_order(tmp_path: Path, options: dict[str, Any]) -> None:
    """What is executed answers when it does."""
    run_in(asks, tmp_path / "run.yaml", mode="all")
    with pytest.raises(ConfigurationError, match=r"is for a replay|only the calls of a strict replay"):
        run_in(asks, tmp_path / "run.yaml", order="2", **options)


def test_a_loop_that_cannot_be_followed_is_refused(tmp_path: Path) -> None:
    """A loop with callbacks of its own, such as uvloop, has no choice points."""

    class Other:
        """A loop of somebody else's."""

    run_in(asks, tmp_path / "run.yaml", mode="all")
    with (
        use_cassette(tmp_path / "run.yaml", vary=Variation(order="2"), on_unused="ignore") as session,
        pytest.raises(ConfigurationError, match=r"cannot be chosen in .*Other"),
    ):
        session.scheduler.loops.room(Other())


DESK = """
import asyncio, random, uuid
from agenttape_core import boundary, use_cassette


@boundary("tool")
async def search(place):
    await asyncio.sleep(0)
    return f"{place} by ada@nordwind-mail.com"


@boundary("chat")
async def write(style, notes):
    return f"{style}: {notes}"


async def desk(style_of, places="abc"):
    style = {}

    async def research(place):
        found = []
        for turn in range(2):
            found.append(await search(f"{place}{turn}"))
            style.setdefault("first", found[0])
        return found

    notes = await asyncio.gather(*map(research, places))
    return [await write(style_of(style), notes)]


async def racy():
    return await desk(lambda style: style["first"])


async def sound():
    return [*await desk(lambda style: "plain", "ab"), str(uuid.uuid4())]


async def raises():
    log = []

    async def one(place):
        log.append(await search(place))

    await asyncio.gather(*map(one, "ab"))
    return {"a": 1}[log[0][0]]


async def lists():
    log = []

    async def one(place):
        log.append(await search(place))

    await asyncio.gather(*map(one, "abc"))
    return log


async def alone():
    return [await search("a"), await search("b")]
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A script, and a cassette of each of its programs."""
    folder = tmp_path_factory.mktemp("desk")
    (folder / "desk.py").write_text(DESK)
    names: dict[str, Any] = {"__name__": "desk"}
    exec(compile(DESK, str(folder / "desk.py"), "exec"), names)  # the script, without a process
    for program in ("racy", "sound", "raises", "lists", "alone"):
        with use_cassette(folder / f"{program}.yaml", mode="all"):
            asyncio.run(names[program]())
    return folder


@pytest.fixture
def desk(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The script and its cassettes in the folder to work in."""
    monkeypatch.chdir(recorded)
    return recorded


def explored(program: str, **options: Any) -> Any:
    """Explore a program of the script."""
    return orders(f"desk.py:{program}", f"{program}.yaml", **options)


@pytest.mark.slow
@pytest.mark.usefixtures("desk")
def test_the_smallest_order_that_misses_is_found() -> None:
    """All 90 orders of three branches with two calls are tried: the 60 in which another branch is first miss."""
    found = explored("racy")
    assert (found.orders, found.is_exhaustive, found.failing, len(found.overlapping)) == (90, True, 60, 6)
    assert [(each.what, each.times, each.order, each.overtaken) for each in found.findings] == [("miss", 60, "2", 1)]
    assert found.smallest.reproduce == "agenttape lab orders desk.py:racy --cassette racy.yaml --order 2"
    assert "b0" in found.smallest.told
    assert "ada@nordwind-mail.com" not in json.dumps(found.to_dict())
    assert not found.ok
    assert "60 of all 90 possible orders" in str(found)


@pytest.mark.usefixtures("desk")
def test_a_sound_program_is_the_same_in_every_order() -> None:
    """Neither order nor ids that a run makes raise an alarm."""
    found = explored("sound")
    assert found.ok
    assert str(found) == "desk.py:sound over sound.yaml: the same in 6 orders of 4 calls (all that there are)"


@pytest.mark.usefixtures("desk")
@pytest.mark.parametrize(("program", "what", "failing"), [("raises", "exception", 1), ("lists", "result", 5)])
def test_exceptions_and_results_are_compared(program: str, what: str, failing: int) -> None:
    """A program that does not miss may raise, or return something else."""
    found = explored(program)
    assert (found.smallest.what, found.failing, found.smallest.order) == (what, failing, "2")


@pytest.mark.usefixtures("desk")
def test_without_overlapping_calls_there_is_one_order() -> None:
    """A sequential program says so."""
    assert "no calls wait side by side" in str(explored("alone"))


@pytest.mark.slow
@pytest.mark.usefixtures("desk")
def test_of_many_orders_the_nearest_and_some_by_chance_are_tried() -> None:
    """The number of orders is a limit, the seed decides which far ones are tried, and the smallest is found."""
    first, second, other = (explored("racy", runs=20, seed=seed).to_dict() for seed in (1, 1, 2))
    assert first == second
    assert first["orders"] <= 20
    assert [first["findings"][0]["order"], other["findings"][0]["order"]] == ["2", "2"]


@pytest.mark.usefixtures("desk")
def test_one_order_is_replayed_alone() -> None:
    """A finding is made again by its order; one that cannot be reached is no proof of anything."""
    again, fine, never = explored("racy", order="2"), explored("racy", order="1,2"), explored("alone", order="2,1")
    assert [again.ok, fine.ok, never.ok] == [False, True, False]
    assert str(fine) == "desk.py:racy over racy.yaml: in the order 1,2, the same"
    assert "not reachable: call 2" in str(never)


@pytest.mark.process
@pytest.mark.night
def test_the_printed_line_makes_the_finding_again(desk: Path) -> None:
    """In a new process, whatever its hash seed."""
    line = explored("racy").smallest.reproduce
    run = "import sys; from agenttape_core.cli import main; sys.exit(main())"
    words = [sys.executable, "-c", run, *line.removeprefix("agenttape ").split(), "--json"]
    ended = subprocess.run(words, capture_output=True, text=True, check=False, cwd=desk, timeout=60)
    assert ended.returncode == 1, ended.stderr
    assert json.loads(ended.stdout)["findings"][0]["what"] == "miss"


@pytest.mark.usefixtures("desk")
def test_a_program_that_changes_by_itself_is_named_first(tmp_path: Path) -> None:
    """Two replays in the recorded order that differ have nothing that others could be compared with."""
    turn = iter(range(100))

    async def program() -> Any:
        await asyncio.gather(ask("a"), ask("b"))
        return next(turn)

    with use_cassette(tmp_path / "own.yaml", mode="all"):
        asyncio.run(program())
    found = orders(program, tmp_path / "own.yaml")
    assert "two replays in the recorded order differ" in found.unstable
    assert not found.ok


@pytest.mark.usefixtures("desk")
@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: explored("racy", runs=0), "runs=0: expected a number, at least 1"),
        (lambda: orders("desk.py:racy", "nobody.yaml"), "nobody.yaml"),
        (lambda: orders("desk.py:nobody", "racy.yaml"), "cannot load desk.py:nobody"),
        (lambda: orders("desk.py", "racy.yaml"), "expected"),
        (lambda: orders(3, "racy.yaml"), "expected a function"),  # type: ignore[arg-type]
        (lambda: explored("racy", order="99"), "no call 99"),
    ],
)
def test_bad_input_is_refused(call: Callable[[], object], said: str) -> None:
    """Before anything runs, with an error that says what to give."""
    with pytest.raises(Exception, match=said) as caught:
        call()
    assert type(caught.value).__module__ == "agenttape_core.errors"


@pytest.mark.usefixtures("desk")
def test_it_is_called_outside_of_sessions_and_loops() -> None:
    """An exploration opens sessions and runs loops of its own."""
    with use_cassette("alone.yaml", on_unused="ignore"), pytest.raises(SessionStateError, match="is open"):
        explored("racy")

    async def inside() -> None:
        explored("racy")

    with pytest.raises(SessionStateError, match="event loop"):
        asyncio.run(inside())


def tree(branches: int, calls: int) -> Callable[[Sequence[int], Any], list[ChoicePoint]]:
    """Return a run of branches that make calls one after the other; those of the first branch are 0 and 1."""

    def run(order: Sequence[int], pick: Any) -> list[ChoicePoint]:
        choices = Choices(order, None, pick) if pick is not None else Choices(order)
        at = [0] * branches
        while waiting := [branch * calls + at[branch] for branch in range(branches) if at[branch] < calls]:
            chosen = choices.choose(waiting)
            assert chosen is not None
            at[chosen // calls] += 1
        return choices.points

    return run


def all_tried(search: Search, run: Callable[[Sequence[int], Any], list[ChoicePoint]]) -> list[Tried]:
    """Run in each order of a search, and return those that were not tried before."""
    found = []
    while (asked := search.next()) is not None:
        if (each := search.note(run(*asked))) is not None:
            found.append(each)
    return found


@pytest.mark.parametrize(("branches", "calls", "all_orders"), [(2, 2, 6), (3, 2, 90), (2, 4, 70), (5, 1, 120)])
def test_every_order_is_tried_once(branches: int, calls: int, all_orders: int) -> None:
    """The search comes to each interleaving of the branches, to none twice, and to near ones first."""
    search = Search(1000, 7, {number: number // calls for number in range(100)})
    tried = all_tried(search, tree(branches, calls))
    assert (len(tried), search.is_exhaustive) == (all_orders, True)
    assert [each.overtaken for each in tried] == sorted(each.overtaken for each in tried)


def test_a_limit_leaves_out_far_orders() -> None:
    """A limit of the number of runs holds, and what was left is no proof."""
    search = Search(50, 7, {number: number // 4 for number in range(100)})
    assert 25 < len(all_tried(search, tree(4, 4))) <= 50
    assert not search.is_exhaustive


async def first() -> str:
    """Take the answer that comes first."""
    came = [await answer for answer in asyncio.as_completed([ask("a"), ask("b")])]
    return came[0]


async def sorted_answers() -> list[str]:
    """Take both, in any order."""
    return sorted(await asyncio.gather(ask("a"), ask("b")))


@pytest.mark.parametrize(("program", "failing"), [(first, 1), (sorted_answers, 0)])
def test_programs_that_open_their_cassettes_are_explored(tmp_path: Path, program: Any, failing: int) -> None:
    """Whoever opens the cassette, its calls are answered in other orders."""

    def opens(path: Path, program: Callable[[], Any]) -> Callable[[], Any]:
        """Return what runs a program under a cassette that it opens by itself, and says how it ended."""

        async def runs() -> Any:
            async with use_cassette(path):
                return await program()

        return lambda: ended(runs, None)

    with use_cassette(tmp_path / "own.yaml", mode="all"):
        asyncio.run(program())
    found = outcomes_in_other_orders(opens(tmp_path / "own.yaml", program), 20)
    assert (found["orders"], found["failing"]) == (2, failing)
    assert [call["address"] for call in found["overlapping"]] == ["ask", "ask~1"]


@pytest.mark.process
@pytest.mark.usefixtures("desk")
def test_verify_tries_other_orders() -> None:
    """A program that is the same in every environment, and not in another order, is not verified."""
    found = verify("desk.py:racy", "racy.yaml", runs=2, vary={"completion_order"})
    assert [each.cause.name for each in found.differences] == ["completion order"]
    assert "not where calls are answered in another order" in str(found)


def test_explore_takes_functions_of_functions(tmp_path: Path) -> None:
    """What no command could import is explored all the same; the line to reproduce it is one of Python."""

    async def program() -> str:
        return await first()

    with use_cassette(tmp_path / "own.yaml", mode="all"):
        asyncio.run(program())
    found = orders(program, tmp_path / "own.yaml")
    assert found.smallest is not None
    assert found.smallest.reproduce.endswith('own.yaml", vary=Variation(order="2"))')

"""What an event loop waits for comes in a replay when it came in the recording: between the same steps."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any
from weakref import ref

import pytest

from agenttape_core import boundary, open_cassette, use_cassette
from agenttape_core.errors import CassetteFormatError, CassetteMissError
from agenttape_core.integration import Boundary, aintercept, current_session, executing
from agenttape_core.schema import Admissions

from ...kit.replaying import recorded_as_replayed

NOTES = Boundary("tool")
LATENCIES = (None, 0, 0, 0.001, 0.002, 0.003)
"""Seconds; `None` answers without letting the loop go on. Few and short, so that calls end at the same time."""


class Service:
    """The outside: it answers after random times, and in a replay it is gone."""

    def __init__(self, seed: int) -> None:
        self.gone = False
        self.random = random.Random(seed)
        self.ask = boundary(self._ask, name="ask")
        self.words = boundary(self._words, name="words")

    async def wait(self) -> None:
        """Wait for a random time."""
        assert not self.gone, "was reached"
        seconds = self.random.choice(LATENCIES)
        if seconds is not None:
            await asyncio.sleep(seconds)

    async def _ask(self, question: str) -> str:
        """Answer."""
        await self.wait()
        return f"{question}!"

    async def _words(self, question: str) -> AsyncIterator[str]:
        """Answer in words, and take a while to end."""
        try:
            for number in range(4):
                await self.wait()
                yield f"{question}{number}"
        finally:
            for _ in range(self.random.choice((0, 1, 3))):
                await self.wait()

    def work(self, name: str) -> str:
        """Work in a thread for a random time, in the replay too."""
        time.sleep(self.random.choice((0, 0.001, 0.002)))
        return name


Program = Callable[[Service], Coroutine[Any, Any, Any]]


def same_again(program: Program, path: Path, seed: int = 1, times: int = 1) -> Any:
    """Record a program and replay it, without its service: what it returns is the same."""
    service = Service(seed)
    return recorded_as_replayed(path, lambda: asyncio.run(program(service)), times, service)


async def asking(service: Service, name: str, log: list[str]) -> None:
    """Ask three times."""
    for turn in range(3):
        answer = await service.ask(f"{name}{turn}")
        log.append(answer)


async def shared_state(service: Service) -> Any:
    """Write to one list from several tasks, which give way to each other."""
    log: list[str] = []

    async def one(name: str) -> None:
        for turn in range(3):
            log.append(f"{name}{turn} asks")
            log.append(await service.ask(f"{name}{turn}"))
            await asyncio.sleep(0)
            log.append(f"{name}{turn} goes on")

    await asyncio.gather(*map(one, "abcd"))
    return log


async def leaving(service: Service) -> Any:
    """Leave streams that take a while to end, beside tasks that go on."""
    log: list[str] = []

    async def read(name: str) -> None:
        stream = service.words(name)
        async for word in stream:
            log.append(word)
            break
        await stream.aclose()  # type: ignore[attr-defined]
        log.append(f"{name} is closed")

    async def step(name: str) -> None:
        for number in range(6):
            await asyncio.sleep(0)
            log.append(f"{name}{number}")

    await asyncio.gather(read("a"), step("b"), read("c"), asking(service, "d", log))
    return log


async def threads_alone(service: Service) -> Any:
    """Work in threads, and call nothing until that is done; then go by the order in which it was."""
    log: list[str] = []

    async def work(name: str) -> None:
        for turn in range(3):
            name_again = await asyncio.to_thread(service.work, f"{name}{turn}")
            log.append(name_again)

    await asyncio.gather(*map(work, "stu"))
    return [*log, await service.ask(f"after {log}")]


async def posts(service: Service) -> Any:
    """Let a thread speak to the loop while it works."""
    log: list[str] = []
    loop = asyncio.get_running_loop()

    def work() -> None:
        for number in range(3):
            service.work("")
            loop.call_soon_threadsafe(log.append, f"posted {number}")

    await asyncio.gather(asyncio.to_thread(work), asking(service, "a", log), asking(service, "b", log))
    return log


async def group(service: Service) -> Any:
    """Lose calls because a sibling fails."""
    log: list[str] = []

    async def one(name: str) -> None:
        try:
            log.append(await service.ask(name))
            log.append(await service.ask(f"{name} again"))
        except asyncio.CancelledError:
            log.append(f"{name} was cancelled")
            raise

    try:
        async with asyncio.TaskGroup() as tasks:
            for name in "abcd":
                tasks.create_task(one(name))
            log.append(await service.ask("me"))
            raise ValueError
    except* ValueError:
        log.append("failed")
    return log


async def effects(service: Service) -> Any:
    """Let calls write on a board while they answer; a watcher sees each note when it comes."""
    board: list[str] = []
    log: list[str] = []
    come = asyncio.Event()

    def write(note: str) -> None:
        board.append(note)
        come.set()

    async def note(name: str) -> str:
        session = current_session()
        assert session is not None
        session_call = session.cross(NOTES, "note", {"name": name})

        async def answer() -> str:
            for number in range(3):
                await service.wait()
                executed = executing()
                assert executed is not None
                executed.effected(f"{name}{number}")
                write(f"{name}{number}")
            return f"{name}!"

        async def write_again(what: str) -> None:
            write(what)

        return str(await aintercept(session_call, answer, write_again))

    async def one(name: str) -> None:
        for turn in range(2):
            log.append(await note(f"{name}{turn}"))
            log.append(f"{name} sees {len(board)}")

    async def watch() -> None:
        while len(board) < 18:
            await come.wait()
            come.clear()
            log.append(f"watched {board[-1]}")

    await asyncio.gather(*map(one, "abc"), watch(), asking(service, "x", log))
    return log


@pytest.mark.parametrize("program", [shared_state, leaving, threads_alone, posts, group, effects])
def test_a_replay_goes_as_the_recording_went(program: Program, tmp_path: Path, replays: int) -> None:
    """All that tasks note of each other is in the recorded order, in each of several recordings and replays."""
    for seed in range(replays):
        same_again(program, tmp_path / f"{seed}.yaml", seed, times=3)


async def watched(service: Service, effects: Callable[[Callable[[str], None]], Awaitable[None]]) -> list[str]:
    """Return the notes that a watcher sees when a call writes them on a board."""
    board: list[str] = []
    seen: list[str] = []
    come = asyncio.Event()

    def write(note: str) -> None:
        board.append(note)
        come.set()

    async def watch() -> None:
        while board[-1:] != ["end"]:
            await come.wait()
            come.clear()
            seen.append(board[-1])

    async def answer() -> str:
        assert not service.gone
        call = executing()
        assert call is not None

        def effect(note: str) -> None:
            call.effected(note)
            write(note)

        await effects(effect)
        return "answer"

    async def write_again(note: str) -> None:
        write(note)

    session = current_session()
    assert session is not None
    watching = asyncio.create_task(watch())
    await asyncio.sleep(0)
    await aintercept(session.cross(NOTES, "note", {}), answer, write_again)
    write("end")
    await watching
    return seen


async def in_one_step(effect: Callable[[str], None]) -> None:
    """Write twice at once, and wait for a round of the loop in between."""
    effect("a")
    effect("b")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    effect("c")
    effect("d")


async def while_it_goes_on(effect: Callable[[str], None]) -> None:
    """Write in two tasks, of which the second one makes its step before the watcher does."""

    async def second() -> None:
        effect("b")

    task = asyncio.create_task(second())
    effect("a")
    await task


@pytest.mark.parametrize("written", [in_one_step, while_it_goes_on], ids=["in one step", "while it goes on"])
def test_effects_between_which_nothing_rests_are_kept(written: Any, tmp_path: Path) -> None:
    """Effects in one step come in one step; the code of a call makes its next one once the program rests."""
    same_again(lambda service: watched(service, written), tmp_path / "c.yaml", times=2)


async def until_it_is_written(service: Service) -> set[str]:
    """Poll for a call with effects."""
    watching = asyncio.create_task(watched(service, in_one_step))
    while not watching.done():  # noqa: ASYNC110 - it never rests
        await asyncio.sleep(0)
    return set(await watching)


async def until_it_is_answered(service: Service) -> int:
    """Poll for an answer; return after how many steps it came."""
    task, steps = asyncio.ensure_future(service.ask("a")), 0
    while not task.done():
        await asyncio.sleep(0)
        steps += 1
    return steps


@pytest.mark.parametrize("program", [until_it_is_written, until_it_is_answered], ids=lambda program: program.__name__)
def test_a_program_that_polls_does_not_hold_up_the_call_that_it_polls_for(program: Program, tmp_path: Path) -> None:
    """An answer comes after as many steps; the code of a call waits for some rounds of the loop, and no longer."""
    service = Service(5)
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        recorded = asyncio.run(program(service))
    service.gone = True
    with use_cassette(tmp_path / "c.yaml"):  # it may report that the program never rested
        assert asyncio.run(program(service)) == recorded


def test_a_timeout_is_a_timer_on_a_machine_on_which_time_passes_before_it_begins(tmp_path: Path) -> None:
    """A timeout that is over before it begins to count is in the recorded order, as every other one."""

    async def program(service: Service) -> list[str]:
        loop, looks, log = asyncio.get_running_loop(), count(), list[str]()
        real = loop.time
        vars(loop)["time"] = lambda: real() + 0.01 * next(looks)

        @boundary
        async def ask(question: str) -> str:
            assert not service.gone
            await loop.create_future()
            return question

        async def one(name: str) -> None:
            try:
                async with asyncio.timeout(0.005):
                    log.append(await ask(name))
            except TimeoutError:
                log.append(f"{name} was late")

        await asyncio.gather(*map(one, "ab"))
        return log

    same_again(program, tmp_path / "c.yaml")
    admissions = open_cassette(tmp_path / "c.yaml").header.volatile.admissions
    assert admissions is not None
    assert "L~" in admissions.origins


async def answering_in(order: str, among: str) -> list[str]:
    """Ask in one order, be answered in another one, and return the order in which answers came."""
    came: list[str] = []
    turns = {name: asyncio.Event() for name in order}

    @boundary
    async def ask(name: str) -> str:
        if among:
            await asyncio.sleep(0)
            await turns[name].wait()
            after = among.index(name) + 1
            if after < len(among):
                turns[among[after]].set()
        return name

    async def one(name: str) -> None:
        came.append(await ask(name))

    if among:
        turns[among[0]].set()
    await asyncio.gather(*map(one, order))
    return came


def recorded_in(path: Path, order: str, among: str) -> Admissions:
    """Record calls that are answered in some order, and return the order that is kept."""
    with use_cassette(path, mode="once"):
        assert asyncio.run(answering_in(order, among)) == list(among)
    admissions = open_cassette(path).header.volatile.admissions
    assert admissions is not None
    return admissions


def test_the_order_is_a_volatile_fact(tmp_path: Path) -> None:
    """It stands in the header beside the times; the records do not depend on it."""
    one = recorded_in(tmp_path / "one.yaml", "abc", "cba")
    two = recorded_in(tmp_path / "two.yaml", "abc", "bca")
    assert one != two
    assert list(open_cassette(tmp_path / "one.yaml").records()) == list(open_cassette(tmp_path / "two.yaml").records())


def test_calls_one_after_the_other_need_no_schedule(tmp_path: Path) -> None:
    """A replay delivers calls one by one without being told, so the file says nothing of it."""
    with use_cassette(tmp_path / "row.yaml", mode="once"):
        asyncio.run(one_after_the_other())
    assert "admissions" not in (tmp_path / "row.yaml").read_text()


def test_siblings_that_change_places_are_answered_by_their_recordings(tmp_path: Path) -> None:
    """The order belongs to the recordings that are replayed, wherever the calls stand in this run."""
    recorded_in(tmp_path / "c.yaml", "abc", "cba")
    for order in ("abc", "cab", "bca"):
        with use_cassette(tmp_path / "c.yaml"):
            assert asyncio.run(answering_in(order, "")) == list("cba")


async def one_after_the_other() -> list[str]:
    """Ask, each time after the answer to the question before."""

    @boundary
    async def ask(name: str) -> str:
        await asyncio.sleep(0)
        return name

    return [await ask(name) for name in "abc"]


@pytest.mark.parametrize(
    ("changed", "came"), [(lambda: answering_in("ab", ""), "ba"), (one_after_the_other, "abc")], ids=["less", "waits"]
)
def test_another_order_of_answers_is_told(changed: Any, came: str, tmp_path: Path) -> None:
    """A program that makes fewer calls, or waits for each, goes on at once, and the report names the lost order."""
    recorded_in(tmp_path / "c.yaml", "abc", "cba")
    with use_cassette(tmp_path / "c.yaml", on_unused="ignore", match_on="request") as session:
        assert asyncio.run(changed()) == list(came)
    assert any("did not come before" in line for line in session.report.nondeterminism)


@pytest.mark.parametrize("acts", [False, True], ids=["stepped into", "replayed"])
@pytest.mark.parametrize("seed", range(3))
def test_tools_at_once_that_work_in_threads_and_sleep(tmp_path: Path, seed: int, *, acts: bool) -> None:
    """What tools do before, between and after their calls comes in the recorded order, if a replay runs their code."""

    async def program(service: Service) -> list[str]:
        log: list[str] = []
        told = [] if acts else log  # what a tool writes to a list is not there if it is replayed

        @boundary("tool")
        async def tool(name: str) -> str:
            for turn in range(2):
                log.append(await asyncio.to_thread(service.work, f"{name}{turn}"))
                await asyncio.sleep(service.random.choice((0.001, 0.002)))
                log.append(await service.ask(f"{name}{turn}"))
            if acts:
                (tmp_path / name).write_text(name)
            return name

        async def beside(name: str) -> None:
            for turn in range(2):
                await asyncio.sleep(service.random.choice((0.001, 0.002)))
                told.append(f"{name}{turn}")

        await asyncio.gather(*map(tool, "abc"), beside("d"))
        return told

    service = Service(seed)
    with use_cassette(tmp_path / "c.yaml", mode="once"):
        recorded = asyncio.run(program(service))
    service.gone = True
    for _ in range(3):
        with use_cassette(tmp_path / "c.yaml", on_unused="ignore") as session:
            assert asyncio.run(program(service)) == recorded
        assert session.report.nondeterminism == ()


def test_threads_of_threads_beside_a_loop_have_an_order(tmp_path: Path) -> None:
    """What threads that were begun in the threads of a loop put into it comes in the recorded order."""

    async def program(service: Service) -> list[str]:
        log: list[str] = []
        loop, both = asyncio.get_running_loop(), threading.Barrier(2, timeout=30)

        def work(name: str) -> None:
            both.wait()
            with ThreadPoolExecutor(1) as pool:
                pool.submit(loop.call_soon_threadsafe, log.append, name).result(30)
            both.wait()

        await asyncio.gather(service.ask("a"), *(asyncio.to_thread(work, name) for name in "bc"))
        return log

    same_again(program, tmp_path / "c.yaml")


def test_a_loop_that_is_never_idle_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What others do in the loop without end, outside of the session, holds no answer up."""
    from agenttape_core.scheduling import loops

    monkeypatch.setattr(loops, "_ROUNDS", 50)

    async def program(service: Service) -> str:
        async def spin() -> None:
            while True:  # noqa: ASYNC110 - nothing is waited for
                await asyncio.sleep(0)

        spinning = asyncio.create_task(spin())
        with use_cassette(tmp_path / "c.yaml", mode="none" if service.gone else "once"):
            answer = await asyncio.wait_for(service.ask("a"), 30)
        spinning.cancel()
        return answer

    service = Service(5)
    recorded = asyncio.run(program(service))
    service.gone = True
    assert asyncio.run(program(service)) == recorded


def test_a_loop_that_is_never_idle_cancels_or_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that was cancelled is a miss where the program makes steps for long, and does not cancel it."""
    from agenttape_core.scheduling import arrivals

    monkeypatch.setattr(arrivals, "RESTLESS", 0.01)

    @boundary
    async def ask() -> None:
        await asyncio.sleep(60)

    async def program(*, cancels: bool) -> None:
        task = asyncio.ensure_future(ask())
        while not task.done():
            await asyncio.sleep(0)
            if cancels:
                task.cancel()
        with suppress(asyncio.CancelledError):
            task.result()

    with use_cassette(tmp_path / "c.yaml", mode="once"):
        asyncio.run(program(cancels=True))
    with pytest.raises(CassetteMissError, match="was cancelled by the program"), use_cassette(tmp_path / "c.yaml"):
        asyncio.run(asyncio.wait_for(program(cancels=False), 30))


def test_a_session_may_begin_and_end_in_a_running_loop(tmp_path: Path) -> None:
    """Sessions one after the other, and one inside the other, keep their own order."""

    async def main(mode: str) -> list[Any]:
        results = []
        for name in ("one", "two"):
            with use_cassette(tmp_path / f"{name}.yaml", mode=mode):
                results.append(await answering_in("abc", "cba" if mode == "once" else ""))
                with use_cassette(tmp_path / f"{name} inside.yaml", mode=mode):
                    results.append(await answering_in("abc", "bca" if mode == "once" else ""))
        return results

    recorded = asyncio.run(main("once"))
    assert asyncio.run(main("none")) == recorded


def test_loops_of_one_session_keep_their_own_order(tmp_path: Path) -> None:
    """A session may see several loops, one after the other."""
    service = Service(1)

    def program() -> list[Any]:
        return [asyncio.run(way(service)) for way in (shared_state, threads_alone, shared_state)]

    recorded_as_replayed(tmp_path / "c.yaml", program, 1, service)


def test_what_outlives_a_replay_goes_on(tmp_path: Path) -> None:
    """A call that still waits when its session ends is not left waiting for ever."""
    recorded_in(tmp_path / "c.yaml", "abc", "cba")

    async def main() -> str:
        with use_cassette(tmp_path / "c.yaml", on_unused="ignore"):
            task = asyncio.ensure_future(answering_in("abc", ""))
            for _ in range(2):  # now all three wait, and this task goes on
                await asyncio.sleep(0)
        return "".join(await asyncio.wait_for(task, 10))

    assert sorted(asyncio.run(main())) == list("abc")


@pytest.mark.parametrize("order", ["0 1 q", "0  1", "2", "0*99999999999", "0..1", "0 0.x", "0,1", "0*", "0 "])
def test_a_malformed_order_is_refused(order: str, tmp_path: Path) -> None:
    """An order that cannot be read is an error of the file."""
    recorded = recorded_in(tmp_path / "c.yaml", "ab", "ba")
    text = (tmp_path / "c.yaml").read_text()
    assert recorded.order in text
    (tmp_path / "c.yaml").write_text(text.replace(f'"{recorded.order}"', f'"{order}"'))
    with pytest.raises(CassetteFormatError, match="order"):
        open_cassette(tmp_path / "c.yaml").header  # noqa: B018 - reading it is the test


@pytest.mark.parametrize(
    "kept",
    [
        "  turns:\n  - - ask~2\n    - ask~1\n    - ask\n",
        "  schedule:\n  - calls:\n    - ask\n    - ask~1\n    - ask~2\n    order: 2+3 1+2 0 t0\n",
    ],
    ids=["ends", "deliveries"],
)
def test_the_orders_of_older_cassettes_are_kept(kept: str, tmp_path: Path) -> None:
    """A file of an earlier version is replayed in the order in which its calls were answered."""
    recorded_in(tmp_path / "c.yaml", "abc", "cba")
    text = (tmp_path / "c.yaml").read_text()
    begin, end = text.index("  admissions:"), text.index("  timings:")
    (tmp_path / "old.yaml").write_text(text[:begin] + kept + text[end:])
    with use_cassette(tmp_path / "old.yaml") as session:
        assert asyncio.run(answering_in("abc", "")) == list("cba")
    assert session.report.nondeterminism == ()


def test_what_deleted_objects_begin_is_no_step_of_the_program(tmp_path: Path) -> None:
    """The client of a model, deleted while the program goes on, closes in a task; a replay has no such client."""

    async def rounds(number: int) -> None:
        """Wait until the loop has gone round so often."""
        for _ in range(number):
            await asyncio.sleep(0)

    class Client:
        def __del__(self) -> None:
            self.closing = asyncio.get_running_loop().create_task(rounds(9))

    @boundary
    async def ask() -> str:
        await rounds(30)
        return "answer"

    async def program(service: Service) -> list[Any]:
        clients, out = [None if service.gone else Client()], list[Any]()

        async def asking() -> None:
            out.append(await ask())

        async def working() -> None:
            for number in range(80):
                if number == 9:
                    clients.clear()
                out.append(number)
                await asyncio.sleep(0)

        await asyncio.gather(asking(), working())
        return out

    same_again(program, tmp_path / "c.yaml")


def test_a_timer_that_is_canceled_keeps_nothing_alive(tmp_path: Path) -> None:
    """What a timer would have called can be collected once the timer is canceled, in a recording and a replay."""

    class Owner:
        def call(self) -> None: ...

    async def program() -> bool:
        owner = Owner()
        left, timer = ref(owner), asyncio.get_running_loop().call_later(60, owner.call)
        await answering_in("abc", "")
        timer.cancel()
        del owner, timer
        gc.collect()
        return left() is None

    for mode in ("once", "none"):
        with use_cassette(tmp_path / "c.yaml", mode=mode):
            assert asyncio.run(program())

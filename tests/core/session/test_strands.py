"""Threads come to what others can see in the recorded order, in every replay, or the report says that they do not."""

from __future__ import annotations

import gc
import os
import queue
import random
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextvars import copy_context
from functools import partial
from itertools import count
from multiprocessing.pool import ThreadPool
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from agenttape_core import open_cassette, use_cassette
from agenttape_core.freeze import backoff
from agenttape_core.integration import ExecutedCall, current_session, intercept
from agenttape_core.integration.threads import visible

from ...kit.replaying import recorded_as_replayed
from .world import CASSETTE, OlderThread, beside, call, in_threads, session_call_for, stream

REPLAYS = 10


class Slow:
    """A world whose answers take up to 3 ms."""

    def __init__(self, seed: int = 1) -> None:
        self.random = random.Random(seed)

    def ask(self, name: str) -> str:
        """Make a call."""

        def real() -> str:
            time.sleep(self.random.random() * 0.003)
            return f"answer to {name}"

        answer: str = call(name, real, "chat", ask=name)
        return answer

    def stream(self, name: str) -> Iterator[str]:
        """Make a call that streams."""

        def real() -> Iterator[str]:
            for number in range(4):
                time.sleep(self.random.random() * 0.001)
                yield f"{name}{number}"

        return stream(name, real, ask=name)


Program = Callable[[Slow], object]


def disorder(program: Program, replayed: Program | None = None, **options: Any) -> tuple[str, ...]:
    """Return what is reported of the order by a replay of a program, or of another one, which returns the same."""
    with use_cassette("c", mode="all"):
        recorded = program(Slow())
    with use_cassette("c", mode="none", **options) as session:
        assert (replayed or program)(Slow()) == recorded
    return session.report.nondeterminism


def race(world: Slow) -> object:
    """Threads append to a list what they are answered."""
    out: list[str] = []

    def one(name: str) -> None:
        out.append(world.ask(name))
        out.append(world.ask(name + "!"))

    in_threads(one, "abcd")
    return out


def events(world: Slow) -> object:
    """One thread waits for the others at a barrier, an event and a condition."""
    out: list[str] = []
    met, turned = threading.Barrier(3), threading.Condition()

    def one(name: str) -> None:
        out.append(world.ask(name))
        met.wait()
        out.append(world.ask(name + "!"))
        with turned:
            out.append(name)
            turned.notify_all()

    waiting = threading.Thread(target=in_threads, args=(one, "abc"))
    waiting.start()
    with turned:
        while len(out) < 9:
            turned.wait()
    waiting.join()
    return out


def nested(world: Slow) -> object:
    """A tool calls others in threads of its own."""
    out: list[str] = []

    def tool(name: str) -> str:
        def real() -> str:
            in_threads(lambda inner: out.append(world.ask(f"{name} {inner}")), "xy")
            return name

        answer: str = call(f"tool {name}", real, "tool", tool=name)
        return answer

    in_threads(lambda name: out.append(tool(name)), "ab")
    return out


def blocked(_: Slow) -> object:
    """The real code of calls blocks, until the thread that began later has been answered."""
    out: list[str] = []
    turns = {name: threading.Event() for name in "abc"}
    turns["c"].set()

    def one(name: str) -> None:
        def real() -> str:
            turns[name].wait()
            return name

        out.append(call(name, real, "chat", ask=name))
        turns["cab"["abc".index(name)]].set()

    in_threads(one, "abc")
    return out


def locked(world: Slow) -> object:
    """Threads ask while they hold a lock, and ask what depends on who had it before."""
    out: list[Any] = []
    lock = threading.Lock()

    def one(name: str) -> None:
        for _ in range(2):
            with lock:
                out.append((name, world.ask(f"question {len(out)}")))
            out.append(name)

    in_threads(one, "abcd")
    return out


def acquired(world: Slow) -> object:
    """The same with a lock that its owner may take twice, and a condition over it."""
    out: list[Any] = []
    turned = threading.Condition()

    def one(name: str) -> None:
        for _ in range(2):
            turned.acquire()
            try:
                with turned:
                    out.append((name, world.ask(f"question {len(out)}")))
                turned.notify_all()
                turned.wait(timeout=0.01)
                out.append(name)
            finally:
                turned.release()

    in_threads(one, "abc")
    return out


def simple_queues(world: Slow) -> object:
    """Consumers share a simple queue, which the producers fill while they wait."""
    out: list[Any] = []
    jobs: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def produce(name: str) -> None:
        for number in range(3):
            jobs.put(world.ask(f"{name}{number}"))

    def consume(name: str) -> None:
        while (job := jobs.get()) is not None:
            out.append((name, job))
            out.append(world.ask(f"{name} on {len(out)}"))

    consumers = [threading.Thread(target=consume, args=(name,)) for name in "xyz"]
    for thread in consumers:
        thread.start()
    in_threads(produce, "ab")
    for _ in consumers:
        jobs.put(None)
    for thread in consumers:
        thread.join()
    return out


def sleepers(world: Slow) -> object:
    """Threads that ask nothing sleep, and wait for a while, beside calls; one is never joined."""
    out: list[Any] = []
    stopped = threading.Event()

    def sleep(name: str) -> None:
        for _ in range(2):
            time.sleep(world.random.choice((0.001, 0.004)))
            out.append(name)

    def beat() -> None:
        while not stopped.wait(0.002):
            out.append("beat")

    threading.Thread(target=beat, daemon=True).start()
    sleeping = [threading.Thread(target=sleep, args=(name,)) for name in "xy"]
    for thread in sleeping:
        thread.start()
    in_threads(lambda name: out.append(world.ask(name)), "abc")
    for thread in sleeping:
        thread.join()
    stopped.set()
    return out


def timers(world: Slow) -> object:
    """Timers go off beside calls."""
    out: list[str] = []
    both = threading.Barrier(3)

    def fire(name: str) -> None:
        out.append(world.ask(name))
        both.wait()

    for name, seconds in (("x", 0.004), ("y", 0.002)):
        threading.Timer(seconds, fire, (name,)).start()
    out += [world.ask(f"main {number}") for number in range(4)]
    both.wait()
    return out


def computed(world: Slow) -> object:
    """What work without calls is done in a pool first is asked about first."""
    with ThreadPoolExecutor(3) as pool:
        works = {pool.submit(time.sleep, world.random.random() * 0.003): name for name in "abcd"}
        return [world.ask(f"{number}: {works[done]}") for number, done in enumerate(as_completed(works))]


def read_elsewhere(world: Slow) -> object:
    """Streams that one thread begins are read in others."""
    out: list[str] = []
    streams = {name: world.stream(name) for name in "abc"}
    in_threads(lambda name: out.extend(streams[name]), "abc")
    return out


PROGRAMS = [race, events, nested, blocked]
PROGRAMS += [locked, acquired, simple_queues, sleepers, timers, computed, read_elsewhere]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_race_ends_as_it_did(program: Program, replays: int) -> None:
    """What threads do to each other comes out the same in each replay."""
    seeds = count(1)
    recorded_as_replayed(CASSETTE, lambda: program(Slow(next(seeds))), replays)


def compute(rounds: int) -> None:
    """Keep the turn for a while."""
    for _ in range(rounds):
        pass


def in_the_end(world: Slow, rounds: int) -> list[Any]:
    """Notify a thread whose time has passed, before it has had the turn."""
    out: list[Any] = []
    turned, begins = threading.Condition(), threading.Event()

    def one() -> None:
        with turned:
            begins.set()
            out.append(turned.wait(timeout=0.01))
        out.extend(world.ask(name) for name in "ab")

    with beside(one):
        begins.wait()
        with turned:
            compute(rounds)
            turned.notify()
        out.append(world.ask("c"))
    return out


def one_of_two(world: Slow, rounds: int) -> list[str]:
    """Release a lock for which two threads wait, and keep the turn."""
    out: list[str] = []
    lock = threading.Lock()
    begin = [threading.Event() for _ in "ab"]

    def one(name: str, begins: threading.Event) -> None:
        begins.set()
        with lock:
            out.append(world.ask(name))
            out.append(world.ask(name + "!"))

    in_threads(world.ask, "0")
    with lock:
        threads = [threading.Thread(target=one, args=each) for each in zip("ab", begin, strict=True)]
        for thread, begins in zip(threads, begin, strict=True):
            thread.start()
            begins.wait()
        out.append(world.ask("both wait"))
    compute(rounds)
    out.append(world.ask("c"))
    for thread in threads:
        thread.join()
    return out


@pytest.mark.parametrize("program", [in_the_end, one_of_two], ids=lambda program: program.__name__)
def test_a_slow_recording_is_replayed_on_a_fast_machine(program: Callable[..., object]) -> None:
    """How long a thread keeps the turn says nothing of who is next."""
    assert disorder(partial(program, rounds=10_000_000), partial(program, rounds=0)) == ()


def back_off() -> None:
    """Sleep as a framework does between two attempts."""
    time.sleep(0.002)


def test_attempts_let_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A back-off that is skipped in a replay lets other threads go on, as it did when it was recorded."""
    monkeypatch.setattr(backoff, "_places", {})
    backoff.register_backoff(__name__, ["back_off"])

    def program(world: Slow) -> list[str]:
        out: list[str] = []
        contexts = [copy_context() for _ in "abc"]  # a thread without one has the real clock

        def one(name: str) -> None:
            for number in range(4):
                out.append(world.ask(f"{name}{number}"))
                if name == "b":
                    back_off()

        in_threads(lambda name: contexts.pop().run(one, name), "abc")
        return out

    test_a_race_ends_as_it_did(program, REPLAYS)


def test_effects_of_calls_in_threads_come_as_they_did() -> None:
    """A replay that serves calls has their effects again in the recorded order, whatever else they waited for."""

    def shown(world: Slow) -> list[str]:
        """Three calls at once show what they have found so far, and rest between two such effects."""
        out: list[str] = []

        def show(found: Any) -> None:
            with visible():
                out.append(found)

        def one(name: str) -> None:
            session = current_session()
            assert session is not None
            session_call = session_call_for(session, name, {}, "tool")

            def real() -> str:
                assert isinstance(session_call, ExecutedCall)
                for number in range(3):
                    session_call.effected(f"{name}{number}")
                    show(f"{name}{number}")
                    time.sleep(world.random.random() * 0.002)
                return name

            intercept(session_call, real, show)

        contexts = [copy_context() for _ in "abc"]
        in_threads(lambda name: contexts.pop().run(one, name), "abc")
        return out

    test_a_race_ends_as_it_did(shown, REPLAYS)


@pytest.mark.usefixtures("often")
def test_calls_of_a_thread_that_is_older_than_the_session_are_told(older_thread: OlderThread) -> None:
    """Calls beside others, in a thread without an order, are named by each replay in which they meet."""

    def program(world: Slow) -> list[str]:
        out: list[str] = []
        asked = threading.Event()

        def job() -> None:
            out.append(world.ask("job"))
            asked.set()

        older_thread.begin(job)
        out.extend(world.ask(f"beside {number}") for number in range(5))
        asked.wait()
        return sorted(out)

    told = set()
    for _ in range(50):  # until they meet
        told.update(disorder(program))
        if told:
            break
    assert told == {"calls in threads that the session did not begin"}


def test_calls_of_such_a_thread_that_others_wait_for_are_not_told(older_thread: OlderThread) -> None:
    """Where nothing else goes on meanwhile, there is no order to lose."""
    assert disorder(lambda world: [older_thread.result(partial(world.ask, name)) for name in "abc"]) == ()


def test_a_wait_that_such_a_thread_ends_has_not_timed_out(older_thread: OlderThread) -> None:
    """A wait with a timeout that got what it waited for does so in a replay, whoever gave it."""

    def program(world: Slow) -> bool:
        in_threads(world.ask, "ab")
        waits: list[bool] = []
        told = threading.Event()
        older_thread.begin(lambda: older_thread.begin(told.set))
        in_threads(lambda _: waits.append(told.wait(20)), "-")
        assert waits == [True]
        return waits[0]

    disorder(program)


def test_threads_that_take_work_in_no_order_are_told() -> None:
    """What `multiprocessing.pool.ThreadPool` does is named by each replay."""

    def in_foreign_pool(world: Slow) -> list[str]:
        """Let threads work that take what there is to do in no fixed order."""
        out: list[str] = []
        with ThreadPool(2) as pool:
            pool.map(lambda name: out.append(world.ask(name)), "abcd", chunksize=1)
        return sorted(out)

    assert disorder(in_foreign_pool)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_a_pool_of_such_threads_is_not_told_for_one_piece_of_work_at_a_time(threads: int) -> None:
    """The threads that look after the pool wait where it can't be seen, and any of the others may do the work."""

    def program() -> list[str]:
        with ThreadPool(threads) as pool:
            return [pool.apply(Slow().ask, (name,)) for name in "abcd"]

    recorded_as_replayed(CASSETTE, program, 4)


def test_what_computes_for_long_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that computes for so long that others go on meanwhile is named, also by a replay that is faster."""
    from agenttape_core.scheduling import stalls

    def program(world: Slow, *, is_slow: bool) -> list[str]:
        out: list[str] = []
        computes = threading.Event()

        def one(name: str) -> None:
            if name == "other":
                computes.wait(30)
                out.append(world.ask("other"))
                out.append(world.ask("more"))
                return
            world.ask(name)
            computes.set()
            until = time.monotonic() + 30
            while is_slow and not out and time.monotonic() < until:
                pass
            out.append(name)

        in_threads(one, ["computes", "other"])
        return sorted(out)

    monkeypatch.setattr(stalls, "_SPINS", 0.02)
    told = disorder(partial(program, is_slow=True), partial(program, is_slow=False))
    assert any("computed for long" in line for line in told)


def order_of_file() -> str:
    """Return the recorded order."""
    admissions = open_cassette(CASSETTE).header.volatile.admissions
    return admissions.order if admissions is not None else ""


def test_a_sequential_run_has_no_order() -> None:
    """Nothing is written where one call follows the other, whatever thread it is made in."""
    world = Slow()
    with use_cassette("c", mode="all"):
        world.ask("a")
        with ThreadPoolExecutor(1) as pool:
            for name in "bcd":
                pool.submit(world.ask, name).result()
        world.ask("e")

    assert order_of_file() == ""


def test_a_changed_program_is_not_kept_from_its_end() -> None:
    """A replay whose threads make other calls goes on, and its report says what could not be imposed."""
    out: list[str] = []
    with use_cassette("c", mode="all"):
        race(Slow())
    with use_cassette("c", mode="none", on_unused="ignore") as session:
        in_threads(lambda name: out.append(Slow().ask(name + "!")), "dbac")
    assert sorted(out) == [f"answer to {name}!" for name in "abcd"]
    assert session.report.nondeterminism


def sleeps(stop: threading.Event) -> None:
    """Poll by sleeping."""
    while not stop.is_set():
        time.sleep(0.1)


def awaits(stop: threading.Event) -> None:
    """Poll by waiting with a timeout."""
    while not stop.wait(0.1):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("poll", [sleeps, awaits])
def test_a_changed_program_beside_a_thread_that_polls_ends(poll: Callable[[threading.Event], None]) -> None:
    """A thread that polls forever in the background doesn't keep a replay that makes fewer calls from its end."""

    def run(names: str) -> list[str]:
        stop, world = threading.Event(), Slow()
        sweeper = threading.Thread(target=poll, args=(stop,))
        sweeper.start()
        try:
            with ThreadPoolExecutor(len(names)) as pool:
                return list(pool.map(lambda name: world.ask(name + "1") + world.ask(name + "2"), names))
        finally:
            stop.set()
            sweeper.join()

    with use_cassette("c", mode="all"):
        run("abcd")
    with use_cassette("c", mode="none", on_unused="ignore") as session:
        assert run("bcd") == [f"answer to {name}1answer to {name}2" for name in "bcd"]

    assert session.report.nondeterminism


def test_a_pool_that_is_too_small_is_not_waited_for() -> None:
    """Work that cannot begin, because all threads of its pool wait for it, is told at once, and nothing hangs."""

    def pooled(world: Slow, size: int) -> set[str]:
        met = threading.Barrier(min(size, 2))

        def one(name: str) -> str:
            met.wait()
            return world.ask(name)

        with ThreadPoolExecutor(size) as pool:
            return set(pool.map(one, "ab"))

    assert disorder(partial(pooled, size=2), partial(pooled, size=1))


def test_what_waits_for_another_thread_is_not_waited_for() -> None:
    """A handler that waits for a thread which waits for its turn goes on in the end: it is told, and nothing hangs."""

    def waiting(world: Slow) -> list[str]:
        out: list[str] = []
        thread = threading.Thread(target=lambda: out.append(world.ask("other")))
        thread.start()
        with visible():
            thread.join()
            out.append("handled")
        assert out == ["answer to other", "handled"]
        return out

    disorder(waiting)


@pytest.mark.slow
def test_a_thread_that_spins_until_another_one_has_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that goes on for ever while all others wait for its next call is told, and nothing hangs."""
    from agenttape_core.scheduling import stalls, turn

    monkeypatch.setattr(stalls, "_SPINS", 0.1)
    monkeypatch.setattr(turn, "LONGEST", 1.0)

    def program(world: Slow, *, spins: bool) -> list[str]:
        out: list[str] = []
        may_go_on = threading.Event()

        def other() -> None:
            if not spins:
                may_go_on.wait()
            out.append(world.ask("other"))

        with beside(other):
            until = time.monotonic() + 30
            while spins and not out and time.monotonic() < until:
                pass
            last = world.ask("last")
            may_go_on.set()
        return [*out, last]

    assert disorder(partial(program, spins=False), partial(program, spins=True))


UNSEEN = "0 waited where it can't be seen, or computed for long, and went on without its turn"


def test_a_wait_that_nobody_sees_does_not_keep_the_time_from_passing() -> None:
    """A thread whose sleep ends while another one waits for it where it can't be seen goes on: that is told."""

    def waiting(world: Slow) -> list[str]:
        out: list[str] = []
        begun, (reading, writing) = threading.Event(), os.pipe()

        def other() -> None:
            begun.set()
            threading.Event().wait(0.05)
            out.append("slept")
            os.write(writing, b"x")

        with beside(other):
            begun.wait()
            os.read(reading, 1)
            out.append(world.ask("last"))
        os.close(reading)
        os.close(writing)
        assert out == ["slept", "answer to last"]
        return out

    assert disorder(waiting) == (UNSEEN,)


def test_no_garbage_is_collected_while_python_lists_threads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Python 3.11 would wait forever if what is deleted then lets another thread come to the list."""
    collects, listed = list[bool](), sys._current_frames

    def current_frames() -> dict[int, FrameType]:
        collects.append(gc.isenabled())
        return listed()

    monkeypatch.setattr(sys, "_current_frames", current_frames)
    reading, writing = os.pipe()
    with use_cassette(tmp_path / "c.yaml", mode="all"), beside(lambda: os.write(writing, b"x")):
        os.read(reading, 1)
    os.close(reading)
    os.close(writing)
    assert {*collects} == {sys.version_info >= (3, 12)}
    assert gc.isenabled()


@pytest.mark.parametrize("is_held", [False, True])
def test_a_thread_that_hardly_computes_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch, *, is_held: bool
) -> None:
    """A thread that keeps the turn, and polls or waits for a lock that nobody sees, loses it in the end: it is told."""
    from agenttape_core.scheduling import stalls, turn

    if is_held:
        monkeypatch.setattr(stalls, "_LOCKED", 0.1)
    monkeypatch.setattr(stalls, "LONGEST", 0.2)

    def waiting(world: Slow, *, is_unseen: bool) -> list[str]:
        out: list[str] = []
        begun, unseen = threading.Event(), turn.OwnLock()

        def other() -> None:
            with unseen:
                begun.set()
                out.append(world.ask("other"))

        with beside(other):
            begun.wait()
            if is_unseen and is_held:
                with visible(), unseen:
                    pass
            while is_unseen and not is_held and not out:
                select.select([], [], [], 0.002)
        return out

    assert UNSEEN in disorder(partial(waiting, is_unseen=False), partial(waiting, is_unseen=True))


def test_a_greenlet_in_the_place_of_a_thread_waits_when_another_one_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A participant in the looker's own thread is another greenlet: it waits, for locks that nobody sees."""
    from agenttape_core.scheduling.participants import Participant
    from agenttape_core.scheduling.stalls import Stall, is_of_library

    with use_cassette("c", mode="all") as session:
        one = Participant(session.scheduler.threads, "0.1", is_own=False)
    one.native, one.thread = threading.get_native_id(), -1
    stall = Stall(one, now=0.0)
    assert not stall.is_over(0.01)
    assert stall.is_over(0.1)
    assert not is_of_library(one)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="Windows has no such signals")
def test_a_signal_handler_may_make_a_call_while_its_thread_waits_for_the_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A handler that makes a call runs where the main thread waits for its turn; both go on."""
    from agenttape_core.scheduling import stalls

    monkeypatch.setattr(stalls, "_SPINS", 0.1)
    world = Slow()
    out: list[str] = []

    def handle(*_: object) -> None:
        out.append(world.ask("handled"))

    def other() -> None:
        world.ask("other")
        # To the main thread: it may be inside of `join` by now, where nothing else would wake it.
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
        until = time.monotonic() + 30
        while not out and time.monotonic() < until:
            pass

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        with use_cassette("c", mode="all"), beside(other):
            for number in range(5):
                world.ask(f"beside {number}")
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert "answer to handled" in out


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no forks")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_that_is_forked_beside_threads_has_threads_of_its_own() -> None:
    """The child of a fork within a session begins threads, fills pools and waits for them as in any program."""

    def forked(name: str) -> tuple[str, int]:
        child = os.fork()
        if not child:
            with ThreadPoolExecutor(2) as pool:
                os._exit(sum(pool.map(abs, (1, -2))))
        return Slow().ask(name), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    with use_cassette("c", mode="all"), ThreadPoolExecutor(2) as pool:
        assert list(pool.map(forked, "ab")) == [("answer to a", 3), ("answer to b", 3)]


def test_live_calls_are_not_held_up() -> None:
    """Where something is executed for real, the order is that of this run, and the derived cassette has it."""
    with use_cassette("c", mode="all"):
        race(Slow())
    with use_cassette("c", mode="none", live={"a"}) as session:
        result: Any = race(Slow(2))

    assert sorted(result) == sorted(f"answer to {name}{mark}" for name in "abcd" for mark in ("", "!"))
    assert session.written is not None

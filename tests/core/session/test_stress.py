"""Threads, asyncio tasks and two sessions at once, a thousand calls and more: each caller gets its own answer, once."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import Session, open_cassette, use_cassette
from agenttape_core.integration import current_session

from .world import acall, astream, call, in_thread, stream

TASKS, STEPS = 12, 11
THREADS, CALLS = 4, 25
SESSIONS = ("one", "two")
Answers = dict[tuple[Any, ...], str]
"""What each caller got, by who it is and which of its calls it was."""


@pytest.fixture(autouse=True)
def _switches_often() -> Iterator[None]:
    """Let threads take turns a hundred times as often as they do."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(5e-5)
    yield
    sys.setswitchinterval(usual)


class Outside:
    """A world that says for whom it answers, and never the same twice."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.reached = 0

    def answer(self, name: str, who: tuple[Any, ...]) -> str:
        with self._lock:
            self.reached += 1
            return f"{name} {who} {self.reached}"

    def pieces(self, name: str, who: tuple[Any, ...]) -> Iterator[str]:
        yield from self.answer(name, who).partition(" ")


async def task(outside: Outside, name: str, number: int, got: Answers, source: random.Random) -> None:
    """Ask alone, ask the same as all others do, stream; give way to others at any time but before the first call.

    Tasks are told apart by the order of their first calls; where that differs, equal requests change places.
    """
    for step in range(STEPS):
        for how in ("own", "same", "stream"):
            who = (number, step, how)
            body = {"step": step} if how == "same" else {"who": list(who)}
            for _ in range(source.randrange(3) if got_any(got, number) else 0):
                await asyncio.sleep(0)
            if how == "stream":
                pieces = astream("model", lambda w=who: slowly(outside, name, w), **body)
                got[who] = "".join([piece async for piece in pieces])
            else:
                got[who] = await acall(how, lambda w=who: late(outside, name, w), **body)


def got_any(got: Answers, number: int) -> bool:
    """Whether a task has had an answer."""
    return (number, 0, "own") in got


async def late(outside: Outside, name: str, who: tuple[Any, ...]) -> str:
    """Answer when others have had their turn."""
    await asyncio.sleep(0)
    return outside.answer(name, who)


async def slowly(outside: Outside, name: str, who: tuple[Any, ...]) -> AsyncIterator[str]:
    """Stream, with others between the chunks."""
    for piece in outside.pieces(name, who):
        await asyncio.sleep(0)
        yield piece


def thread(outside: Outside, name: str, number: int, got: Answers) -> None:
    """Ask and stream, two streams of one thread interleaved."""
    for step in range(CALLS):
        who = ("thread", number, step)
        got[who] = call("tool", lambda w=who: outside.answer(name, w), who=list(who))
        pair = [(*who, side) for side in "ab"]
        streams = [stream("model", lambda w=w: outside.pieces(name, w), who=list(w)) for w in pair]
        for chunks in itertools.zip_longest(*streams):
            for w, chunk in zip(pair, chunks, strict=True):
                got[w] = got.get(w, "") + chunk


def in_context(work: Callable[..., None], *args: Any) -> Callable[[], None]:
    """The work in a copy of this context: in its session."""
    context = contextvars.copy_context()
    return lambda: context.run(work, *args)


@pytest.mark.slow
def test_the_schedule_is_not_seen_in_the_file(project: Path) -> None:
    """Two recordings whose tasks took turns otherwise hold the same calls in the same order."""
    shapes = []
    for seed in (1, 2):
        outside = Outside()

        async def run(seed: int = seed, outside: Outside = outside) -> None:
            source = random.Random(seed)
            async with use_cassette(f"schedule-{seed}", mode="once"):
                await asyncio.gather(*(task(outside, "x", n, {}, source) for n in range(TASKS)))

        asyncio.run(run())
        items = open_cassette(Path(f"cassettes/schedule-{seed}.yaml")).interactions()
        shapes.append([(item.number, item.address, item.request) for item in items])

    assert shapes[0] == shapes[1]


@pytest.mark.slow
def test_two_sessions_at_once_keep_their_callers_apart(project: Path) -> None:
    """More than a thousand calls: nothing is lost, doubled or crossed, and any other schedule replays the same."""

    async def agent(
        outside: Outside, name: str, mode: str, seed: int, both_open: threading.Barrier
    ) -> tuple[Answers, Session]:
        """Everything that goes on in one session, tasks and threads at once; a seed gives a schedule."""
        got: Answers = {}
        source = random.Random(f"{seed} {name}")
        async with use_cassette(name, mode=mode) as session:
            await asyncio.to_thread(both_open.wait)
            assert current_session() is session
            with ThreadPoolExecutor(THREADS) as pool:
                futures = [pool.submit(in_context(thread, outside, name, n, got)) for n in range(THREADS)]
                numbers = [asyncio.create_task(task(outside, name, n, got, source)) for n in range(TASKS)]
                await asyncio.gather(*numbers, *map(asyncio.wrap_future, futures))
            await asyncio.to_thread(both_open.wait)
        return got, session

    def both(outside: Outside, mode: str, seed: int) -> dict[str, tuple[Answers, Session]]:
        """The two agents, each in a thread and an event loop of its own."""
        barrier = threading.Barrier(len(SESSIONS), timeout=60)

        def one(name: str) -> tuple[Answers, Session]:
            return asyncio.run(agent(outside, name, mode, seed, barrier))

        with ThreadPoolExecutor(len(SESSIONS)) as pool:
            return dict(zip(SESSIONS, pool.map(one, SESSIONS), strict=True))

    outside = Outside()
    recorded = both(outside, "once", seed=1)
    reached = outside.reached
    expected = TASKS * STEPS * 3 + THREADS * CALLS * 3
    for name, (got, session) in recorded.items():
        assert len(got) == expected
        assert all(answer.startswith(f"{name} {who} ") for who, answer in got.items())
        items = list(open_cassette(Path(f"cassettes/{name}.yaml")).interactions())
        kept = Counter("".join(item.outcome.chunks or [item.outcome.value]) for item in items)
        assert kept == Counter(got.values())
        assert len(session.report.recorded) == expected

    for name, (got, session) in both(outside, "none", seed=2).items():
        assert got == recorded[name][0]
        assert len(session.report.replayed) == expected
    assert outside.reached == reached == 2 * expected


def under_lock(lock: threading.Lock, _: threading.Event) -> list[str]:
    """Submit work under a lock, once some of it has begun."""
    out: list[str] = []

    def ask(name: str) -> None:
        out.append(call("tool", lambda: f"answer to {name}", ask=name))

    with ThreadPoolExecutor(2) as pool:
        pool.submit(ask, "first")
        for name in "abc":
            with lock:
                pool.submit(ask, name)
            out.append(f"asked {name}")
    return out


def at_event(_: threading.Lock, event: threading.Event) -> list[str]:
    """Wait for an event in a thread, and ask afterward."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(event.wait).result()
    return under_lock(threading.Lock(), event)


@pytest.mark.parametrize("program", [under_lock, at_event])
def test_a_wait_for_another_session_has_no_place_in_the_order(program: Any, project: Path) -> None:
    """What a session did without waiting, it does alike when it waits for another one, and nothing is told."""
    lock, event, is_held = threading.Lock(), threading.Event(), threading.Event()

    def answer() -> str:
        is_held.set()
        time.sleep(0.1)
        return "late"

    def hold() -> None:
        with lock:
            call("slow", answer)
        event.set()

    def other() -> None:
        """Hold the lock in a thread of another session, wait for a call, and set the event."""
        with use_cassette("other", mode="all"):
            in_thread(hold)

    event.set()
    with use_cassette("c", mode="all"):
        recorded = program(lock, event)
    event.clear()
    outer = threading.Thread(target=contextvars.Context().run, args=(other,))
    outer.start()
    is_held.wait()
    with use_cassette("c", mode="none") as session:
        replayed = program(lock, event)
    outer.join()
    assert replayed == recorded
    assert session.report.nondeterminism == ()


@pytest.mark.slow
def test_sessions_come_and_go_while_another_one_runs(project: Path) -> None:
    """Short sessions in other threads neither take from a long one nor give to it, nor close it."""
    outside = Outside()
    short, rounds = 3, 12
    failures: list[str] = []

    def blink(number: int) -> None:
        for turn in range(rounds):
            mode = "all" if turn % 2 == 0 else "none"
            with use_cassette(f"short-{number}", mode=mode) as session:
                answers = [call("tool", lambda: outside.answer("short", (number,)), n=n) for n in range(5)]
                if any(not answer.startswith(f"short {(number,)}") for answer in answers):
                    failures.append(f"{number} got {answers}")
            if len(session.interactions) != len(answers):
                failures.append(f"{number} kept {len(session.interactions)}")

    for mode in ("all", "none"):
        threads = [threading.Thread(target=contextvars.Context().run, args=(blink, n)) for n in range(short)]
        got: Answers = {}
        with use_cassette("long", mode=mode) as session:
            for one in threads:
                one.start()
            for step in range(40):
                thread_step = threading.Thread(target=in_context(thread, outside, "long", 10 + step, got))
                if step == 0:
                    thread_step.start()
                    thread_step.join()
                got["long", step] = call("tool", lambda s=step: outside.answer("long", (s,)), step=step)
            for one in threads:
                one.join()
        assert not failures
        assert all(answer.startswith("long ") for answer in got.values())
        assert len(session.interactions) == len(got)

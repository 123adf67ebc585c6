"""A stream, a coroutine or a thread that is made in a session, and begins after its end, belongs to the session."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import Variation, boundary, garbage, use_cassette
from agenttape_core.errors import AfterRecordingWarning, AfterReplayWarning, CassetteMissError
from agenttape_core.experiments import program_of
from agenttape_core.integration import current_session
from agenttape_core.integration.threads import register_lazy_stream
from agenttape_core.lifecycle.presence import Presence

from .world import World, ask, beside, in_thread, reaches_out, record, settle

Make = Callable[[World], Any]


def _sync(world: World) -> Iterator[str]:
    yield world.tool("late")


async def _async(world: World) -> AsyncIterator[str]:
    yield await world.atool("late")


async def _awaited(world: World) -> str:
    return await world.atool("late")


async def _in_a_task(world: World) -> str:
    return await asyncio.create_task(world.atool("late"))


def _in_a_pool(world: World) -> Coroutine[Any, Any, str]:
    async def work() -> str:
        return await asyncio.to_thread(world.tool, "late")

    return work()


def _in_a_thread(world: World) -> Iterator[str]:
    yield in_thread(lambda: world.tool("late"))


def read(stream: Any) -> Any:
    """Return what a stream or a coroutine gives."""
    if isinstance(stream, Iterator):
        return "".join(stream)

    async def awaited() -> str:
        if isinstance(stream, AsyncIterator):
            return "".join([chunk async for chunk in stream])
        return str(await stream)

    return asyncio.run(awaited())


def made_in_a_replay(world: World, make: Callable[[], Any]) -> Any:
    """Return what is made in a replay of `c`, after its end."""
    record(world, "a")
    with use_cassette("c", on_unused="ignore"):
        return make()


def assert_refused(world: World, stream: Any) -> None:
    """Read what a replay has made: its call is refused, and not made."""
    with pytest.warns(AfterReplayWarning), pytest.raises(CassetteMissError, match="had ended"):
        read(stream)
    assert world.reached == ["a"]


EVERY = pytest.mark.parametrize("make", [_sync, _async, _awaited, _in_a_task, _in_a_pool, _in_a_thread])


@EVERY
def test_read_after_a_replay(world: World, make: Make) -> None:
    """Its call is refused as that of a task is, although Python gives it the context of its reader."""
    assert_refused(world, made_in_a_replay(world, lambda: make(world)))
    assert world.tool("b") == "b 2", "what is made outside is real"


@EVERY
def test_read_after_a_recording(world: World, make: Make) -> None:
    """Its call is made, and its reader is told once that it is not recorded."""
    with use_cassette("c", mode="all") as session:
        stream = make(world)
    with pytest.warns(AfterRecordingWarning, match=r"was made in the recording of cassettes/c\.yaml") as told:
        assert read(stream) == "late 1"
    assert len(told) == 1
    assert session.report.recorded == ()


def test_thread_that_is_started_after_a_replay(world: World) -> None:
    """It belongs to the replay that it was made in."""
    done: Future[str] = Future()
    late = partial(settle, done, lambda: world.tool("late"))
    thread = made_in_a_replay(world, lambda: threading.Thread(target=late))
    with pytest.warns(AfterReplayWarning):  # noqa: PT031 - it comes of the thread
        thread.start()
        thread.join(20)
    assert isinstance(done.exception(), CassetteMissError)
    assert world.reached == ["a"]


def test_boundaries_that_stream(world: World) -> None:
    """A function that yields or is awaited, and is a boundary itself, is refused as what it calls would be."""

    @boundary
    def pieces() -> Iterator[str]:
        yield world.reach("pieces")

    @boundary
    async def answer() -> str:
        return world.reach("answer")

    for each in made_in_a_replay(world, lambda: [pieces(), answer()]):
        assert_refused(world, each)


@pytest.mark.parametrize("generations", [(), (0,), (1,), (2,), (0, 1), (1, 0)])
def test_old_streams_of_a_replay_with_unused_recordings(world: World, generations: tuple[int, ...]) -> None:
    """One is found where recordings are left, however old the collector of garbage counts it."""

    def make() -> Iterator[str]:
        stream = _sync(world)
        for generation in generations:
            gc.collect(generation)
        return stream

    assert_refused(world, made_in_a_replay(world, make))


@pytest.fixture
def thawed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the process be one that has frozen nothing; the tests freeze what they have imported."""
    monkeypatch.setattr(garbage, "_has_frozen", [])
    gc.unfreeze()
    yield
    gc.freeze()


@pytest.mark.usefixtures("thawed")
def test_old_streams_of_an_experiment(world: World) -> None:
    """One that a program leaves unread in a run, and that is old then, is refused where it's read between runs."""
    record(world, "a")
    left: list[Any] = []

    def program() -> None:
        left.append(_sync(world))
        gc.collect()

    run = program_of(program).run(Variation("cassettes/c.yaml"))
    assert run.calls == []
    assert not garbage.ASIDE.is_on, "the collector looks at everything again"
    assert_refused(world, left[0])


@pytest.mark.usefixtures("thawed")
def test_an_experiment_whose_end_is_interrupted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The collector looks at everything again, although the end of the session fails."""
    record(world, "a")
    real = Presence._leave

    def interrupted(*args: Any, **kwargs: Any) -> None:
        real(*args, **kwargs)
        raise KeyboardInterrupt

    monkeypatch.setattr(Presence, "_leave", interrupted)
    with pytest.raises(KeyboardInterrupt):
        program_of(lambda: read(_sync(world))).run(Variation("cassettes/c.yaml"))
    assert not garbage.ASIDE.is_on
    assert garbage.ASIDE.blocks == 0


@pytest.mark.usefixtures("thawed")
def test_old_streams_of_experiments_that_overlap(world: World) -> None:
    """The last run that ends looks for what all of them have left, also for what is older than itself."""
    record(world, "a")
    left: list[Any] = []
    first_has_begun, other_has_begun, first_has_ended = threading.Event(), threading.Event(), threading.Event()

    def first() -> None:
        left.append(_sync(world))
        gc.collect()
        first_has_begun.set()
        other_has_begun.wait(20)

    def other() -> None:
        other_has_begun.set()
        first_has_ended.wait(20)

    programs = [program_of(first), program_of(other)]

    def run_first() -> None:
        programs[0].run(Variation("cassettes/c.yaml"))
        first_has_ended.set()

    with beside(run_first):
        first_has_begun.wait(20)
        programs[1].run(Variation("cassettes/c.yaml"))
    assert_refused(world, left[0])


def test_a_short_replay_does_not_look_at_the_whole_process(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it has made is young, also where recordings are left: a large framework has ten thousands of objects."""
    real, generations = gc.get_objects, list[int | None]()

    def listed(generation: int | None = None) -> list[Any]:
        generations.append(generation)
        return real(generation)

    monkeypatch.setattr(gc, "get_objects", listed)
    gc.disable()
    try:
        stream = made_in_a_replay(world, lambda: _sync(world))
    finally:
        gc.enable()
    assert None not in generations
    assert_refused(world, stream)


def test_a_stream_that_is_read_in_another_session(world: World) -> None:
    """It belongs to the session that its reader is in."""
    stream = made_in_a_replay(world, lambda: _sync(world))
    with use_cassette("d", mode="all") as session:
        assert read(stream) == "late 2"
    assert [call_record.name for call_record in session.report.recorded] == ["late"]


def test_coroutines_of_tasks_outside(world: World) -> None:
    """A task that was made outside of a replay, and begins after it, is outside; so is what it was given to await."""
    record(world, "a")

    async def bounded(given: Coroutine[Any, Any, str]) -> str:
        return await given

    async def program() -> str:
        live = asyncio.create_task(bounded(world.atool("live")))
        with use_cassette("c", on_unused="ignore"):
            pass
        return await live

    assert asyncio.run(program()) == "live 2"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python 3.12 is the first with eager tasks")
def test_eager_tasks_that_are_done(world: World) -> None:
    """A session ends beside an eager task that was done at once, which has no coroutine anymore."""
    record(world, "a")

    async def at_once() -> str:
        return "".join(ask(world, "a"))

    async def program() -> str:
        asyncio.get_running_loop().set_task_factory(getattr(asyncio, "eager_task_factory", None))
        with use_cassette("c"):
            task = asyncio.create_task(at_once())
            assert task.done()
        return await task

    assert asyncio.run(program()) == "a 1"


def test_nothing_stays_of_what_is_never_read(world: World) -> None:
    """A stream that nobody reads holds nothing of its replay when it is gone, and warns nobody."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stream = made_in_a_replay(world, lambda: _sync(world))
        del stream
        assert reaches_out()
        assert world.tool("b") == "b 2"


@pytest.mark.slow
@pytest.mark.usefixtures("often")
def test_other_threads_finish_their_tuples(world: World) -> None:
    """What looks for unread streams has no tuple in hand that a thread which has nothing to do with them is making."""
    is_over = threading.Event()
    refused: list[SystemError] = []

    def work() -> None:
        while not is_over.is_set():
            try:
                tuple(number for number in range(300))
            except SystemError as error:
                refused.append(error)

    with beside(work), beside(work):
        try:
            for _ in range(15):
                record(world, "a")
        finally:
            is_over.set()
    assert refused == []


async def test_a_task_that_ends_while_a_session_ends(tmp_path: Path) -> None:
    """A session ends for good, although the task of another thread ends while it looks for streams."""

    async def work() -> None: ...

    def stream() -> Iterator[int]:
        yield 1

    def of_no_session(session: Any, values: Any) -> bool:
        coroutine.close()  # as its loop would, in that thread
        return False

    register_lazy_stream(stream, of_no_session)
    gc.collect()  # so that all of this is young
    with use_cassette(tmp_path / "c.yaml", mode="all"):
        coroutine = work()
        task = asyncio.ensure_future(coroutine)
        lazy = stream()
        next(lazy)
    with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
        await task
    assert current_session() is None

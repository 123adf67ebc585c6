"""What happens on a call: replayed or executed, in whichever thread, task and session it is made."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from agenttape_core import boundary, open_cassette, use_cassette
from agenttape_core.errors import (
    AfterRecordingWarning,
    CassetteMissError,
    SessionStateError,
    UnrecordableValueError,
    UnusedInteractionsError,
)
from agenttape_core.integration import Boundary, current_session, executing, intercept
from agenttape_core.session.context import is_passed_on, passing_on

from .world import OlderThread, World, acall, call, in_thread, record

if TYPE_CHECKING:
    from pathlib import Path


# -- values ----------------------------------------------------------------------------------------------------


def test_replayed_values_are_fresh(world: World) -> None:
    """A replayed value equals what was returned, in value and type, and is shared with nobody."""
    value = {"tuple": (1, 2.0, b"x"), "set": {1}, 3: None}
    with use_cassette("c", mode="once"):
        assert call("t", lambda: value) is value
    with use_cassette("c", on_repeat="cycle"):
        first, second = call("t", world.tool), call("t", world.tool)
    assert first == second == value
    assert type(first["tuple"]) is tuple
    first["set"].add(2)
    assert second["set"] == {1}


def test_calls_leave_nothing_for_the_collector_of_garbage(world: World) -> None:
    """The owner of a call is freed as soon as the program drops it, as without a session."""
    gc.disable()
    try:
        with use_cassette("c", mode="once"):
            session = current_session()
            assert session is not None
            owner = threading.Event()
            intercept(session.cross(Boundary("tool"), "t", {}, owner=owner), lambda: "x")
            is_kept = weakref.ref(owner)
            del owner
            assert is_kept() is None
    finally:
        gc.enable()


def test_calls_within_calls_without_limit(world: World) -> None:
    """A call may be within more calls than Python may call functions within functions."""
    with use_cassette("c", mode="once"):
        session = current_session()
        assert session is not None
        outermost = innermost = session.cross(Boundary("tool"), "t", {})
        assert not outermost.is_replayed
        for _ in range(sys.getrecursionlimit()):
            innermost = innermost.part()
        assert [*innermost.stack][-1] is outermost
        intercept(outermost, str)


def test_closing_what_passes_an_answer_on(world: World) -> None:
    """A coroutine that passes an answer on, and is left, changes nothing for the code in which it is closed."""
    with use_cassette("c", mode="once"):
        call("t", str)

    async def pass_on(answered: Any) -> None:
        with answered.executing():
            await asyncio.sleep(0)

    with use_cassette("c"):
        session = current_session()
        assert session is not None
        left = pass_on(session.cross(Boundary("tool"), "t", {}))
        contextvars.copy_context().run(left.send, None)
        with passing_on():
            left.close()
            assert is_passed_on()


def test_ids_of_this_run(world: World) -> None:
    """An answer that echoes an id of its request carries the id of the run that asks now."""
    recorded, live = "3f2b8c1e-9a4d-4c7b-8e5f-0a1b2c3d4e5f", "77777777-9a4d-4c7b-8e5f-0a1b2c3d4e5f"
    with use_cassette("c", mode="once"):
        call("t", lambda: {"text": f"see {recorded}."}, prompt=f"look at\n{recorded}")
        with pytest.raises(KeyError):
            call("t", lambda: {}[recorded], fail=recorded)  # type: ignore[index]
    with use_cassette("c"):
        assert call("t", world.tool, prompt=f"look at\n{live}") == {"text": f"see {live}."}
        with pytest.raises(KeyError, match=live):
            call("t", world.tool, fail=live)


@pytest.mark.parametrize("on_error", ["discard", "keep"])
def test_unrecordable_value(world: World, on_error: Any) -> None:
    """A value without a codec fails the call with a clear message, and the session even if the agent eats it."""
    with pytest.raises(UnrecordableValueError) as caught, use_cassette("c", mode="once", on_error=on_error):
        try:
            call("t", lambda: {"deep": [1, threading.Lock()]})
        except UnrecordableValueError:
            world.reach("swallowed")
    assert world.reached == ["swallowed"]
    assert str(caught.value).startswith("cannot record the value at $.deep[1]: _thread.lock (no codec is known")
    assert "register_codecs([TypeCodec(...)])" in str(caught.value)


def test_unrecordable_request(world: World) -> None:
    """A request without a codec is refused before anything is executed, also in a replay."""
    with use_cassette("c", mode="once"):
        world.tool("t")
    for mode in ("all", "none"):
        with pytest.raises(UnrecordableValueError), use_cassette("c", mode=mode):
            world.tool("t", lock=threading.Lock())
    assert world.reached == ["t"]


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit, GeneratorExit])
async def test_interruptions_are_no_outcome(world: World, interruption: type[BaseException]) -> None:
    """A call that is interrupted leaves no record, plain or async."""

    def fail() -> None:
        raise interruption

    async def afail() -> None:
        raise interruption

    with use_cassette("c", mode="once"):
        world.tool("other")
        with pytest.raises(interruption):
            call("t", fail)
        with pytest.raises(interruption):
            await acall("t", afail)
        assert executing() is None
    assert [entry.name for entry in open_cassette("cassettes/c.yaml").entries] == ["other"]


# -- nested boundaries -----------------------------------------------------------------------------------------


def test_children(world: World) -> None:
    """What a tool calls is recorded as its child; if the tool is replayed, its children neither run nor are unused."""

    def agent() -> str:
        return f"{world.tool('inner')} and {call('middle', lambda: world.tool('deep'))}"

    with use_cassette("c", mode="once"):
        answer = call("outer", agent)
        world.tool("beside")
    items = open_cassette("cassettes/c.yaml").interactions()
    assert [(item.number, item.address, item.parent) for item in items] == [
        (1, "outer", None),
        (2, "outer/inner", 1),
        (3, "outer/middle", 1),
        (4, "outer/middle/deep", 3),
        (5, "beside", None),
    ]
    before = list(world.reached)
    with use_cassette("c", replay_only={"tool"}) as session:
        assert call("outer", agent) == answer
        world.tool("beside")
    assert world.reached == before
    assert [call_record.name for call_record in session.report.replayed] == ["outer", "beside"]
    assert session.report.unused == ()


def test_children_of_a_live_one(world: World) -> None:
    """When the outer one is executed, its children are replayed from where they were recorded."""
    with use_cassette("c", mode="once"):
        call("outer", lambda: world.tool("inner"))
    with use_cassette("c", live={"outer"}) as session:
        assert call("outer", lambda: world.tool("inner")) == "inner 1"
    assert [(c.name, c.match_rule) for c in session.report.replayed] == [("inner", "exact")]
    assert [c.name for c in session.report.recorded] == ["outer"]


def test_owner(world: World) -> None:
    """A call knows what it is inside of, so that an object that calls itself is recorded once."""
    owner, other, seen = object(), object(), []
    with use_cassette("c", mode="once") as session:

        def inner() -> str:
            session_call = executing()
            assert session_call is not None
            seen.extend(map(session_call.stack.is_inside, (owner, other, object())))
            return "x"

        outer = session.cross(Boundary("tool"), "outer", {}, owner=owner)
        intercept(outer, lambda: intercept(session.cross(Boundary("tool"), "i", {}, owner=other), inner))
    assert seen == [True, True, False]


def test_given_parent(world: World) -> None:
    """An integration that loses the context can name what is around a call itself."""
    with use_cassette("c", mode="once") as session:

        def work() -> Any:
            outer = executing()
            return in_thread(lambda: intercept(session.cross(Boundary("tool"), "inner", {}, parent=outer), lambda: "x"))

        call("outer", work)
    assert {i.name: i.parent for i in open_cassette("cassettes/c.yaml").interactions()} == {"outer": None, "inner": 1}


# -- threads and tasks -----------------------------------------------------------------------------------------


def test_bare_thread(world: World) -> None:
    """A thread without a context belongs to the only open session: it is recorded and replayed, and cannot miss."""
    with use_cassette("c", mode="once"):
        answer = in_thread(lambda: world.tool("t"))
    with use_cassette("c"):
        assert in_thread(lambda: world.tool("t")) == answer
    with pytest.raises(CassetteMissError), use_cassette("c", on_unused="ignore"), suppress(CassetteMissError):
        in_thread(lambda: world.tool("t", n=2))
    assert world.reached == ["t"]


def test_bare_thread_among_several_sessions(world: World) -> None:
    """A thread without a context belongs to the session that it was started in, as work in a pool does."""
    with use_cassette("a", mode="once") as outer, use_cassette("b", mode="once") as inner:
        assert in_thread(current_session) is inner
        assert in_thread(lambda: in_thread(current_session)) is inner
        assert in_thread(partial(contextvars.copy_context().run, current_session)) is inner
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(world.tool, "t").result() == "t 1"
    assert outer.report.recorded == ()
    assert [call_record.name for call_record in inner.report.recorded] == ["t"]
    assert current_session() is None


def test_thread_that_is_older_than_several_sessions(world: World, older_thread: OlderThread) -> None:
    """Among replays it belongs to the last one that was opened, among recordings to none: nobody can tell."""
    record(world, "a")
    with use_cassette("b", mode="all"), use_cassette("d", mode="all"):
        assert older_thread.result(current_session) is None
    with use_cassette("c", on_unused="ignore"), use_cassette("c", on_unused="ignore") as last:
        assert older_thread.result(current_session) is last
        with use_cassette("e", mode="all"):
            assert older_thread.result(current_session) is last


def test_innermost_session(world: World) -> None:
    """Of nested sessions the innermost takes the call; when it has ended, the one around it again."""
    with use_cassette("z", mode="once") as outermost, use_cassette("a", mode="once") as outer:
        world.tool("one")
        with use_cassette("b", mode="once") as inner:
            world.tool("two")
        world.tool("three")
    assert [c.name for c in outer.report.recorded] == ["one", "three"]
    assert [c.name for c in inner.report.recorded] == ["two"]
    assert outermost.report.recorded == ()


def test_sessions_that_overlap(world: World) -> None:
    """Sessions need not end in the opposite order: what is left open is in force, and nothing is left behind."""
    first, second = use_cassette("a", mode="once"), use_cassette("b", mode="once")
    one = first.__enter__()
    two = second.__enter__()
    first.__exit__(None, None, None)
    assert current_session() is two
    world.tool("t")
    second.__exit__(None, None, None)
    assert current_session() is None
    assert in_thread(current_session) is None
    assert (len(one.report.recorded), len(two.report.recorded)) == (0, 1)


def test_ended_in_another_context(world: World) -> None:
    """A session that ends in another context than it began in is over everywhere."""
    used = use_cassette("a", mode="once")
    inside = contextvars.copy_context()
    session = inside.run(used.__enter__)
    assert inside.run(current_session) is session
    used.__exit__(None, None, None)
    assert inside.run(current_session) is None
    with use_cassette("b", mode="once") as other:
        assert current_session() is other


async def test_parallel_tasks_find_their_own(world: World) -> None:
    """Equal calls of parallel tasks each get the answer that their task got, whichever finishes first."""

    async def run(order: list[int]) -> list[str]:
        gates = [asyncio.Event() for _ in order]

        async def task(number: int) -> str:
            await world.atool("begin", n=number)
            await gates[number].wait()
            return await world.atool("same")

        tasks = [asyncio.create_task(task(number)) for number in range(len(order))]
        for number in order:
            gates[number].set()
            await tasks[number]
        return [task.result() for task in tasks]

    async with use_cassette("c", mode="once"):
        recorded = await run([2, 0, 1])
    before = open_cassette("cassettes/c.yaml")
    async with use_cassette("c") as session:
        assert await run([0, 1, 2]) == recorded
    assert {call_record.match_rule for call_record in session.report.replayed} == {"exact"}
    async with use_cassette("c", mode="all"):
        await run([1, 0, 2])
    after = open_cassette("cassettes/c.yaml")
    assert [(e.name, e.address) for e in after.entries] == [(e.name, e.address) for e in before.entries]


async def test_task_that_outlives_its_session(world: World) -> None:
    """A call that ends after its session is recorded as not ended; one that begins afterwards is simply made."""
    go, begun, session_calls = asyncio.Event(), asyncio.Event(), list[Any]()

    async def real() -> str:
        begun.set()
        await go.wait()
        return world.reach("late")

    async def work() -> tuple[str, str]:
        return await acall("late", real), await world.atool("after")

    async def recorded() -> asyncio.Task[tuple[str, str]]:
        async with use_cassette("c", mode="once") as session:
            world.tool("t")
            task = asyncio.create_task(work())
            await begun.wait()
            session_calls.extend(session.report.recorded)
        return task

    with pytest.warns(AfterRecordingWarning, match="tool late at late had not ended"):
        task = await recorded()
    go.set()
    assert await task == ("late 2", "after 3")
    assert [call_record.name for call_record in session_calls] == ["t", "late"]
    statuses = {each.name: each.outcome.status for each in open_cassette("cassettes/c.yaml").interactions()}
    assert statuses == {"t": "returned", "late": "cancelled"}


def test_opened_twice(world: World) -> None:
    """One `use_cassette(...)` is one block at a time, and afterwards can be used again."""
    used = use_cassette("c", mode="once")
    with used:
        world.tool("t")
        with pytest.raises(SessionStateError, match="open already"), used:
            pass
        assert current_session() is not None
    with pytest.raises(SessionStateError, match="not open"):
        used.__exit__(None, None, None)
    with used:
        assert world.tool("t") == "t 1"


def test_what_is_held_is_released(world: World) -> None:
    """Nothing of a session stays in the context: not the session, not a boundary, not a branch."""
    before = dict(contextvars.copy_context())
    with use_cassette("c", mode="once"):
        world.tool("t")
        with pytest.raises(ValueError, match="x"):
            call("t", lambda: int("x"), n=1)
    after = dict(contextvars.copy_context())
    mine = {var: value for var, value in after.items() if var.name.startswith("agenttape") and value is not None}
    assert mine == {var: value for var, value in before.items() if var in mine}


asked: list[str] = []


@boundary("embeddings")
def embed(text: str) -> list[float]:
    """Embed a text, unless it is empty."""
    asked.append(text)
    if not text:
        raise ValueError("nothing to embed")
    return [float(len(asked))]


def test_a_recorded_embedding_is_replayed_as_often_as_asked(tmp_path: Path) -> None:
    """The recorded answers come in order, then the last one again; an error is no answer, and a new text is a miss."""
    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="all"):
        recorded = [embed("a"), embed("a")]
        with pytest.raises(ValueError, match="nothing"):
            embed("")
    asked.clear()
    for mode in ("none", "new_episodes"):
        with use_cassette(path, mode=mode) as session:
            assert [embed("a") for _ in range(4)] == [*recorded, recorded[1], recorded[1]]
        assert [replayed.match_rule for replayed in session.report.replayed[2:]] == ["repeated"] * 2
    with use_cassette(path, on_repeat="cycle"):
        assert [embed("a") for _ in range(4)] == recorded * 2
    assert asked == []
    with pytest.raises(CassetteMissError, match="was recorded only once"), use_cassette(path, on_unused="ignore"):
        for _ in range(2):
            with pytest.raises(ValueError, match="nothing"):
                embed("")


def test_an_embedding_that_nobody_asks_for_is_reported(tmp_path: Path) -> None:
    """It is in the report, and no failure; what else is unused is one, and is named alone."""

    @boundary("chat")
    def answer(text: str) -> str:
        """Answer."""
        return text

    path = tmp_path / "c.yaml"
    with use_cassette(path, mode="all"):
        embed("a")
        answer("b")
    with use_cassette(path) as session:
        answer("b")
    assert [call_record.kind for call_record in session.report.unused] == ["embeddings"]
    assert session.report.judged == ()
    with pytest.raises(UnusedInteractionsError, match="1 of the 2") as failed, use_cassette(path):
        pass
    assert "embeddings" not in str(failed.value)

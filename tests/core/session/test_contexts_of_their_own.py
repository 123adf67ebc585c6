"""Tasks and callbacks in a context of their own belong to the session of whoever begins them."""

from __future__ import annotations

import asyncio
import contextvars
import random
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agenttape_core import boundary, use_cassette

from ...kit.replaying import recorded_as_replayed

BEFORE: contextvars.ContextVar[int] = contextvars.ContextVar("before", default=0)


ANSWERED: dict[int, asyncio.Event] = {}


@boundary("chat")
async def ask(question: int) -> str:
    """Answer, the last one first."""
    await ANSWERED[question + 1].wait()
    ANSWERED[question].set()
    return f"{question} {random.SystemRandom().random()}"


async def program() -> list[Any]:
    """Take answers as they come, and draw."""
    taken: list[Any] = []
    ANSWERED.update({question: asyncio.Event() for question in range(5)})
    ANSWERED[4].set()

    async def one(question: int) -> None:
        taken.append(await ask(question))

    await asyncio.gather(*map(one, range(4)))
    BEFORE.set(BEFORE.get() + 1)
    return [*taken, uuid.uuid4(), random.random()]


def by_runner(runner: asyncio.Runner) -> Any:
    """Run it by a runner, in the runner's context."""
    return runner.run(program())


def in_an_empty_context(runner: asyncio.Runner) -> Any:
    """Run it in a task that is given a context without anything."""

    async def outer() -> Any:
        return await asyncio.get_running_loop().create_task(program(), context=contextvars.Context())

    return runner.run(outer())


@pytest.mark.parametrize("run", [by_runner, in_an_empty_context])
def test_order_and_ids_are_recorded_there(run: Callable[[asyncio.Runner], Any], tmp_path: Path) -> None:
    """A runner that is older than the session has a context that is, too; what it runs is in the session."""
    with asyncio.Runner() as runner:
        runner.run(asyncio.sleep(0))
        recorded = recorded_as_replayed(tmp_path / "c.yaml", lambda: run(runner))
    assert recorded[0].startswith("3 ")


def test_the_context_of_a_runner_is_given_back(tmp_path: Path) -> None:
    """Variables that a run sets are there in the next one, and after its end a session is not."""
    with asyncio.Runner() as runner:
        runner.run(asyncio.sleep(0))
        with use_cassette(tmp_path / "c.yaml", mode="once"):
            runner.run(program())
        outside = runner.run(program())
        with use_cassette(tmp_path / "c.yaml"):
            runner.run(program())
        assert runner.run(program()) != outside

        async def count() -> int:
            return BEFORE.get()

        assert runner.run(count()) == 4


def when_done(loop: asyncio.AbstractEventLoop, function: Callable[[], object], context: contextvars.Context) -> None:
    """Let a loop call a function when a future is done, which the program sees to."""
    future = loop.create_future()
    future.add_done_callback(lambda _: function(), context=context)
    future.set_result(None)


GIVEN: dict[str, Callable[[asyncio.AbstractEventLoop, Callable[[], object], contextvars.Context], object]] = {
    "soon": lambda loop, function, context: loop.call_soon(function, context=context),
    "later": lambda loop, function, context: loop.call_later(0.001, function, context=context),
    "from any thread": lambda loop, function, context: loop.call_soon_threadsafe(function, context=context),
    "when done": when_done,
}


@pytest.mark.parametrize("give", GIVEN.values(), ids=GIVEN)
def test_a_callback_of_the_program_belongs_to_its_session(give: Callable[..., object], tmp_path: Path) -> None:
    """Whatever context a loop is given with a callback: it draws what was recorded, and comes when it came."""

    async def with_callback() -> Any:
        """Give a loop a callback together with a context, beside tasks that take answers as they come."""
        made: list[Any] = []
        loop, over = asyncio.get_running_loop(), asyncio.Event()

        def called() -> None:
            BEFORE.set(BEFORE.get() + 1)
            made.extend([uuid.uuid4(), random.random()])
            over.set()

        give(loop, called, context)
        answers = await program()
        await over.wait()
        return made, answers

    context = contextvars.Context()
    recorded = recorded_as_replayed(tmp_path / "c.yaml", lambda: asyncio.run(with_callback()))
    assert context[BEFORE] == 3
    assert asyncio.run(with_callback()) != recorded  # the context is in no session any more


def test_a_callback_in_no_context_that_somebody_else_calls_is_named(tmp_path: Path) -> None:
    """Nobody knows who has given it to the loop, so it draws real ids, and each replay says so."""

    async def called_by_others() -> Any:
        loop, made = asyncio.get_running_loop(), list[Any]()
        future = loop.create_future()
        future.add_done_callback(lambda _: made.append(uuid.uuid4()), context=contextvars.Context())
        contextvars.Context().run(loop.call_soon, future.set_result, None)
        await future
        return made

    with use_cassette(tmp_path / "c.yaml", mode="once"):
        recorded = asyncio.run(called_by_others())
    with use_cassette(tmp_path / "c.yaml") as session:
        assert asyncio.run(called_by_others()) != recorded
    assert [line.split()[0] for line in session.report.nondeterminism] == ["ids"]

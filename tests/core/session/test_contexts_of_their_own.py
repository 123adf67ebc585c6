"""Tasks that are begun in a context of their own belong to the session of whoever begins them."""

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
        with use_cassette(tmp_path / "c.yaml", mode="once"):
            recorded = run(runner)
        for _ in range(2):
            with use_cassette(tmp_path / "c.yaml") as session:
                assert run(runner) == recorded
            assert session.report.disorder == ()
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

"""Checks of equal questions: one after the other, and in parallel."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from agenttape_core.storage import open_cassette, write_cassette
from agenttape_core.testing.bench import CASSETTE, OTHER, QUESTION, Bench, Shape, is_pure
from agenttape_core.testing.concurrency import Branch, Turns
from agenttape_core.testing.running import expect
from agenttape_core.testing.world import World, gone

_A_WHILE = 0.01  # seconds in which a replayed call would end that does not wait to be cancelled

FORWARDS, BACKWARDS = (0, 1, 2, 3), (3, 2, 1, 0)


def ask_in_threads(suite: Bench, shape: Shape, world: World, order: Sequence[int]) -> list[Any]:
    """Ask from as many threads as the order has, whose real answers come in that order; return their texts."""
    subject = suite.subject(world)
    works = Turns(order).branchs([lambda _: suite.says(shape, subject, QUESTION)] * len(order), suite.patience)
    return suite.run_threads(works)


def ask_in_tasks(suite: Bench, shape: Shape, world: World, order: Sequence[int], times: int = 1) -> list[Any]:
    """Call from as many tasks, each of which calls again when it has its answer; return the texts of each."""

    async def work(branch: Branch) -> list[str]:
        texts = []
        for _ in range(times):
            texts.append(suite.text(await suite.aask(shape, subject, QUESTION)))
            branch.leave()
        return texts

    async def at_once() -> list[Any]:
        return await suite.run_tasks(Turns(order).branchs([work] * len(order), suite.patience))

    subject = suite.subject(world)
    return asyncio.run(at_once())


def equal_questions_get_their_answers_in_order(suite: Bench) -> None:
    """A question that was asked three times gets its three answers, in order."""
    for shape in suite.shapes:
        subject = suite.subject(World())
        with suite.record():
            live = [suite.says(shape, subject, QUESTION) for _ in range(3)]
        subject = suite.subject()
        with suite.replay():
            replayed = [suite.says(shape, subject, QUESTION) for _ in range(3)]
        expect(len(set(live)) == len(live), f"{shape}: three calls were answered with {live} while recording")
        expect(live == replayed, f"{shape}: recorded {live}, replayed {replayed}")


def one_question_too_many_is_a_miss(suite: Bench) -> None:
    """A question that is repeated more often than it was recorded is a miss; embeddings are replayed again."""
    for shape in suite.shapes:
        with suite.record() as session:
            suite.ask(shape, suite.subject(World()), QUESTION)
        subject = suite.subject(gone())
        with suite.missing():
            suite.ask(shape, subject, QUESTION)
            refused = suite.refused(shape, subject, QUESTION)
        if is_pure(session):
            expect(refused is None, f"{shape}: an embedding was recorded once, and is not replayed twice")
        else:
            expect(refused is not None, f"{shape}: a question was answered twice that was recorded once")


def equal_questions_in_threads(suite: Bench) -> None:
    """Equal questions in several threads each find their own answer, whichever came first when it was recorded."""
    for shape in suite.of_shapes("call", "stream"):
        with suite.record():
            live = ask_in_threads(suite, shape, World(), BACKWARDS)
        with suite.replay():
            replayed = ask_in_threads(suite, shape, gone(), FORWARDS)
        expect(live == replayed, f"{shape}: recorded {live}, replayed {replayed}")


def equal_questions_in_tasks(suite: Bench) -> None:
    """Equal questions in several tasks each find their own answer, even if the first to end continues first."""
    for shape in suite.of_shapes("acall", "astream"):
        with suite.record():
            live = ask_in_tasks(suite, shape, World(), BACKWARDS, times=2)
        _forget_the_order(suite)
        with suite.replay():
            replayed = ask_in_tasks(suite, shape, gone(), FORWARDS, times=2)
        expect(live == replayed, f"{shape}: recorded {live}, replayed {replayed}")


def cancelled_call_is_cancelled_again(suite: Bench) -> None:
    """A cancelled call is recorded as such, and waits in a replay to be cancelled; the session continues."""
    for shape in suite.of_shapes("acall", "astream"):
        world = World()
        world.hangs = True
        with suite.record() as session:
            live = asyncio.run(_cancel_and_ask(suite, shape, world))
        recorded = [item.outcome.status for item in session.interactions if item.parent is None]
        expect(recorded.count("cancelled") == 1, f"{shape}: a cancelled call and another one became {recorded}")
        with suite.replay():
            replayed = asyncio.run(_cancel_and_ask(suite, shape, gone()))
        expect(live == replayed, f"{shape}: after the cancelled call {live!r} was recorded, replayed {replayed!r}")


def _forget_the_order(suite: Bench) -> None:
    """Remove the recorded order from the cassette, so that only the addresses are left to match by."""
    path = suite.folder / CASSETTE
    cassette = open_cassette(path)
    volatile = cassette.header.volatile.model_copy(update={"admissions": None, "schedule": [], "threads": ""})
    header = cassette.header.model_copy(update={"volatile": volatile})
    write_cassette(path, header, list(cassette.records()))


async def _cancel_and_ask(suite: Bench, shape: Shape, world: World) -> str:
    subject = suite.subject(world)
    hanging = asyncio.ensure_future(suite.aask(shape, subject, QUESTION))
    if world.hangs:
        await asyncio.wait_for(asyncio.wrap_future(world.arrived), suite.patience)
    else:
        await asyncio.wait([hanging], timeout=_A_WHILE)
    hanging.cancel()
    await asyncio.wait([hanging])
    expect(hanging.cancelled(), f"{shape}: a call that was cancelled ended in another way")
    world.hangs = False
    return suite.text(await suite.aask(shape, subject, OTHER))

"""Equal questions: one after the other, and in parallel."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from agenttape_core.storage import open_cassette, write_cassette
from agenttape_core.testing.bench import CASSETTE, OTHER, QUESTION, Bench, is_pure
from agenttape_core.testing.concurrency import Branch, Turns
from agenttape_core.testing.hooks import Shape
from agenttape_core.testing.running import expect
from agenttape_core.testing.world import World, gone

_A_WHILE = 0.01
"""Seconds in which a served call would end that does not wait to be cancelled."""
FORWARDS, BACKWARDS = (0, 1, 2, 3), (3, 2, 1, 0)


class Crowd(Bench):
    """Calls with the same question several times in parallel."""

    def ask_in_threads(self, shape: Shape, world: World, order: Sequence[int]) -> list[Any]:
        """Ask from as many threads as the order has, whose real answers come in that order.

        Returns:
            The text that each thread got.
        """
        subject = self.subject(world)
        works = Turns(order).branchs([lambda _: self.says(shape, subject, QUESTION)] * len(order), self.patience)
        return self.run_threads(works)

    def ask_in_tasks(self, shape: Shape, world: World, order: Sequence[int], times: int = 1) -> list[Any]:
        """Call from as many tasks, each of which calls again when it has its answer.

        Returns:
            The texts that each task got.
        """

        async def work(branch: Branch) -> list[str]:
            texts = []
            for _ in range(times):
                texts.append(self.text(await self.aask(shape, subject, QUESTION)))
                branch.leave()
            return texts

        async def at_once() -> list[Any]:
            return await self.run_tasks(Turns(order).branchs([work] * len(order), self.patience))

        subject = self.subject(world)
        return asyncio.run(at_once())


class SequenceChecks(Crowd):
    """The checks about equal questions."""

    def test_equal_questions_get_their_answers_in_order(self) -> None:
        """A question that was asked three times gets its three answers, in order."""
        for shape in self.shapes:
            subject = self.subject(World())
            with self.record():
                live = [self.says(shape, subject, QUESTION) for _ in range(3)]
            subject = self.subject()
            with self.replay():
                served = [self.says(shape, subject, QUESTION) for _ in range(3)]
            expect(len(set(live)) == len(live), f"{shape}: three calls were answered with {live} while recording")
            expect(live == served, f"{shape}: recorded {live}, replayed {served}")

    def test_one_question_too_many_is_a_miss(self) -> None:
        """A question that is repeated more often than it was recorded is a miss; embeddings are replayed again."""
        for shape in self.shapes:
            with self.record() as session:
                self.ask(shape, self.subject(World()), QUESTION)
            subject = self.subject(gone())
            with self.missing():
                self.ask(shape, subject, QUESTION)
                refused = self.refused(shape, subject, QUESTION)
            if is_pure(session):
                expect(refused is None, f"{shape}: an embedding was recorded once, and is not served twice")
            else:
                expect(refused is not None, f"{shape}: a question was answered twice that was recorded once")

    def test_equal_questions_in_threads(self) -> None:
        """Equal questions in several threads each find their own answer, whichever came first when it was recorded."""
        for shape in self.of_shapes("call", "stream"):
            with self.record():
                live = self.ask_in_threads(shape, World(), BACKWARDS)
            with self.replay():
                served = self.ask_in_threads(shape, gone(), FORWARDS)
            expect(live == served, f"{shape}: recorded {live}, replayed {served}")

    def test_equal_questions_in_tasks(self) -> None:
        """Equal questions in several tasks each find their own answer, even if the first to end continues first."""
        for shape in self.of_shapes("acall", "astream"):
            with self.record():
                live = self.ask_in_tasks(shape, World(), BACKWARDS, times=2)
            self._forget_the_order()
            with self.replay():
                served = self.ask_in_tasks(shape, gone(), FORWARDS, times=2)
            expect(live == served, f"{shape}: recorded {live}, replayed {served}")

    def _forget_the_order(self) -> None:
        """Remove the recorded order from the cassette, so that only the addresses are left to match by."""
        path = self.folder / CASSETTE
        cassette = open_cassette(path)
        volatile = cassette.header.volatile.model_copy(update={"admissions": None, "schedule": [], "threads": ""})
        header = cassette.header.model_copy(update={"volatile": volatile})
        write_cassette(path, header, list(cassette.records()))

    def test_cancelled_call_is_cancelled_again(self) -> None:
        """A cancelled call is recorded as such, and waits in a replay to be cancelled; the session continues."""
        for shape in self.of_shapes("acall", "astream"):
            world = World()
            world.hangs = True
            with self.record() as session:
                live = asyncio.run(self._cancel_and_ask(shape, world))
            recorded = [item.outcome.status for item in session.interactions if item.parent is None]
            expect(recorded.count("cancelled") == 1, f"{shape}: a cancelled call and another one became {recorded}")
            with self.replay():
                served = asyncio.run(self._cancel_and_ask(shape, gone()))
            expect(live == served, f"{shape}: after the cancelled call {live!r} was recorded, replayed {served!r}")

    async def _cancel_and_ask(self, shape: Shape, world: World) -> str:
        subject = self.subject(world)
        hanging = asyncio.ensure_future(self.aask(shape, subject, QUESTION))
        if world.hangs:
            await asyncio.wait_for(asyncio.wrap_future(world.arrived), self.patience)
        else:
            await asyncio.wait([hanging], timeout=_A_WHILE)
        hanging.cancel()
        await asyncio.wait([hanging])
        expect(hanging.cancelled(), f"{shape}: a call that was cancelled ended in another way")
        world.hangs = False
        return self.text(await self.aask(shape, subject, OTHER))

"""Checks of the session that a call belongs to, if it belongs to one."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from agenttape_core.errors import UnusedInteractionsError
from agenttape_core.testing.bench import OTHER, QUESTION, UNKNOWN, Bench, is_pure
from agenttape_core.testing.hooks import Shape
from agenttape_core.testing.running import expect
from agenttape_core.testing.world import World

INNER, OUTER = "inner.yaml", "outer.yaml"


class SessionChecks(Bench):
    """The checks about sessions."""

    def test_outside_a_session_nothing_changes(self) -> None:
        """Outside a session a taped object behaves like the original: the same answers and errors, the same calls."""
        for shape in self.shapes:
            worlds = World(), World()
            subjects = self.make(worlds[0]), self.subject(worlds[1])
            with self.record():  # after it, nothing of it may be left
                self.ask(shape, self.subject(World()), QUESTION)
            files = self.files()
            answers = [self.ask(shape, subject, QUESTION) for subject in subjects]
            texts = [self.text(answer) for answer in answers]
            expect(texts[0] == texts[1], f"{shape}: the original says {texts[0]!r}, the taped one {texts[1]!r}")
            expect(
                type(answers[0]) is type(answers[1]), f"{shape}: answers are of the types {list(map(type, answers))}"
            )
            for world in worlds:
                world.fails = self.error()
            errors = [repr(self.refused(shape, subject, QUESTION)) for subject in subjects]
            expect(errors[0] == errors[1], f"{shape}: the original raises {errors[0]}, the taped one {errors[1]}")
            expect(worlds[0].questions == worlds[1].questions, f"{shape}: the taped one made other real calls")
            expect(self.files() == files, f"{shape}: a call was recorded after the session had ended")

    def test_nested_sessions(self) -> None:
        """A call belongs to the innermost session around it, and to the outer one again when that has ended."""
        for shape in self.shapes:
            subject = self.subject(World())
            with self.record(OUTER):
                live = [self.says(shape, subject, QUESTION)]
                with self.record(INNER):
                    live.append(self.says(shape, subject, OTHER))
                live.append(self.says(shape, subject, UNKNOWN))
            with self.replay(OUTER):
                first, third = (self.says(shape, self.subject(), text) for text in (QUESTION, UNKNOWN))
            with self.replay(INNER):
                second = self.says(shape, self.subject(), OTHER)
            expect(live == [first, second, third], f"{shape}: recorded {live}, replayed {[first, second, third]}")

    def test_two_sessions_at_once(self) -> None:
        """Two sessions that are open in parallel, in two threads or in two tasks, don't mix."""
        for shape in self.shapes:
            at_once = self._in_threads if shape in {"call", "stream"} else self._in_tasks
            live = at_once(shape)
            for name, text, answers in zip((OUTER, INNER), (QUESTION, OTHER), live, strict=True):
                with self.replay(name):
                    served = [self.says(shape, self.subject(), f"{text} {n}") for n in range(2)]
                expect(served == answers, f"{shape}: one of two sessions recorded {answers}, replayed {served}")

    def _in_threads(self, shape: Shape) -> list[list[str]]:
        barrier = Barrier(2, timeout=self.patience)

        def asked(name: str, text: str) -> list[str]:
            with self.record(name):
                subject, answers = self.subject(World()), []
                for n in range(2):
                    barrier.wait()
                    answers.append(self.says(shape, subject, f"{text} {n}"))
                barrier.wait()
            return answers

        with ThreadPoolExecutor(2) as threads:
            return list(threads.map(asked, (OUTER, INNER), (QUESTION, OTHER)))

    def _in_tasks(self, shape: Shape) -> list[list[str]]:
        async def asked(name: str, text: str) -> list[str]:
            with self.record(name):
                subject, answers = self.subject(World()), []
                for n in range(2):
                    await barrier.wait()
                    answers.append(self.text(await self.aask(shape, subject, f"{text} {n}")))
                await barrier.wait()
            return answers

        async def both() -> list[list[str]]:
            return list(await asyncio.gather(asked(OUTER, QUESTION), asked(INNER, OTHER)))

        barrier = asyncio.Barrier(2)
        return asyncio.run(both())

    def test_unused_interactions_are_reported(self) -> None:
        """A replay that does not ask for everything fails, but for embeddings; its report names the unused."""
        for shape in self.shapes:
            subject = self.subject(World())
            with self.record() as recording:
                self.ask(shape, subject, QUESTION)
                self.ask(shape, subject, OTHER)
            failed = False
            try:
                with self.replay() as session:
                    self.ask(shape, self.subject(), QUESTION)
            except UnusedInteractionsError:
                failed = True
            if is_pure(recording):
                expect(not failed, f"{shape}: an embedding was never asked for, and the session failed")
            else:
                expect(failed, f"{shape}: a recording was never asked for, and the session ended well")
            unused = [crossed.number for crossed in session.report.unused]
            expect(unused, f"{shape}: a recording was never asked for, and the report names none")

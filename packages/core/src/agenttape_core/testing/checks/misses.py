"""Checks of questions that were not recorded."""

from __future__ import annotations

from unittest import SkipTest

from agenttape_core.errors import CassetteMissError
from agenttape_core.testing.bench import OTHER, QUESTION, UNKNOWN, Bench
from agenttape_core.testing.hooks import Shape
from agenttape_core.testing.running import expect
from agenttape_core.testing.world import World, gone


class MissChecks(Bench):
    """The checks about misses."""

    def _recorded(self, shape: Shape) -> None:
        with self.record():
            self.ask(shape, self.subject(World()), QUESTION)

    def test_another_question_is_a_miss(self) -> None:
        """A question that isn't in the cassette is not answered."""
        for shape in self.shapes:
            self._recorded(shape)
            world = gone()
            with self.missing():
                refused = self.refused(shape, self.subject(world), OTHER)
            expect(refused is not None, f"{shape}: a question was answered that was never recorded")
            expect(not world.trespasses, f"{shape}: a question that was never recorded was really asked")

    def test_another_setup_is_a_miss(self) -> None:
        """The same question to an object that is set up in another way is not answered."""
        if not self.variants(gone()):
            raise SkipTest("has no `variants` hook")
        for shape in self.shapes:
            self._recorded(shape)
            for number, variant in enumerate(self.variants(gone())):
                with self.missing():
                    refused = self.refused(shape, variant, QUESTION)
                expect(refused is not None, f"{shape}: variant {number} was served what another one had asked")

    def test_miss_passes_through_error_handlers(self) -> None:
        """A miss is a `CassetteMissError`, and no retry, fallback or error handler turns it into something else."""
        for shape in self.shapes:
            self._recorded(shape)
            for handled in (lambda subject: subject, *self.handlers()):
                world = gone()
                with self.missing():
                    refused = self.refused(shape, handled(self.subject(world)), UNKNOWN)
                missed = isinstance(refused, CassetteMissError)
                expect(missed, f"{shape}: the miss became {refused!r}")
                expect(not world.trespasses, f"{shape}: the miss led to a real call")

    def test_eaten_miss_fails_the_session(self) -> None:
        """A miss that the code under test eats is raised again when the session ends."""
        for shape in self.shapes:
            self._recorded(shape)
            try:
                with self.replay(on_unused="ignore"):
                    self.refused(shape, self.subject(), UNKNOWN)
            except CassetteMissError:
                continue
            raise AssertionError(f"{shape}: a session ended well although it held a miss")

    def test_miss_explains_itself(self) -> None:
        """The message of a miss has the name of the boundary and the cassette, and the differences."""
        for shape in self.shapes:
            self._recorded(shape)
            with self.missing() as session:
                message = str(self.refused(shape, self.subject(), UNKNOWN))
            recorded = session.interactions[0]
            for part in (recorded.kind, recorded.name, str(session.path), "differs"):
                expect(part in message, f"{shape}: the message of a miss does not say {part!r}:\n{message}")

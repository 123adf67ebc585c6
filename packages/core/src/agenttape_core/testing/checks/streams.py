"""Checks of streams: the chunks that a reader gets, and the record of one that does not read to the end."""

from __future__ import annotations

from agenttape_core.errors import CassetteMissError
from agenttape_core.schema import Outcome
from agenttape_core.session import Session
from agenttape_core.testing.bench import QUESTION, Bench
from agenttape_core.testing.running import expect
from agenttape_core.testing.world import World


class StreamChecks(Bench):
    """The checks about streams."""

    def test_replayed_chunks_equal_the_recorded_ones(self) -> None:
        """A stream is replayed in the same number of chunks, each equal to the recorded one."""
        for shape in self.of_shapes("stream", "astream"):
            with self.record():
                live = self.ask(shape, self.subject(World()), QUESTION)
            with self.replay():
                served = self.ask(shape, self.subject(), QUESTION)
            expect(len(live) > 1, f"{shape}: a stream of several chunks arrived in {len(live)}")
            expect(len(live) == len(served), f"{shape}: recorded {len(live)} chunks, replayed {len(served)}")
            for number, (one, other) in enumerate(zip(live, served, strict=True), 1):
                expect(self.same(one, other), f"{shape}: chunk {number} was {one!r}, replayed {other!r}")

    def test_stream_closed_early(self) -> None:
        """A stream that its reader closes is recorded as that, the real one is closed, and more of it is a miss."""
        for shape in self.of_shapes("stream", "astream"):
            world = World()
            with self.record() as session:
                live = self.read(shape, self.subject(world), QUESTION, most=1)
            ended = _outcome(session).ended
            expect(ended == "closed", f"{shape}: a stream that was closed early was recorded as {ended}")
            expect(not world.open_streams, f"{shape}: the real stream was left open")
            with self.replay():
                served = self.read(shape, self.subject(), QUESTION, most=1)
            expect(self.text(live.chunks) == self.text(served.chunks), f"{shape}: recorded {live}, replayed {served}")
            with self.missing():
                more = self.read(shape, self.subject(), QUESTION)
            missed = isinstance(more.error, CassetteMissError)
            expect(missed, f"{shape}: reading on where the recorded reader stopped gave {more}, expected a miss")

    def test_stream_broken_midway(self) -> None:
        """A stream that breaks is replayed as that: the chunks before the error, then the error."""
        for shape in self.of_shapes("stream", "astream"):
            world = World()
            world.breaks = self.error()
            with self.record() as session:
                live = self.read(shape, self.subject(world), QUESTION)
            expect(live.chunks and live.error, f"{shape}: expected a chunk and then an error, found {live}")
            ended = _outcome(session).ended
            expect(ended == "raised", f"{shape}: a stream that broke was recorded as {ended}")
            with self.replay():
                served = self.read(shape, self.subject(), QUESTION)
            texts = self.text(live.chunks), self.text(served.chunks)
            expect(texts[0] == texts[1], f"{shape}: {texts[0]!r} came before the error, replayed {texts[1]!r}")
            errors = repr(live.error), repr(served.error)
            expect(errors[0] == errors[1], f"{shape}: the stream broke with {errors[0]}, replayed {errors[1]}")


def _outcome(session: Session) -> Outcome:
    outermost = [item.outcome for item in session.interactions if item.parent is None]
    expect(len(outermost) == 1, f"one stream was recorded as {len(outermost)} interactions")
    return outermost[0]

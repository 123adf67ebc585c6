"""Checks of answers and streams, and of how often the real call is made."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from agenttape_core.errors import CassetteMissError
from agenttape_core.schema import Outcome
from agenttape_core.session import Session
from agenttape_core.testing.bench import QUESTION, Bench, Shape
from agenttape_core.testing.running import expect
from agenttape_core.testing.world import World, gone


def replayed_answer_equals_the_recorded_one(suite: Bench) -> None:
    """An answer that is replayed has the value, the type and the ids of the one that was recorded."""
    for shape in suite.of_shapes("call", "acall"):
        with suite.record():
            live = suite.ask(shape, suite.subject(World()), QUESTION)
        with suite.replay():
            replayed = suite.ask(shape, suite.subject(), QUESTION)
        expect(type(live) is type(replayed), f"{shape}: recorded a {type(live)!r}, replayed a {type(replayed)!r}")
        expect(suite.same(live, replayed), f"{shape}: recorded {live!r}, replayed {replayed!r}")
        ids = list(suite.ids(live)), list(suite.ids(replayed))
        expect(ids[0] == ids[1], f"{shape}: recorded the ids {ids[0]}, replayed {ids[1]}")


def recording_makes_the_real_call_once(suite: Bench) -> None:
    """While recording, a call really happens, once, and its caller gets its result."""
    for shape in suite.shapes:
        world = World()
        with suite.record():
            live = suite.ask(shape, suite.subject(world), QUESTION)
        original = suite.ask(shape, suite.make(World()), QUESTION)
        expect(len(world.questions) == 1, f"{shape}: one call was really made {len(world.questions)} times")
        texts = suite.text(live), suite.text(original)
        expect(texts[0] == texts[1], f"{shape}: gave {texts[0]!r} while recording, expected {texts[1]!r}")
        expect(type(live) is type(original), f"{shape}: gave a {type(live)!r}, expected a {type(original)!r}")


def replay_never_makes_the_real_call(suite: Bench) -> None:
    """On replay the real thing is not touched, not even by a call whose result is thrown away."""
    for shape in suite.shapes:
        with suite.record():
            suite.ask(shape, suite.subject(World()), QUESTION)
        world = gone()
        with suite.replay():
            suite.ask(shape, suite.subject(world), QUESTION)
        expect(not world.trespasses, f"{shape}: the replay touched the real thing")


def one_call_is_one_interaction(suite: Bench) -> None:
    """A call is recorded once, even if its shapes are built on each other."""
    for shape in suite.shapes:
        with suite.record(auto=False) as session:
            suite.ask(shape, suite.subject(World()), QUESTION)
        found = [f"{item.kind} {item.name} at {item.address}" for item in session.interactions]
        expect(len(found) == 1, f"{shape}: one call was recorded as {len(found)} interactions: {found}")


def shapes_answer_each_other(suite: Bench) -> None:
    """A recording made in one shape answers every other shape."""
    for recorded in suite.shapes:
        with suite.record():
            live = suite.says(recorded, suite.subject(World()), QUESTION)
        for replayed in suite.shapes:
            with suite.replay():
                again = suite.says(replayed, suite.subject(), QUESTION)
            expect(live == again, f"{recorded} recorded {live!r}, {replayed} replayed {again!r}")


def replayed_objects_are_fresh(suite: Bench) -> None:
    """A change that a caller makes to a replayed answer changes no other answer."""
    for shape in suite.shapes:
        with suite.record():
            suite.ask(shape, suite.subject(World()), QUESTION)
        with suite.replay(on_repeat="last"):
            first, kept = _changed(suite, shape)
            second = suite.says(shape, suite.subject(), QUESTION)
        with suite.replay():
            third = suite.ask(shape, suite.subject(), QUESTION)
        expect(suite.text(first) != suite.text(kept), "the `change` hook leaves the text of an answer as it is")
        expect(second == suite.text(kept), f"{shape}: a changed answer was replayed again, as {second!r}")
        expect(_all_same(suite, kept, third), f"{shape}: a later replay returns the changed {third!r}")


def what_the_caller_changes_is_not_recorded(suite: Bench) -> None:
    """An answer is recorded as it came, whatever its caller does to it afterwards."""
    for shape in suite.shapes:
        world = World()
        with suite.record():
            if shape in {"stream", "astream"}:
                suite.read(shape, suite.subject(world), QUESTION, then=suite.change)
            else:
                suite.change(suite.ask(shape, suite.subject(world), QUESTION))
        with suite.replay():
            replayed = suite.says(shape, suite.subject(), QUESTION)
        expected = suite.says(shape, suite.make(World()), QUESTION)
        expect(replayed == expected, f"{shape}: replayed {replayed!r}, which its caller made of {expected!r}")


def raised_error_is_replayed(suite: Bench) -> None:
    """A call that raised raises the same on replay: of the same type, with its message and attributes."""
    for shape in suite.shapes:
        world = World()
        world.fails = suite.error()
        with suite.record():
            live = suite.refused(shape, suite.subject(world), QUESTION)
        expect(live is not None, f"{shape}: the error of the real thing did not reach its caller")
        with suite.replay():
            replayed = suite.refused(shape, suite.subject(), QUESTION)
        expect(_facts(live) == _facts(replayed), f"{shape}: raised {_facts(live)}, replayed {_facts(replayed)}")


def _changed(suite: Bench, shape: Shape) -> tuple[Any, Any]:
    replayed = suite.ask(shape, suite.subject(), QUESTION)
    kept = deepcopy(replayed)
    for item in replayed if shape in {"stream", "astream"} else [replayed]:
        suite.change(item)
    return replayed, kept


def _all_same(suite: Bench, first: Any, second: Any) -> bool:
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        return all(map(suite.same, first, second))
    return suite.same(first, second)


def _facts(error: BaseException | None) -> tuple[Any, ...]:
    return type(error), str(error), getattr(error, "args", ()), getattr(error, "__dict__", {})


def replayed_chunks_equal_the_recorded_ones(suite: Bench) -> None:
    """A stream is replayed in the same number of chunks, each equal to the recorded one."""
    for shape in suite.of_shapes("stream", "astream"):
        with suite.record():
            live = suite.ask(shape, suite.subject(World()), QUESTION)
        with suite.replay():
            replayed = suite.ask(shape, suite.subject(), QUESTION)
        expect(len(live) > 1, f"{shape}: a stream of several chunks arrived in {len(live)}")
        expect(len(live) == len(replayed), f"{shape}: recorded {len(live)} chunks, replayed {len(replayed)}")
        for number, (one, other) in enumerate(zip(live, replayed, strict=True), 1):
            expect(suite.same(one, other), f"{shape}: chunk {number} was {one!r}, replayed {other!r}")


def stream_closed_early(suite: Bench) -> None:
    """A stream that its reader closes is recorded as that, the real one is closed, and more of it is a miss."""
    for shape in suite.of_shapes("stream", "astream"):
        world = World()
        with suite.record() as session:
            live = suite.read(shape, suite.subject(world), QUESTION, most=1)
        ended = _outcome(session).ended
        expect(ended == "closed", f"{shape}: a stream that was closed early was recorded as {ended}")
        expect(not world.open_streams, f"{shape}: the real stream was left open")
        with suite.replay():
            replayed = suite.read(shape, suite.subject(), QUESTION, most=1)
        expect(suite.text(live.chunks) == suite.text(replayed.chunks), f"{shape}: recorded {live}, replayed {replayed}")
        with suite.missing():
            more = suite.read(shape, suite.subject(), QUESTION)
        missed = isinstance(more.error, CassetteMissError)
        expect(missed, f"{shape}: reading on where the recorded reader stopped gave {more}, expected a miss")


def stream_broken_midway(suite: Bench) -> None:
    """A stream that breaks is replayed as that: the chunks before the error, then the error."""
    for shape in suite.of_shapes("stream", "astream"):
        world = World()
        world.breaks = suite.error()
        with suite.record() as session:
            live = suite.read(shape, suite.subject(world), QUESTION)
        expect(live.chunks and live.error, f"{shape}: expected a chunk and then an error, found {live}")
        ended = _outcome(session).ended
        expect(ended == "raised", f"{shape}: a stream that broke was recorded as {ended}")
        with suite.replay():
            replayed = suite.read(shape, suite.subject(), QUESTION)
        texts = suite.text(live.chunks), suite.text(replayed.chunks)
        expect(texts[0] == texts[1], f"{shape}: {texts[0]!r} came before the error, replayed {texts[1]!r}")
        errors = repr(live.error), repr(replayed.error)
        expect(errors[0] == errors[1], f"{shape}: the stream broke with {errors[0]}, replayed {errors[1]}")


def _outcome(session: Session) -> Outcome:
    outermost = [item.outcome for item in session.interactions if item.parent is None]
    expect(len(outermost) == 1, f"one stream was recorded as {len(outermost)} interactions")
    return outermost[0]

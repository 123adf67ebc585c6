"""Checks of misses, and of the session that a call belongs to."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any
from unittest import SkipTest

from agenttape_core.errors import CassetteMissError, UnusedInteractionsError
from agenttape_core.testing.bench import OTHER, QUESTION, UNKNOWN, Bench, Shape, is_pure
from agenttape_core.testing.running import expect
from agenttape_core.testing.world import World, gone

INNER, OUTER = "inner.yaml", "outer.yaml"


def another_question_is_a_miss(suite: Bench) -> None:
    """A question that isn't in the cassette is not answered."""
    for shape in suite.shapes:
        _recorded(suite, shape)
        world = gone()
        with suite.missing():
            refused = suite.refused(shape, suite.subject(world), OTHER)
        expect(refused is not None, f"{shape}: a question was answered that was never recorded")
        expect(not world.trespasses, f"{shape}: a question that was never recorded was really asked")


def another_setup_is_a_miss(suite: Bench) -> None:
    """The same question to an object that is set up in another way is not answered."""
    if not suite.variants(gone()):
        raise SkipTest("has no `variants` hook")
    for shape in suite.shapes:
        _recorded(suite, shape)
        for number, variant in enumerate(suite.variants(gone())):
            with suite.missing():
                refused = suite.refused(shape, variant, QUESTION)
            expect(refused is not None, f"{shape}: variant {number} got the answer of another one's request")


def miss_passes_through_error_handlers(suite: Bench) -> None:
    """A miss is a `CassetteMissError`, and no retry, fallback or error handler turns it into something else."""
    for shape in suite.shapes:
        _recorded(suite, shape)
        for handled in (lambda subject: subject, *suite.handlers()):
            world = gone()
            with suite.missing():
                refused = suite.refused(shape, handled(suite.subject(world)), UNKNOWN)
            missed = isinstance(refused, CassetteMissError)
            expect(missed, f"{shape}: the miss became {refused!r}")
            expect(not world.trespasses, f"{shape}: the miss led to a real call")


def eaten_miss_fails_the_session(suite: Bench) -> None:
    """A miss that the code under test eats is raised again when the session ends."""
    for shape in suite.shapes:
        _recorded(suite, shape)
        try:
            with suite.replay(on_unused="ignore"):
                suite.refused(shape, suite.subject(), UNKNOWN)
        except CassetteMissError:
            continue
        raise AssertionError(f"{shape}: a session ended well although it held a miss")


def miss_explains_itself(suite: Bench) -> None:
    """The message of a miss has the name of the boundary and the cassette, and the differences."""
    for shape in suite.shapes:
        _recorded(suite, shape)
        with suite.missing() as session:
            message = str(suite.refused(shape, suite.subject(), UNKNOWN))
        recorded = session.interactions[0]
        for part in (recorded.kind, recorded.name, str(session.path), "differs"):
            expect(part in message, f"{shape}: the message of a miss does not say {part!r}:\n{message}")


def _recorded(suite: Bench, shape: Shape) -> None:
    with suite.record():
        suite.ask(shape, suite.subject(World()), QUESTION)


def outside_a_session_nothing_changes(suite: Bench) -> None:
    """Outside a session a taped object behaves like the original: the same answers and errors, the same calls."""
    for shape in suite.shapes:
        worlds = World(), World()
        subjects = suite.make(worlds[0]), suite.subject(worlds[1])
        with suite.record():  # after it, nothing of it may be left
            suite.ask(shape, suite.subject(World()), QUESTION)
        files = suite.files()
        answers = [suite.ask(shape, subject, QUESTION) for subject in subjects]
        texts = [suite.text(answer) for answer in answers]
        expect(texts[0] == texts[1], f"{shape}: the original says {texts[0]!r}, the taped one {texts[1]!r}")
        expect(type(answers[0]) is type(answers[1]), f"{shape}: answers are of the types {list(map(type, answers))}")
        for world in worlds:
            world.fails = suite.error()
        errors = [repr(suite.refused(shape, subject, QUESTION)) for subject in subjects]
        expect(errors[0] == errors[1], f"{shape}: the original raises {errors[0]}, the taped one {errors[1]}")
        expect(worlds[0].questions == worlds[1].questions, f"{shape}: the taped one made other real calls")
        expect(suite.files() == files, f"{shape}: a call was recorded after the session had ended")


def nested_sessions(suite: Bench) -> None:
    """A call belongs to the innermost session around it, and to the outer one again when that has ended."""
    for shape in suite.shapes:
        subject = suite.subject(World())
        with suite.record(OUTER):
            live = [suite.says(shape, subject, QUESTION)]
            with suite.record(INNER):
                live.append(suite.says(shape, subject, OTHER))
            live.append(suite.says(shape, subject, UNKNOWN))
        with suite.replay(OUTER):
            first, third = (suite.says(shape, suite.subject(), text) for text in (QUESTION, UNKNOWN))
        with suite.replay(INNER):
            second = suite.says(shape, suite.subject(), OTHER)
        expect(live == [first, second, third], f"{shape}: recorded {live}, replayed {[first, second, third]}")


def two_sessions_at_once(suite: Bench) -> None:
    """Two sessions that are open in parallel, in two threads or in two tasks, don't mix."""
    for shape in suite.shapes:
        at_once = _in_threads if shape in {"call", "stream"} else _in_tasks
        live = at_once(suite, shape)
        for name, text, answers in zip((OUTER, INNER), (QUESTION, OTHER), live, strict=True):
            with suite.replay(name):
                replayed = [suite.says(shape, suite.subject(), f"{text} {n}") for n in range(2)]
            expect(replayed == answers, f"{shape}: one of two sessions recorded {answers}, replayed {replayed}")


def unused_interactions_are_reported(suite: Bench) -> None:
    """A replay that does not ask for everything fails, but for embeddings; its report names the unused."""
    for shape in suite.shapes:
        subject = suite.subject(World())
        with suite.record() as recording:
            suite.ask(shape, subject, QUESTION)
            suite.ask(shape, subject, OTHER)
        failed = False
        try:
            with suite.replay() as session:
                suite.ask(shape, suite.subject(), QUESTION)
        except UnusedInteractionsError:
            failed = True
        if is_pure(recording):
            expect(not failed, f"{shape}: an embedding was never asked for, and the session failed")
        else:
            expect(failed, f"{shape}: a recording was never asked for, and the session ended well")
        unused = [call_record.number for call_record in session.report.unused]
        expect(unused, f"{shape}: a recording was never asked for, and the report names none")


def _in_threads(suite: Bench, shape: Shape) -> list[list[str]]:
    barrier = Barrier(2, timeout=suite.patience)

    def asked(name: str, text: str) -> list[str]:
        with suite.record(name):
            subject, answers = suite.subject(World()), []
            for n in range(2):
                barrier.wait()
                answers.append(suite.says(shape, subject, f"{text} {n}"))
            barrier.wait()
        return answers

    with ThreadPoolExecutor(2) as threads:
        return list(threads.map(asked, (OUTER, INNER), (QUESTION, OTHER)))


def _in_tasks(suite: Bench, shape: Shape) -> list[list[str]]:
    async def asked(name: str, text: str) -> list[str]:
        with suite.record(name):
            subject, answers = suite.subject(World()), []
            for n in range(2):
                await barrier.wait()
                answers.append(suite.text(await suite.aask(shape, subject, f"{text} {n}")))
            await barrier.wait()
        return answers

    async def both() -> list[list[str]]:
        return list(await asyncio.gather(asked(OUTER, QUESTION), asked(INNER, OTHER)))

    barrier = asyncio.Barrier(2)
    return asyncio.run(both())


def automatic_session_tapes_the_original(suite: Bench) -> None:
    """An automatic session records and replays an untaped object."""
    _need_ambience(suite)
    for shape in suite.shapes:
        with suite.record():
            live = suite.says(shape, suite.make(World()), QUESTION)
        with suite.replay():
            replayed = suite.says(shape, suite.make(gone()), QUESTION)
        expect(live == replayed, f"{shape}: recorded {live!r}, replayed {replayed!r}")


def without_ambience_only_the_taped_take_part(suite: Bench) -> None:
    """With `auto=False` an untaped object stays real, and is not recorded."""
    _need_ambience(suite)
    for shape in suite.shapes:
        with suite.record(auto=False):
            suite.ask(shape, suite.make(World()), QUESTION)
            live = suite.says(shape, suite.subject(World()), QUESTION)
        world = World()
        with suite.replay(auto=False):
            suite.ask(shape, suite.make(world), QUESTION)
            replayed = suite.says(shape, suite.subject(), QUESTION)
        expect(world.questions, f"{shape}: an object that nobody has taped was replayed with auto=False")
        expect(live == replayed, f"{shape}: recorded {live!r}, replayed {replayed!r}")


def taped_object_is_taped_once_in_an_automatic_session(suite: Bench) -> None:
    """An automatic session records a taped object no more often than another session does."""
    _need_ambience(suite)
    for shape in suite.shapes:
        numbers = []
        for automatic in (True, False):
            with suite.record(auto=automatic) as session:
                suite.ask(shape, suite.subject(World()), QUESTION)
            numbers.append(len(session.interactions))
        expect(numbers[0] == numbers[1], f"{shape}: {numbers[0]} interactions if automatic, {numbers[1]} if not")


def nothing_stays_patched(suite: Bench) -> None:
    """After the last session the patched classes and modules have the attributes that they had before."""
    _need_ambience(suite)
    patched = suite.patched()
    if not patched:
        raise SkipTest("patches nothing: there is no `patched` hook")
    before = [dict(vars(thing)) for thing in patched]
    with suite.record("outer.yaml"), suite.record("inner.yaml"):
        for shape in suite.shapes:
            suite.ask(shape, suite.make(World()), QUESTION)
    for thing, held in zip(patched, before, strict=True):
        changed = _changed(held, vars(thing))
        expect(not changed, f"{thing!r} keeps other attributes: {', '.join(changed)}")


def _need_ambience(suite: Bench) -> None:
    if suite.automatic() is None:
        raise SkipTest("is not automatic: there is no `automatic` hook")


def _changed(before: Any, after: Any) -> list[str]:
    absent = object()
    names = sorted({*before, *after})
    return [name for name in names if before.get(name, absent) is not after.get(name, absent)]

"""Checks of ambient integrations: objects that the user did not tape."""

from __future__ import annotations

from typing import Any
from unittest import SkipTest

from agenttape_core.testing.bench import QUESTION, Bench
from agenttape_core.testing.running import expect
from agenttape_core.testing.world import World, gone


class AmbienceChecks(Bench):
    """The checks of ambient integrations; skipped if there is none."""

    def _need_ambience(self) -> None:
        if self.ambient() is None:
            raise SkipTest("is not ambient: there is no `ambient` hook")

    def test_ambient_session_tapes_the_original(self) -> None:
        """An ambient session records and replays an untaped object."""
        self._need_ambience()
        for shape in self.shapes:
            with self.record():
                live = self.says(shape, self.make(World()), QUESTION)
            with self.replay():
                served = self.says(shape, self.make(gone()), QUESTION)
            expect(live == served, f"{shape}: recorded {live!r}, replayed {served!r}")

    def test_without_ambience_only_the_taped_take_part(self) -> None:
        """With `auto=False` an untaped object stays real, and is not recorded."""
        self._need_ambience()
        for shape in self.shapes:
            with self.record(auto=False):
                self.ask(shape, self.make(World()), QUESTION)
                live = self.says(shape, self.subject(World()), QUESTION)
            world = World()
            with self.replay(auto=False):
                self.ask(shape, self.make(world), QUESTION)
                served = self.says(shape, self.subject(), QUESTION)
            expect(world.questions, f"{shape}: an object that nobody has taped was served with auto=False")
            expect(live == served, f"{shape}: recorded {live!r}, replayed {served!r}")

    def test_taped_object_is_taped_once_in_an_ambient_session(self) -> None:
        """An ambient session records a taped object no more often than another session does."""
        self._need_ambience()
        for shape in self.shapes:
            numbers = []
            for ambient in (True, False):
                with self.record(auto=ambient) as session:
                    self.ask(shape, self.subject(World()), QUESTION)
                numbers.append(len(session.interactions))
            expect(numbers[0] == numbers[1], f"{shape}: {numbers[0]} interactions if ambient, {numbers[1]} if not")

    def test_nothing_stays_patched(self) -> None:
        """After the last session the patched classes and modules have the attributes that they had before."""
        self._need_ambience()
        patched = self.patched()
        if not patched:
            raise SkipTest("patches nothing: there is no `patched` hook")
        before = [dict(vars(thing)) for thing in patched]
        with self.record("outer.yaml"), self.record("inner.yaml"):
            for shape in self.shapes:
                self.ask(shape, self.make(World()), QUESTION)
        for thing, held in zip(patched, before, strict=True):
            changed = _changed(held, vars(thing))
            expect(not changed, f"{thing!r} keeps other attributes: {', '.join(changed)}")


def _changed(before: Any, after: Any) -> list[str]:
    absent = object()
    names = sorted({*before, *after})
    return [name for name in names if before.get(name, absent) is not after.get(name, absent)]

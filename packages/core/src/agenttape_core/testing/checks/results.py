"""Checks of the results of calls, and of how often they are really made."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from agenttape_core.testing.bench import QUESTION, Bench
from agenttape_core.testing.hooks import Shape
from agenttape_core.testing.running import expect
from agenttape_core.testing.world import World, gone


class ResultChecks(Bench):
    """The checks about results."""

    def test_replayed_answer_equals_the_recorded_one(self) -> None:
        """An answer that is replayed has the value, the type and the ids of the one that was recorded."""
        for shape in self.of_shapes("call", "acall"):
            with self.record():
                live = self.ask(shape, self.subject(World()), QUESTION)
            with self.replay():
                served = self.ask(shape, self.subject(), QUESTION)
            expect(type(live) is type(served), f"{shape}: recorded a {type(live)!r}, replayed a {type(served)!r}")
            expect(self.same(live, served), f"{shape}: recorded {live!r}, replayed {served!r}")
            ids = list(self.ids(live)), list(self.ids(served))
            expect(ids[0] == ids[1], f"{shape}: recorded the ids {ids[0]}, replayed {ids[1]}")

    def test_recording_makes_the_real_call_once(self) -> None:
        """While recording, a call really happens, once, and its caller gets its result."""
        for shape in self.shapes:
            world = World()
            with self.record():
                live = self.ask(shape, self.subject(world), QUESTION)
            original = self.ask(shape, self.make(World()), QUESTION)
            expect(len(world.questions) == 1, f"{shape}: one call was really made {len(world.questions)} times")
            texts = self.text(live), self.text(original)
            expect(texts[0] == texts[1], f"{shape}: gave {texts[0]!r} while recording, expected {texts[1]!r}")
            expect(type(live) is type(original), f"{shape}: gave a {type(live)!r}, expected a {type(original)!r}")

    def test_replay_never_makes_the_real_call(self) -> None:
        """On replay the real thing is not touched, not even by a call whose result is thrown away."""
        for shape in self.shapes:
            with self.record():
                self.ask(shape, self.subject(World()), QUESTION)
            world = gone()
            with self.replay():
                self.ask(shape, self.subject(world), QUESTION)
            expect(not world.trespasses, f"{shape}: the replay touched the real thing")

    def test_one_call_is_one_interaction(self) -> None:
        """A call is recorded once, even if its shapes are built on each other."""
        for shape in self.shapes:
            with self.record(auto=False) as session:
                self.ask(shape, self.subject(World()), QUESTION)
            found = [f"{item.kind} {item.name} at {item.address}" for item in session.interactions]
            expect(len(found) == 1, f"{shape}: one call was recorded as {len(found)} interactions: {found}")

    def test_shapes_serve_each_other(self) -> None:
        """A recording made in one shape is served to every other shape."""
        for recorded in self.shapes:
            with self.record():
                live = self.says(recorded, self.subject(World()), QUESTION)
            for replayed in self.shapes:
                with self.replay():
                    served = self.says(replayed, self.subject(), QUESTION)
                expect(live == served, f"{recorded} recorded {live!r}, {replayed} replayed {served!r}")

    def test_served_objects_are_fresh(self) -> None:
        """A change that a caller makes to a served answer changes no other answer."""
        for shape in self.shapes:
            with self.record():
                self.ask(shape, self.subject(World()), QUESTION)
            with self.replay(on_repeat="last"):
                first, kept = self._changed(shape)
                second = self.says(shape, self.subject(), QUESTION)
            with self.replay():
                third = self.ask(shape, self.subject(), QUESTION)
            expect(self.text(first) != self.text(kept), "the `change` hook leaves the text of an answer as it is")
            expect(second == self.text(kept), f"{shape}: a changed answer was served again, as {second!r}")
            expect(_all_same(self, kept, third), f"{shape}: a later replay serves the changed {third!r}")

    def _changed(self, shape: Shape) -> tuple[Any, Any]:
        served = self.ask(shape, self.subject(), QUESTION)
        kept = deepcopy(served)
        for item in served if shape in {"stream", "astream"} else [served]:
            self.change(item)
        return served, kept

    def test_what_the_caller_changes_is_not_recorded(self) -> None:
        """An answer is recorded as it came, whatever its caller does to it afterwards."""
        for shape in self.shapes:
            world = World()
            with self.record():
                if shape in {"stream", "astream"}:
                    self.read(shape, self.subject(world), QUESTION, then=self.change)
                else:
                    self.change(self.ask(shape, self.subject(world), QUESTION))
            with self.replay():
                served = self.says(shape, self.subject(), QUESTION)
            expected = self.says(shape, self.make(World()), QUESTION)
            expect(served == expected, f"{shape}: replayed {served!r}, which its caller made of {expected!r}")

    def test_raised_error_is_replayed(self) -> None:
        """A call that raised raises the same on replay: of the same type, with its message and attributes."""
        for shape in self.shapes:
            world = World()
            world.fails = self.error()
            with self.record():
                live = self.refused(shape, self.subject(world), QUESTION)
            expect(live is not None, f"{shape}: the error of the real thing did not reach its caller")
            with self.replay():
                served = self.refused(shape, self.subject(), QUESTION)
            expect(_facts(live) == _facts(served), f"{shape}: raised {_facts(live)}, replayed {_facts(served)}")


def _all_same(bench: Bench, first: Any, second: Any) -> bool:
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        return all(map(bench.same, first, second))
    return bench.same(first, second)


def _facts(error: BaseException | None) -> tuple[Any, ...]:
    return type(error), str(error), getattr(error, "args", ()), getattr(error, "__dict__", {})

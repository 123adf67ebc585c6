"""Checks of the content of cassettes."""

from __future__ import annotations

from hashlib import sha256
from typing import Any
from unittest import SkipTest

from agenttape_core.schema import KINDS, Interaction
from agenttape_core.storage.stable import stable_text
from agenttape_core.testing.bench import CASSETTE, OTHER, QUESTION
from agenttape_core.testing.checks.sequences import BACKWARDS, FORWARDS, Crowd
from agenttape_core.testing.running import expect
from agenttape_core.testing.world import World

ASKED, SAID = (f"sk-proj-{sha256(text.encode()).hexdigest()[:40]}" for text in ("asked", "said"))
"""Secrets of a form that every redaction detects."""
THIS_RUN, OTHER_RUN = "6f0a3b52-4c1d-4e8a-9d27-1b5c8e0f7a34", "c2d94e71-8b3f-4a60-b5e9-70d1f6a2c85b"
"""Ids that belong to a run."""


class FileChecks(Crowd):
    """The checks about cassettes."""

    def test_interactions_are_well_formed(self) -> None:
        """Each interaction has a kind of the glossary, a name, an address and a request."""
        for shape in self.shapes:
            with self.record() as session:
                self.ask(shape, self.subject(World()), QUESTION)
            for item in session.interactions:
                expect(item.kind in KINDS, f"{shape}: {item.kind!r} isn't a kind; the kinds are {sorted(KINDS)}")
                for field in ("name", "address", "request"):
                    expect(getattr(item, field), f"{shape}: the {field} of an interaction is empty")

    def test_secrets_stay_out_of_the_files(self) -> None:
        """Secrets in a question and in an answer reach no file, and the replay still finds its recording."""
        text = f"what is {ASKED} for?"
        for shape in self.shapes:
            with self.record():
                live = self.says(shape, self.subject(World(_telling)), text)
            expect(SAID in live, f"{shape}: the recording changed the answer to {live!r}")
            for name, content in self.files().items():
                found = [secret for secret in (ASKED, SAID) if secret.encode() in content]
                expect(not found, f"{shape}: {len(found)} secrets stand in {name}")
            with self.replay():
                served = self.says(shape, self.subject(), text)
            expect(SAID not in served, f"{shape}: the secret of the answer was recorded in pieces")
            expect(ASKED in served, f"{shape}: the secret of the question is missing in the answer {served!r}")

    def test_ids_of_the_run_are_mapped(self) -> None:
        """A question with an id of this run finds its recording, and the answer has the id of this run."""
        for shape in self.shapes:
            with self.record():
                live = self.says(shape, self.subject(World()), f"what of {THIS_RUN}?")
            with self.replay():
                served = self.says(shape, self.subject(), f"what of {OTHER_RUN}?")
            expected = live.replace(THIS_RUN, OTHER_RUN)
            expect(served == expected, f"{shape}: replayed {served!r}, expected {expected!r}")

    def test_recording_again_changes_nothing(self) -> None:
        """Recording the same again only changes the volatile block of the header."""
        texts = []
        for _ in range(2):
            with self.record():
                self._ask_everything()
            texts.append(stable_text(self.folder / CASSETTE))
        expect(texts[0] == texts[1], f"two recordings of the same differ: {_first_difference(*texts)}")

    def _ask_everything(self) -> None:
        for shape in self.shapes:
            world = World()
            subject = self.subject(world)
            for text in (QUESTION, OTHER, QUESTION):
                self.ask(shape, subject, text)
            if shape in {"stream", "astream"}:
                self.read(shape, subject, OTHER, most=1)
            world.fails = self.error()
            self.refused(shape, subject, QUESTION)

    def test_order_of_completion_changes_nothing(self) -> None:
        """Parallel calls are recorded in the same order, whichever of them ends first."""
        for shape in self.shapes:
            ask = self.ask_in_threads if shape in {"call", "stream"} else self.ask_in_tasks
            texts = []
            for order in (FORWARDS, BACKWARDS):
                with self.record():
                    ask(shape, World(), order)
                texts.append(stable_text(self.folder / CASSETTE))
            expect(texts[0] == texts[1], f"{shape}: the file depends on which ends first: {_first_difference(*texts)}")

    def test_both_layouts_hold_the_same(self) -> None:
        """A cassette of JSON lines holds and serves the same as one of YAML."""
        for shape in self.shapes:
            held: list[Any] = []
            for name in ("yaml/cassette.yaml", "jsonl/cassette.jsonl"):
                with self.record(name) as session:
                    live = self.says(shape, self.subject(World()), QUESTION)
                with self.replay(name):
                    served = self.says(shape, self.subject(), QUESTION)
                expect(live == served, f"{shape}: {name} recorded {live!r} and replayed {served!r}")
                held.append([item.model_dump() for item in session.interactions])
            expect(held[0] == held[1], f"{shape}: YAML holds {held[0]}, JSON lines hold {held[1]}")

    def test_usage_is_recorded(self) -> None:
        """The token counts of an answer are recorded."""
        for shape in self.shapes:
            with self.record() as session:
                live = self.says(shape, self.subject(World()), QUESTION)
            expected = self.usage(live)
            if expected is None:
                raise SkipTest("counts no tokens: there is no `usage` hook")
            found = _outermost(session.interactions).outcome.usage
            expect(found == expected, f"{shape}: the recorded usage is {found!r}, expected {expected!r}")


def _telling(question: str, number: int) -> str:
    return f"answer {number} to {question} is {SAID}, keep it"


def _outermost(interactions: list[Interaction]) -> Interaction:
    return next(item for item in interactions if item.parent is None)


def _first_difference(one: str, other: str) -> str:
    pairs = zip(one.splitlines(), other.splitlines(), strict=False)
    found = next(((a, b) for a, b in pairs if a != b), ("the end", "more"))
    return f"{found[0]!r} against {found[1]!r}"

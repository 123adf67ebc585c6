"""Ask the model of a call again, with messages of its request left out, to find those that turn its answer."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from agenttape_core.errors import BudgetExceededError, VerificationError, shown_path
from agenttape_core.schema import Interaction, Outcome
from agenttape_core.session import only_at
from agenttape_core.tools.budget import Budget
from agenttape_core.tools.minimise.ddmin import ddmin
from agenttape_core.tools.programs import Opening, Program
from agenttape_core.tools.reading.answer import Answer
from agenttape_core.tools.why.asking import Asking, Place, Unit, parts_of, shown
from agenttape_core.tools.why.perturbing import holds
from agenttape_core.tools.why.sampled import Sampled, Share, Turned

SEED = 7
_OPTIONS: Mapping[str, object] = {"match_on": ("exact", "request", "address"), "on_miss": "raise"}
"""Beyond the answer of the model, nothing of the run matters."""
_EXCERPT = 60

Says = Callable[[Outcome], bool]


class _SpentError(Exception):
    """No more calls may be made; the message says why."""


class Asker:
    """Asks the model of one call, in a replay of its program in which all other calls are served.

    Args:
        program: The program.
        cassette: Its cassette.
        call: The call.
        says: Returns whether an answer is as in question.
        most: The most calls.
        scrap: A file for the runs, which are not kept.
        on_call: Called after each call.
    """

    def __init__(
        self,
        program: Program,
        cassette: Path,
        call: Interaction,
        *,
        says: Says,
        most: int,
        scrap: Path,
        on_call: Callable[[], object],
    ) -> None:
        self._program = program
        self._cassette = cassette
        self._call = call
        self._says = says
        self._most = most
        self._scrap = scrap
        self._on_call = on_call
        self.calls = 0
        """The number of calls so far."""
        self.texts: Mapping[Place, Sequence[str]] = {}
        """The texts of the messages of the request; known once the model was asked."""
        self.redact: Callable[[str], str] = str
        """Hides the secrets in a text."""

    def asks(self, left_out: Collection[Unit]) -> bool:
        """Ask it once, and return whether the answer is as in question. One that it refuses is not.

        Raises:
            VerificationError: If the program does not come to the call.
        """
        if self.calls >= self._most:
            raise _SpentError(f"{self._most} replays were allowed: not searched to the end")
        asking = Asking(left_out)
        candidate = only_at(self._call.address, asking)
        opening = Opening(self._cassette, _OPTIONS, write_to=self._scrap, keeps=False, candidate=candidate)
        ending = self._program.run(opening)
        answer = next((one for one in ending.session.executed() if one.address == self._call.address), None)
        if isinstance(ending.session.failure, BudgetExceededError):
            raise _SpentError("the limit of the cost was reached: not searched to the end")
        if answer is None:
            why = ending.left or ending.failure or "the call was not made"
            raise VerificationError(f"{self._program.name}: the model of call {self._call.number} is not asked: {why}")
        self.calls += 1
        self._on_call()
        if not left_out:
            self.texts, self.redact = asking.seen, asking.redact
            self._refuse_failing(answer.outcome)
        return answer.outcome.error is None and self._says(answer.outcome)

    def _refuse_failing(self, outcome: Outcome) -> None:
        if outcome.error is not None:
            raise VerificationError(
                f"{self._program.name}: the model of call {self._call.number} of {shown_path(self._cassette)} cannot "
                f"be asked: {outcome.error.type}: {outcome.error.message}\n  set its key, and let it be reached"
            )


class _Samples:
    """The answers to each request that was tried.

    Args:
        asker: Asks.
        count: The samples of each request.
    """

    def __init__(self, asker: Asker, count: int) -> None:
        self._asker = asker
        self._count = count
        self._known: dict[frozenset[Unit], list[bool]] = {}

    def share(self, left_out: Collection[Unit]) -> Share:
        """Return the share of answers as in question, of all samples."""
        answers = self._known.setdefault(frozenset(left_out), [])
        while len(answers) < self._count:
            answers.append(self._asker.asks(left_out))
        return Share(sum(answers), len(answers))

    def mostly(self, left_out: Collection[Unit]) -> bool:
        """Return whether more than half of the answers are as in question; no more are asked for than decide that."""
        answers = self._known.setdefault(frozenset(left_out), [])
        half = self._count / 2
        while len(answers) < self._count and not (sum(answers) > half or answers.count(False) >= half):
            answers.append(self._asker.asks(left_out))
        return sum(answers) > half

    def so_far(self, left_out: Collection[Unit]) -> Share:
        """Return the share of those that were asked for."""
        answers = self._known.get(frozenset(left_out), [])
        return Share(sum(answers), len(answers))


def sampled(asker: Asker, question: str, *, samples: int, budget: Budget, seed: int) -> Sampled:
    """Find the messages of a request with which its model answers as it did, and say how sure that is.

    Args:
        asker: Asks the model.
        question: The answer in question, in words.
        samples: The samples of each request.
        budget: The limit of the cost.
        seed: Of the order in which messages are left out: of several that are enough, another seed may find another.

    Raises:
        VerificationError: If the model cannot be asked, or the program does not come to the call.
    """
    found = _Samples(asker, samples)
    turned: list[Turned] = []
    with budget.held():
        before = budget.spent
        everything: list[Unit] = []
        try:
            whole = found.share([])
            everything = [Unit(place) for place in asker.texts]
            random.Random(seed).shuffle(everything)  # noqa: S311 - no secret
            nothing = found.share(everything)
            note = _inconclusive(whole, nothing, everything)
            if not note:
                for one in _turned(found, asker.texts, everything):
                    turned.append(replace(one, text=_excerpt(asker.redact(one.text))))  # noqa: PERF401 - it may end early
        except _SpentError as error:
            note = str(error)
        return Sampled(
            question=question,
            whole=found.so_far([]),
            nothing=found.so_far(everything) if everything else Share(0, 0),
            turned=tuple(turned),
            calls=asker.calls,
            dollars=budget.spent - before,
            seed=seed,
            note=note,
        )


def _inconclusive(whole: Share, nothing: Share, everything: Sequence[Unit]) -> str:
    """Return why no message can have turned the answer; empty if one can."""
    if not everything:
        return "there is no text in the request"
    if whole.said <= whole.of / 2:
        return "the model seldom answers so again, so nothing can be told by leaving something out"
    if nothing.said > nothing.of / 2:
        return "the model answers so by itself, whatever it is asked"
    return ""


def _turned(found: _Samples, texts: Mapping[Place, Sequence[str]], everything: Sequence[Unit]) -> Iterator[Turned]:
    """Yield the messages, and the parts of long ones, with which the model answers as in question."""

    def left(kept: Collection[Unit]) -> list[Unit]:
        return [unit for unit in everything if unit not in kept]

    messages = sorted(ddmin(everything, lambda kept: found.mostly(left(kept))), key=_in_request)
    enough = left(messages)
    for unit in messages:
        yield _told(found, unit, " ".join(texts[unit.place]), enough)
    for unit in messages:
        pieces = parts_of(texts[unit.place], is_all=len(everything) == 1)
        parts = [Unit(unit.place, number) for number in range(len(pieces))]

        def without(kept: Collection[Unit], parts: Sequence[Unit] = parts) -> list[Unit]:
            return [*enough, *(part for part in parts if part not in kept)]

        kept = ddmin(parts, lambda kept, without=without: found.mostly(without(kept))) if parts else []  # type: ignore[misc]
        for part in kept:
            yield _told(found, part, pieces[part.part or 0], without(kept))


def _told(found: _Samples, unit: Unit, text: str, enough: Collection[Unit]) -> Turned:
    return Turned(shown(unit.place), text, unit.part is not None, found.share(enough), found.share([unit]))


def _excerpt(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _EXCERPT else f"{words[:_EXCERPT]}…"


def _in_request(unit: Unit) -> list[tuple[bool, int, str]]:
    return [(isinstance(step, str), step if isinstance(step, int) else 0, str(step)) for step in unit.place]


def question_of(outcome: Outcome, text: str | None) -> tuple[str, Says]:
    """Return the answer in question in words, and what tells whether another answer is such a one.

    Args:
        outcome: The recorded answer.
        text: The text in question; `None` for the answer as a whole.
    """
    if text is not None:
        return f"{text!r} stands", lambda other: holds(other, text)
    recorded = Answer(outcome)
    if recorded.tool_calls:
        asked = [(call.name, call.args) for call in recorded.tool_calls]
        return (
            "the same tools are called",
            lambda other: [(call.name, call.args) for call in Answer(other).tool_calls] == asked,
        )
    said = _bare(recorded.text) or outcome.value
    return "the recorded answer comes", lambda other: (_bare(Answer(other).text) or other.value) == said


def _bare(text: str) -> str:
    return " ".join(text.split()).casefold()

"""Why a call has no recording: the nearest one, and only what differs from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from agenttape_core.matching.difference import Difference, differences, likeness
from agenttape_core.matching.fingerprint import Question
from agenttape_core.matching.ignored_paths import NOTHING, Ignored
from agenttape_core.schema import Plain

_MAX_CANDIDATES = 200
_MAX_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Candidate:
    """A recording that might have been meant."""

    number: int
    kind: str
    name: str
    address: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Nearest:
    """The recording that comes closest to a call.

    Args:
        candidate: The recording.
        why: In which respect it is near.
        same: Whether it has the fingerprint of the call.
        found: Where it differs from what was asked.
    """

    candidate: Candidate
    why: str
    same: bool
    found: Sequence[Difference]

    def lines(self) -> list[str]:
        """Return the explanation, a line each."""
        lines = [f"nearest   interaction {self.candidate.number} at {self.candidate.address}: {self.why}"]
        if not self.found and self.same:
            return [*lines, "differs   in nothing: every recording of this request is already used"]
        if not self.found:
            return [
                *lines,
                "differs   in nothing, but its fingerprint is of another request: the file was edited by hand",
            ]
        for difference in self.found[:_MAX_SHOWN]:
            lines += [
                f"differs   {difference.path}",
                f"          recorded  {difference.recorded}",
                f"          asked     {difference.asked}",
            ]
        if len(self.found) > _MAX_SHOWN:
            lines.append(f"          … and {len(self.found) - _MAX_SHOWN} more places")
        return lines


def nearest(
    question: Question,
    address: str,
    candidates: Iterable[Candidate],
    request: Callable[[int], Plain],
    ignored: Ignored = NOTHING,
) -> Nearest | None:
    """Return the recording nearest to a call: by address first, then by content.

    Args:
        question: What was asked.
        address: Where it was asked.
        candidates: The recordings.
        request: Reads the recorded request of a number.
        ignored: What is left out of the comparison.
    """

    def recorded(number: int) -> Plain:
        return ignored.stripped(request(number))

    same_kind = [candidate for candidate in candidates if candidate.kind == question.kind]
    asked = ignored.stripped(question.body)
    for candidate in same_kind:
        if candidate.address == address and candidate.fingerprint != question.fingerprint:
            return _compared(candidate, "the same place in the run", recorded, question, asked)
    for candidate in same_kind:
        if candidate.fingerprint == question.fingerprint:
            return _compared(candidate, "the same request", recorded, question, asked)
    named = [candidate for candidate in same_kind if candidate.name == question.name] or same_kind
    if not named:
        return None
    best = max(named[:_MAX_CANDIDATES], key=lambda candidate: likeness(recorded(candidate.number), asked))
    return _compared(best, "the most similar request", recorded, question, asked)


def _compared(
    candidate: Candidate, why: str, recorded: Callable[[int], Plain], question: Question, asked: Plain
) -> Nearest:
    found = tuple(differences(recorded(candidate.number), asked))
    return Nearest(candidate, why, same=candidate.fingerprint == question.fingerprint, found=found)

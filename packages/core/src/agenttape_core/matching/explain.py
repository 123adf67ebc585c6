"""Why a call has no recording: the nearest one, and only what differs from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from agenttape_core.matching.canonical import Question
from agenttape_core.matching.difference import Difference, differences, likeness
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
    question: Question, address: str, candidates: Iterable[Candidate], request: Callable[[int], Plain]
) -> Nearest | None:
    """Return the recording nearest to a call: by address first, then by content.

    Args:
        question: What was asked.
        address: Where it was asked.
        candidates: The recordings.
        request: Reads the recorded request of a number.
    """
    same_kind = [candidate for candidate in candidates if candidate.kind == question.kind]
    asked = question.body
    for candidate in same_kind:
        if candidate.address == address and candidate.fingerprint != question.fingerprint:
            return _compared(candidate, "the same place in the run", request, question)
    for candidate in same_kind:
        if candidate.fingerprint == question.fingerprint:
            return _compared(candidate, "the same request", request, question)
    named = [candidate for candidate in same_kind if candidate.name == question.name] or same_kind
    if not named:
        return None
    best = max(named[:_MAX_CANDIDATES], key=lambda candidate: likeness(request(candidate.number), asked))
    return _compared(best, "the most similar request", request, question)


def _compared(candidate: Candidate, why: str, request: Callable[[int], Plain], question: Question) -> Nearest:
    found = tuple(differences(request(candidate.number), question.body))
    return Nearest(candidate, why, same=candidate.fingerprint == question.fingerprint, found=found)

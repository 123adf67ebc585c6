"""The verdict on one cell: what came of a run in which one call failed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agenttape_core.session import Report

Verdict = Literal["recovered", "silent", "raised", "asks", "assertion", "did not land"]
"""The end of a run in which one call failed: it *recovered* and did what it did before; it ended well, but otherwise
(*silent*); it *raised*; it *asks* something that nobody recorded; an *assertion* of the test failed; or the fault did
not land, so that the run shows nothing."""

MARKS: dict[Verdict, str] = {
    "recovered": "ok",
    "silent": "SILENT",
    "raised": "raised",
    "asks": "asks",
    "assertion": "assert",
    "did not land": "?",
}
"""The verdicts as the matrix shows them."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a run in which one call failed.

    Args:
        report: The report of its session; `None` if it never opened the cassette.
        number: The number of the call.
        how: Whether it passed, raised, or failed by an assertion.
        words: The first line of the error.
        is_same: Whether it returned what it returned without a fault; `None` if that is not known, as of a test.
    """

    report: Report | None
    number: int
    how: Literal["passed", "raised", "assertion"]
    words: str = ""
    is_same: bool | None = None


def how_it_ended(error: BaseException) -> Literal["raised", "assertion"]:
    """Return how a run ended that raised."""
    return "assertion" if isinstance(error, AssertionError) else "raised"


def first_line(error: BaseException | None) -> str:
    """Return the class and the first line of an error; empty if there is none."""
    return f"{type(error).__name__}: {error}".partition("\n")[0] if error is not None else ""


def verdict_of(ended: Ended) -> Verdict:
    """Return the verdict on a cell."""
    report = ended.report
    if report is None or not any(one.number == ended.number for one in report.landed):
        return "did not land"
    if report.missed or report.drift:
        return "asks"
    if ended.how != "passed":
        return ended.how
    if ended.is_same is False or report.departed or report.judged:
        return "silent"
    # The recorded answer came in a further attempt, or its want changed nothing that the run returned.
    answers = [one for one in report.served if one.number == ended.number]
    return "recovered" if len(answers) > _landings(report, ended.number) or ended.is_same else "silent"


def _landings(report: Report, number: int) -> int:
    return sum(one.number == number for one in report.landed)


def words_of(ended: Ended, verdict: Verdict) -> str:
    """Return in a few words why the verdict is what it is."""
    report = ended.report
    if report is None or verdict == "did not land":
        return "the run did not make the call again"
    if verdict == "asks":
        departed = next((one for one in report.departed if one.what != "moved"), None)
        return f"asks {departed.kind} {departed.name} at {departed.address} something new" if departed else ""
    if verdict == "silent":
        left = len(report.judged)
        return f"ended well, and {left} recorded calls were not made" if left else "ended well with another answer"
    return ended.words

"""The reasons why an edited answer was never given: the run did not ask for it."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from agenttape_core import Interaction
from agenttape_core.integration.cassettes import project_settings, why_not_run
from agenttape_langgraph.time_travel.recorded_run import RecordedRun


def never_asked(run: RecordedRun, numbers: Collection[int]) -> str:
    """Return why a run did not depart from its recording, although calls have other answers.

    Args:
        run: The recorded run.
        numbers: The interactions with other answers, none of which the run asked for.
    """
    reasons = (f"interaction {number}, {_named(run, number)}: {_reason(run, number)}" for number in sorted(numbers))
    return "\n  ".join(["answers=...: the run departed nowhere, as it asked for none of these calls", *reasons])


def _named(run: RecordedRun, number: int) -> str:
    item = run.cassette.interaction(number)
    return f"{item.kind} {item.name} at {item.address}"


def _reason(run: RecordedRun, number: int) -> str:
    if run.cassette.interaction(number).address.partition("/")[0] not in run.plan.roots:
        return f"it belongs to no invocation of thread {run.plan.thread_id!r}"
    for around in _around(run, number):
        if not _runs_through(around):
            why = "frozen" if _is_frozen(around) else why_not_run(around.acts)
            where = f"it lies inside {around.kind} {around.name}, interaction {around.number}"
            remedy = f"give that call another answer: answers={{{around.number}: ...}}"
            return f"{where}, which was served and not run ({why})\n    {remedy}"
    return "the graph does not make this call any more, or it is made inside a call that has another answer"


def _around(run: RecordedRun, number: int) -> Iterator[Interaction]:
    """Yield the calls that an interaction lies inside, the innermost first."""
    parent = run.cassette.interaction(number).parent
    while parent is not None:
        around = run.cassette.interaction(parent)
        yield around
        parent = around.parent if around.parent is not None and around.parent < parent else None


def _runs_through(item: Interaction) -> bool:
    through = set(project_settings().through or ())
    named = not {item.kind, item.name}.isdisjoint(through)
    return not _is_frozen(item) and (named or (item.kind == "tool" and item.acts == []))


def _is_frozen(item: Interaction) -> bool:
    return not {item.kind, item.name}.isdisjoint(project_settings().frozen)

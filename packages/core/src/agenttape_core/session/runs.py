"""The run of a session so far: its recordings, its events, and the recordings it never used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agenttape_core.errors import UnusedInteractionsError, shown_path
from agenttape_core.matching import Order
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import Interaction, Outcome, Step, Timing
from agenttape_core.session.boundary import Boundary
from agenttape_core.session.id_mapping import as_asked
from agenttape_core.session.miss import unused_explanation
from agenttape_core.session.session import Session
from agenttape_core.session.sources import held

# -- what is recorded ----------------------------------------------------------------------------------------------


def fingerprint(session: Session, boundary: Boundary, body: Mapping[str, Any]) -> str:
    """Return the fingerprint that a request has in a session."""
    return session.canonical.request(boundary.kind, "", body).fingerprint


def times_recorded(session: Session, boundary: Boundary, body: Mapping[str, Any]) -> int:
    """Return how often a request was recorded, whether or not its recordings are used already."""
    return len(session.recordings.index.numbers(fingerprint(session, boundary, body)))


def times_left(session: Session, boundary: Boundary, body: Mapping[str, Any]) -> int:
    """Return how many recordings of a request are not used yet."""
    return session.recordings.index.left(fingerprint(session, boundary, body))


def outcomes_of(session: Session, boundary: Boundary, body: Mapping[str, Any]) -> list[Outcome]:
    """Return the recorded outcomes of a request, in order.

    Raises:
        CassetteError: If one of them cannot be read.
    """
    numbers = session.recordings.index.numbers(fingerprint(session, boundary, body))
    return [session.source.outcome(number) for number in numbers]


# -- this run ------------------------------------------------------------------------------------------------------


class Taken(NamedTuple):
    """An interaction or a step of a run."""

    order: Order  # its place
    record: Interaction | Step
    timing: Timing | None = None  # the times of an interaction, as far as they're known
    is_replayed: bool = False  # whether its number refers to a recording


def taken(session: Session) -> list[Taken]:
    """Return the interactions of a run so far, replayed and executed ones, and its watched steps, in its order."""
    replayed = [
        Taken(order, interaction_now(session, number), session.recordings.timing_of(number), is_replayed=True)
        for number, order in list(session.ledger.replayed_at.items())
    ]
    kept = [Taken(*each) for each in session.ledger.kept()]
    steps = [Taken(*each) for each in session.ledger.watched()]
    return sorted([*kept, *replayed, *steps], key=lambda each: each.order)


def happened(session: Session) -> list[Interaction]:
    """Return the interactions of a run so far, replayed and executed ones, in its order."""
    return [each.record for each in taken(session) if isinstance(each.record, Interaction)]


def interaction_now(session: Session, number: int) -> Interaction:
    """Return a recorded interaction; if it was stepped into with another outcome, with that outcome."""
    return session.ledger.again.get(number) or session.source.interaction(number)


def interaction_kept(session: Session, number: int) -> Interaction:
    """Return a recorded interaction in the form that a run writes: with the ids of its present request."""
    asked = session.ledger.asked.get(number)
    item = interaction_now(session, number)
    if asked is None or number in session.ledger.again:
        return item
    item = as_asked(item, asked, session.setup.ignored)
    if asked.is_same or not session.setup.notes_divergences:
        return item
    # After a changed answer, it has answered another request, which a replay of what is derived makes again.
    return item.model_copy(update={"request": asked.request.body, "fingerprint": asked.request.fingerprint})


# -- what was asked for --------------------------------------------------------------------------------------------


def used_numbers(session: Session) -> list[int]:
    """Return the recordings that were replayed, with all that lies inside them, in the order of the file."""
    numbers = [row.number for row in session.source.entries]
    unused = set(session.recordings.index.unused(numbers))
    return [number for number in numbers if number not in unused]


def has_unused(session: Session) -> bool:
    """Return True while a recording is left that a run hasn't used."""
    return bool(session.recordings.index.unused([row.number for row in session.source.entries]))


def unused_error(session: Session) -> UnusedInteractionsError | None:
    """Return the error that names the recordings that were not used; `None` if all were."""
    unused = session.report.judged
    if not unused:
        return None
    recorded = held(session.setup.source)
    made = f"{recorded - len(unused)} of the {recorded} recorded calls"
    lines = unused_explanation(unused, session.report.replayed, session.setup.remedy)
    first = f"The run made {made} in {shown_path(session.path)}. Not made:"
    return UnusedInteractionsError("\n".join([first, *(f"  {line}".rstrip() for line in lines)]))

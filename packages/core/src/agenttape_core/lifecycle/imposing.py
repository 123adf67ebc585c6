"""An order that is imposed on a session by what surrounds it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agenttape_core.redaction import Redactor
from agenttape_core.scheduling import Choices
from agenttape_core.schema import IndexRow

Order = str | Sequence[int | str]
"""Numbers of recorded calls in a text, such as `5,3`, or numbers and addresses."""


Pick = Callable[[Sequence[int]], int]
"""Returns one of several numbers of calls."""


def recorded_first(waiting: Sequence[int]) -> int:
    """Return the call that the recording answers first of those that wait."""
    return waiting[0]


class Imposing:
    """An order that is imposed on the first session that is opened inside of `imposing`.

    Args:
        order: The order; empty to answer calls in the recorded one.
        pick: Returns the call that is answered next of those that no order names; by default the recorded one.
        holds_threads: Whether calls of threads are answered in it, too.
        is_recorded: Whether the session keeps the recorded order in all, and is only looked at.
    """

    def __init__(
        self, order: Order, pick: Pick = recorded_first, *, holds_threads: bool = True, is_recorded: bool = False
    ) -> None:
        self.order = order
        self.pick = pick
        self.holds_threads = holds_threads
        self.is_recorded = is_recorded
        self.choices: Choices | None = None
        """The choices of the session, once one is open."""
        self.rows: Sequence[IndexRow] = ()
        """The recordings of that session."""
        self.redactor: Redactor | None = None
        """Hides what that session hides."""

"""The recordings of a cassette, some with another answer than they had."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from agenttape_core.schema import Interaction, Outcome, Step
from agenttape_core.session.ports import IndexRow, Source

EDITED = "edited"
"""The tag of an interaction whose answer is not what came back, but what somebody wanted to come back."""


class Edited:
    """A source in which some calls get another outcome; the interactions say so with a tag.

    Args:
        source: The recordings.
        outcomes: The other outcomes by the number of the interaction, redacted.
        on_served: Called when one of them is about to be served.
    """

    def __init__(self, source: Source, outcomes: Mapping[int, Outcome], on_served: Callable[[], None]) -> None:
        self._source = source
        self._on_served = on_served
        self._outcomes = outcomes

    @property
    def entries(self) -> Sequence[IndexRow]:
        """An index row for each recording, in the order of the file; what was called inside an edited one is gone."""
        return [row for row in self._source.entries if row.parent not in self._outcomes]

    def outcome(self, number: int) -> Outcome:
        """Read what is to come back."""
        if number not in self._outcomes:
            return self._source.outcome(number)
        self._on_served()
        return self._outcomes[number]

    def ids(self, number: int) -> Sequence[str]:
        """Read the run-specific ids of the request."""
        return self._source.ids(number)

    def interaction(self, number: int) -> Interaction:
        """Read all of it, with the outcome that it is to have."""
        item = self._source.interaction(number)
        if number not in self._outcomes:
            return item
        tags = item.tags if EDITED in item.tags else [*item.tags, EDITED]
        exact = {"fidelity": "exact", "fidelity_note": ""}
        return item.model_copy(update={"outcome": self._outcomes[number], "tags": tags, **exact})

    def fidelity_note(self, number: int) -> str:
        """Read why it is not exact; an answer that was chosen is."""
        return "" if number in self._outcomes else self._source.fidelity_note(number)

    def steps(self) -> Iterator[Step]:
        """Read the steps of the run."""
        return self._source.steps()

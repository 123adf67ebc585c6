"""The recordings of a cassette under other ignored paths than it was recorded with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

from agenttape_core.matching import CanonicalRequest, Ignored, recorded_request
from agenttape_core.schema import IndexRow, Interaction, Outcome, Step
from agenttape_core.session.ports import Source


class Refingerprinted:
    """A source whose fingerprints are made anew. It reads every recording once, so opening it takes longer.

    Args:
        source: The recordings.
        recorded: What their own fingerprints leave out.
        ignored: What is to be left out instead.
    """

    def __init__(self, source: Source, recorded: Ignored, ignored: Ignored) -> None:
        self._source = source
        self._recorded = recorded
        self._ignored = ignored

    @cached_property
    def entries(self) -> Sequence[IndexRow]:
        """An index row for each recording, in the order of the file."""
        return [row._replace(fingerprint=self._request(row.number).fingerprint) for row in self._source.entries]

    def outcome(self, number: int) -> Outcome:
        """Read what came back."""
        return self._source.outcome(number)

    def ids(self, number: int) -> Sequence[str]:
        """Read the run-specific ids of the request that are not ignored, and those of the call."""
        item = self._source.interaction(number)
        before = recorded_request(item.kind, item.name, item.request, self._recorded)
        return [*self._request(number).ids, *item.ids[len(before.ids) :]]

    def interaction(self, number: int) -> Interaction:
        """Read all of it."""
        request = self._request(number)
        update = {"fingerprint": request.fingerprint, "ids": list(self.ids(number))}
        return self._source.interaction(number).model_copy(update=update)

    def fidelity_note(self, number: int) -> str:
        """Read why it is not exact."""
        return self._source.fidelity_note(number)

    def steps(self) -> Iterator[Step]:
        """Read the steps of the run."""
        return self._source.steps()

    def _request(self, number: int) -> CanonicalRequest:
        item = self._source.interaction(number)
        return recorded_request(item.kind, item.name, item.request, self._ignored)


def compared_by(source: Source, recorded: Ignored, ignored: Ignored) -> Source:
    """Return the recordings of a source with fingerprints that leave out what is to be ignored."""
    return source if recorded.spelled == ignored.spelled else Refingerprinted(source, recorded, ignored)


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

"""Sources of recordings other than a cassette as it is: none, other fingerprints, other outcomes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

from agenttape_core.matching import CanonicalRequest, Ignored, recorded_request
from agenttape_core.schema import IndexRow, Interaction, Outcome, Step
from agenttape_core.session.ports import Source

EDITED = "edited"
"""The tag of an interaction whose answer is not what came back, but what somebody wanted to come back."""


class _Empty:
    """The recordings of a cassette that does not exist yet."""

    entries: Sequence[IndexRow] = ()

    def outcome(self, number: int) -> Outcome:
        raise LookupError(number)

    def ids(self, number: int) -> Sequence[str]:
        raise LookupError(number)

    def interaction(self, number: int) -> Interaction:
        raise LookupError(number)

    def fidelity_note(self, number: int) -> str:
        raise LookupError(number)

    def steps(self) -> Iterator[Step]:
        return iter(())

    def has_step(self, _kind: str, /) -> bool:
        return False

    def step_addresses(self) -> Sequence[str]:
        return ()

    def outermost_steps(self) -> Iterator[Step]:
        return iter(())


EMPTY: Source = _Empty()


class _Changed:
    """The recordings of another source; a subclass changes some of what is read.

    Args:
        source: The recordings.
    """

    def __init__(self, source: Source) -> None:
        self._source = source

    def outcome(self, number: int) -> Outcome:
        """Read what came back."""
        return self._source.outcome(number)

    def ids(self, number: int) -> Sequence[str]:
        """Read the run-specific ids of the request."""
        return self._source.ids(number)

    def interaction(self, number: int) -> Interaction:
        """Read all of it."""
        return self._source.interaction(number)

    def fidelity_note(self, number: int) -> str:
        """Read why it is not exact; empty if it is."""
        return self._source.fidelity_note(number)

    def steps(self) -> Iterator[Step]:
        """Read the steps of the run."""
        return self._source.steps()

    def has_step(self, kind: str, /) -> bool:
        """Return whether there is a step of a kind."""
        return self._source.has_step(kind)

    def step_addresses(self) -> Sequence[str]:
        """Return the addresses of all steps."""
        return self._source.step_addresses()

    def outermost_steps(self) -> Iterator[Step]:
        """Read those that no other is around."""
        return self._source.outermost_steps()


class Refingerprinted(_Changed):
    """A source whose fingerprints are made anew. It reads every recording once, so opening it takes longer.

    Args:
        source: The recordings.
        recorded: The paths that their own fingerprints leave out.
        ignored: The paths to leave out instead.
    """

    def __init__(self, source: Source, recorded: Ignored, ignored: Ignored) -> None:
        super().__init__(source)
        self._recorded = recorded
        self._ignored = ignored

    @cached_property
    def entries(self) -> Sequence[IndexRow]:
        """An index row for each recording, in the order of the file."""
        return [row._replace(fingerprint=self._request(row.number).fingerprint) for row in self._source.entries]

    def ids(self, number: int) -> Sequence[str]:
        """Read the run-specific ids of the request that are not ignored, and those of the call."""
        item = self._source.interaction(number)
        before = recorded_request(item.kind, item.name, item.request, self._recorded)
        return [*self._request(number).ids, *item.ids[len(before.ids) :]]

    def interaction(self, number: int) -> Interaction:
        """Read all of it."""
        update = {"fingerprint": self._request(number).fingerprint, "ids": list(self.ids(number))}
        return self._source.interaction(number).model_copy(update=update)

    def _request(self, number: int) -> CanonicalRequest:
        item = self._source.interaction(number)
        return recorded_request(item.kind, item.name, item.request, self._ignored)


def compared_by(source: Source, recorded: Ignored, ignored: Ignored) -> Source:
    """Return the recordings of a source with fingerprints that leave out what is to be ignored."""
    return source if recorded.spelled == ignored.spelled else Refingerprinted(source, recorded, ignored)


class Edited(_Changed):
    """A source in which some calls get another outcome; their interactions are tagged as edited.

    It is an attempt that is edited. What was recorded stays there for the next one: a retry that makes the same call is
    answered with it, and no tool is executed because another answer was chosen for its first attempt.

    Args:
        source: The recordings.
        outcomes: The other outcomes by the number of the interaction, redacted.
        on_served: Called when one of them is about to be served.
    """

    def __init__(self, source: Source, outcomes: Mapping[int, Outcome], on_served: Callable[[], None]) -> None:
        super().__init__(source)
        self._outcomes = outcomes
        self._on_served = on_served
        free = max((row.number for row in source.entries), default=0) + 1
        self._again = dict(zip(sorted(outcomes), itertools.count(free), strict=False))
        self.originals: Mapping[int, int] = {again: number for number, again in self._again.items()}
        """The numbers of the recorded attempts by those under which they are there for the next ones."""

    @cached_property
    def entries(self) -> Sequence[IndexRow]:
        """An index row for each recording, in the order of the file, and after an edited one the recorded attempt.

        Calls inside of an edited call are inside of the recorded attempt.
        """
        rows: list[IndexRow] = []
        for row in self._source.entries:
            row = row._replace(parent=self._parent(row.parent))  # noqa: PLW2901 - as it is from here on
            rows.append(row)
            if row.number in self._again:
                rows.append(row._replace(number=self._again[row.number]))
        return rows

    def _parent(self, number: int | None) -> int | None:
        return self._again.get(number, number) if number is not None else None

    def ids(self, number: int) -> Sequence[str]:
        """Read the run-specific ids of the request."""
        return self._source.ids(self.originals.get(number, number))

    def outcome(self, number: int) -> Outcome:
        """Read what is to come back."""
        if number not in self._outcomes:
            return self._source.outcome(self.originals.get(number, number))
        self._on_served()
        return self._outcomes[number]

    def interaction(self, number: int) -> Interaction:
        """Read all of it, with the outcome that it is to have."""
        item = self._source.interaction(self.originals.get(number, number))
        if number not in self._outcomes:
            return item.model_copy(update={"number": number, "parent": self._parent(item.parent)})
        tags = item.tags if EDITED in item.tags else [*item.tags, EDITED]
        exact = {"fidelity": "exact", "fidelity_note": ""}
        parent = self._parent(item.parent)
        return item.model_copy(update={"outcome": self._outcomes[number], "parent": parent, "tags": tags, **exact})

    def fidelity_note(self, number: int) -> str:
        """Read why it is not exact; an answer that was chosen is."""
        return "" if number in self._outcomes else self._source.fidelity_note(self.originals.get(number, number))


def spare(source: Source) -> set[int]:
    """Return the numbers of recordings that a run need not ask for: attempts that only a retry would make."""
    spare = set(source.originals) if isinstance(source, Edited) else set()
    for row in source.entries if spare else ():
        if row.parent in spare:
            spare.add(row.number)
    return spare


def original(source: Source, number: int) -> int:
    """Return the number that a recording has in its cassette."""
    return source.originals.get(number, number) if isinstance(source, Edited) else number

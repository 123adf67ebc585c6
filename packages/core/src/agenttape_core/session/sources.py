"""Sources of recordings other than an unchanged cassette: none, other fingerprints, other outcomes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, cast

from agenttape_core.locks import cached_property
from agenttape_core.matching import CanonicalRequest, Ignored, recorded_request
from agenttape_core.schema import IndexRow, Interaction, Outcome, Plain, Step
from agenttape_core.session.ports import Source

ATTEMPTS = 32
"""The number of further attempts of a call, where each one is edited. A program that never gives up is stopped."""

EDITED = "edited"  # the tag of an interaction whose answer was written by hand instead of recorded


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

    def metadata(self, number: int, _key: str) -> Plain:
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
    """The recordings of another source; a subclass changes some of them on reading."""

    def __init__(self, source: Source) -> None:
        self._source = source

    @property
    def inner(self) -> Source:
        """The recordings that are changed."""
        return self._source

    def outcome(self, number: int) -> Outcome:
        """Read an outcome."""
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

    def metadata(self, number: int, key: str) -> Plain:
        """Read an entry of its metadata."""
        return self._source.metadata(number, key)

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


class Extended(_Changed):
    """A source with further recordings behind its own. The numbers of `added` interactions continue the source's."""

    def __init__(self, source: Source, added: Iterable[Interaction]) -> None:
        super().__init__(source)
        self.added = {one.number: one for one in added}  # the further recordings by their numbers

    @cached_property
    def entries(self) -> Sequence[IndexRow]:
        """An index row for each recording, in the order of the file."""
        rows = [
            IndexRow(one.number, one.kind, one.name, one.address, one.fingerprint, one.parent)
            for one in self.added.values()
        ]
        return [*self._source.entries, *rows]

    def outcome(self, number: int) -> Outcome:
        """Read an outcome."""
        return self.added[number].outcome if number in self.added else super().outcome(number)

    def ids(self, number: int) -> Sequence[str]:
        """Read the run-specific ids of the request."""
        return self.added[number].ids if number in self.added else super().ids(number)

    def interaction(self, number: int) -> Interaction:
        """Read all of it."""
        return self.added[number] if number in self.added else super().interaction(number)

    def fidelity_note(self, number: int) -> str:
        """Read why it is not exact; empty if it is."""
        return self.added[number].fidelity_note if number in self.added else super().fidelity_note(number)

    def metadata(self, number: int, key: str) -> Plain:
        """Read an entry of its metadata."""
        return self.added[number].metadata.get(key) if number in self.added else super().metadata(number, key)


class Refingerprinted(_Changed):
    """A source with recomputed fingerprints. It reads every recording once, so opening it takes longer.

    `recorded` are the paths that their own fingerprints leave out; `ignored` replaces them.
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
        """Read the run-specific ids of the request that aren't ignored, and the ids of the call."""
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
    """Return the recordings of a source with fingerprints that leave out the ignored paths."""
    return source if recorded.spelled == ignored.spelled else Refingerprinted(source, recorded, ignored)


class Alteration(Protocol):
    """A change of a recorded call, as far as a session has to know it."""

    @property
    def every(self) -> bool:
        """True if each attempt of the call is changed, and not the first one only."""

    @property
    def delay(self) -> float:
        """The seconds by which the answer is late."""

    def outcome(self, call: RecordedCall) -> Outcome:
        """Return the call's outcome, instead of the recorded one."""

    def __str__(self) -> str: ...


class RecordedCall(Protocol):
    """A recorded call that is about to get another outcome, in the terms of its boundary."""

    @property
    def outcome(self) -> Outcome:
        """The recorded outcome."""

    def answer(self) -> Any:
        """Return the recorded answer as programs of the framework know it, a fresh object."""

    def returning(self, answer: Any) -> Outcome:
        """Return the outcome of a call that returns an answer."""

    def raising(self, error: Exception, after: int | None = None) -> Outcome:
        """Return the outcome of a call that raises an error: right away, or after so many of its chunks."""


class Edited(_Changed):
    """A source in which some calls get another outcome; their interactions are tagged as edited.

    It is an attempt that is edited. What was recorded stays there for the next one: a retry that makes the same call is
    answered with it, and no tool is executed because another answer was chosen for its first attempt. Where each
    attempt is edited, there are so many of them that a program gives up before, and one that never does is stopped.
    `changes` are by the number of the interaction.
    """

    def __init__(self, source: Source, changes: Mapping[int, Alteration]) -> None:
        super().__init__(source)
        free = itertools.count(max((row.number for row in source.entries), default=0) + 1)
        self._again: dict[int, list[int]] = {}
        self._changes = dict(changes)
        for number, change in sorted(changes.items()):
            self._again[number] = list(itertools.islice(free, ATTEMPTS if change.every else 1))
            if change.every:
                self._changes |= dict.fromkeys(self._again[number], change)
        self._changed: dict[int, Outcome] = {}
        self.originals: Mapping[int, int] = {
            again: number for number, attempts in self._again.items() for again in attempts
        }
        """The numbers of the recorded attempts by those under which they are there for the next ones."""

    @cached_property
    def entries(self) -> Sequence[IndexRow]:
        """An index row for each recording, in the order of the file, and after an edited one the next attempts.

        Calls inside of an edited call are inside of the next attempt.
        """
        rows: list[IndexRow] = []
        for row in self._source.entries:
            row = row._replace(parent=self._parent(row.parent))  # noqa: PLW2901 - as it is from here on
            rows.append(row)
            rows += [row._replace(number=again) for again in self._again.get(row.number, ())]
        return rows

    def _parent(self, number: int | None) -> int | None:
        return self._again[number][0] if number in self._again else number

    def change_of(self, number: int) -> Alteration | None:
        """Return the change of a recording, or of one of its next attempts; `None` if it has none."""
        return self._changes.get(number)

    def land(self, number: int, outcome: Outcome) -> None:
        """Note the outcome of an edited call, redacted."""
        self._changed[number] = outcome

    def ids(self, number: int) -> Sequence[str]:
        """Read the run-specific ids of the request."""
        return self._source.ids(self.originals.get(number, number))

    def outcome(self, number: int) -> Outcome:
        """Read an outcome: from this run if the call was edited and made, else from the recording."""
        return self._changed.get(number) or self._source.outcome(self.originals.get(number, number))

    def interaction(self, number: int) -> Interaction:
        """Read all of it, with the outcome that it has in this run."""
        item = self._source.interaction(self.originals.get(number, number))
        item = item.model_copy(update={"number": number, "parent": self._parent(item.parent)})
        if number not in self._changes:
            return item
        # Its code is not run in a replay of what is derived: it would have the recorded outcome.
        tags = item.tags if EDITED in item.tags else [*item.tags, EDITED]
        exact = {"fidelity": "exact", "fidelity_note": "", "acts": None}
        return item.model_copy(update={"outcome": self.outcome(number), "tags": tags, **exact})

    def fidelity_note(self, number: int) -> str:
        """Read why it is not exact; an answer that was chosen is."""
        return "" if number in self._changes else self._source.fidelity_note(self.originals.get(number, number))

    def metadata(self, number: int, key: str) -> Plain:
        """Read an entry of its metadata."""
        return self._source.metadata(self.originals.get(number, number), key)


def spare(source: Source) -> set[int]:
    """Return the numbers of recordings that a run need not ask for.

    They are the attempts that only a retry would make, and are in no cassette.
    """
    if not isinstance(cast("object", source), _Changed):
        return set()
    spare = set(source.originals) if isinstance(source, Edited) else set()
    for row in source.entries if spare else ():
        if row.parent in spare:
            spare.add(row.number)
    return spare | _added(source)


def _added(source: object) -> set[int]:
    while isinstance(source, _Changed):
        if isinstance(source, Extended):
            return set(source.added)
        source = source.inner
    return set()


def held(source: Source) -> int:
    """Return how many recordings a cassette holds, without the further attempts of edited ones."""
    return len(source.entries) - (len(source.originals) if isinstance(source, Edited) else 0)


def original(source: Source, number: int) -> int:
    """Return the number that a recording has in its cassette."""
    return source.originals.get(number, number) if isinstance(source, Edited) else number

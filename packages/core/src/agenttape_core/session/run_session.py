"""A session as those see it who ask about its run: what is recorded, what has happened, how it has ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from agenttape_core.engine import IDEMPOTENT, Policy
from agenttape_core.errors import UnusedInteractionsError, shown_path
from agenttape_core.matching import Matcher, Order
from agenttape_core.schema import KINDS, IndexRow, Interaction, Outcome, Step, Timing
from agenttape_core.session.base_session import BaseSession
from agenttape_core.session.began_with import FirstInput
from agenttape_core.session.boundary import Boundary
from agenttape_core.session.codecs import plain_value
from agenttape_core.session.ids_of_run import as_asked
from agenttape_core.session.miss import unused_explanation
from agenttape_core.session.ports import Source
from agenttape_core.session.report import Crossed
from agenttape_core.session.setup import Setup
from agenttape_core.session.sources import held, spare


class Taken(NamedTuple):
    """An interaction or a step of a run.

    Args:
        order: Its place.
        record: The interaction or the step.
        timing: The times of an interaction, as far as they are known.
        is_served: Whether its number is that of a recording.
    """

    order: Order
    record: Interaction | Step
    timing: Timing | None = None
    is_served: bool = False


class RunSession(BaseSession):
    """A session and its run; `Session` adds the context and the calls.

    Args:
        setup: All that it is made of.
    """

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.written: Path | str | None = None
        """The file that was written when the session ended: the cassette, or one derived from it; else `None`."""
        self.put_aside: Path | str | None = None
        """The copy of the unreadable file that was in its place; `None` if there was none."""
        self._named = setup.policy.live | setup.policy.frozen | (setup.policy.through or frozenset())
        self._met: set[str] = set()
        self.takes_strays = setup.takes_strays
        """True if a thread without a context belongs to it where it is the only open session."""
        self.first_input = FirstInput(is_kept=setup.policy.records and setup.sink is not None and setup.keeps_input)
        """The input that the run began with, where it is recorded."""

    def note_input(self, value: Any) -> None:
        """Keep the input of the run in the header of its recording, so that it can be started again.

        Graphs, chains, agents and workflows do so by themselves; a program of plain Python can do it here. The first
        input is kept. In a replay this does nothing.

        Args:
            value: The input: for a function, its argument, or a dictionary of its arguments by their names.
        """
        self.first_input.note(plain_value(value))

    # -- what is recorded --------------------------------------------------------------------------------------

    def times_recorded(self, boundary: Boundary, body: Mapping[str, Any]) -> int:
        """Return how often a request was recorded, whether or not its recordings are used already."""
        return len(self._recordings.numbers(self.fingerprint(boundary, body)))

    def times_left(self, boundary: Boundary, body: Mapping[str, Any]) -> int:
        """Return how many recordings of a request are not used yet."""
        return self._recordings.left(self.fingerprint(boundary, body))

    def outcomes_of(self, boundary: Boundary, body: Mapping[str, Any]) -> list[Outcome]:
        """Return what came back each time that a request was recorded, in recorded order.

        Raises:
            CassetteError: If one of them cannot be read.
        """
        return [self.source.outcome(number) for number in self._recordings.numbers(self.fingerprint(boundary, body))]

    def fingerprint(self, boundary: Boundary, body: Mapping[str, Any]) -> str:
        """Return the fingerprint that a request has here."""
        return self._canonical.request(boundary.kind, "", body).fingerprint

    # -- this run ----------------------------------------------------------------------------------------------

    @property
    def interactions(self) -> list[Interaction]:
        """The interactions of the cassette; while one is being recorded, those that have ended so far."""
        if self.policy.replaces and not self.closed:
            return self.executed()
        return [self.source.interaction(row.number) for row in self.source.entries]

    def happened(self) -> list[Interaction]:
        """Return the interactions of this run so far, served and executed ones, in its order."""
        return [taken.record for taken in self.taken() if isinstance(taken.record, Interaction)]

    def taken(self) -> list[Taken]:
        """Return the interactions of this run so far, and its watched steps, in its order."""
        served = [
            Taken(order, self.interaction_now(number), self.timing_of(number), is_served=True)
            for number, order in list(self.ledger.served_at.items())
        ]
        kept = [Taken(*each) for each in self.ledger.kept()]
        steps = [Taken(*each) for each in self.ledger.watched()]
        return sorted([*kept, *served, *steps], key=_place)

    def interaction_now(self, number: int) -> Interaction:
        """Return a recorded interaction; if it was run through and came out otherwise, as it came out in this run."""
        return self.ledger.again.get(number) or self.source.interaction(number)

    def interaction_kept(self, number: int) -> Interaction:
        """Return a recorded interaction as it is kept in what this run writes: with the ids that were asked with."""
        asked = self.ledger.asked.get(number)
        item = self.interaction_now(number)
        if asked is None or number in self.ledger.again:
            return item
        return as_asked(item, asked, self._setup.ignored)

    def executed(self) -> list[Interaction]:
        """Return the interactions that were executed in this run and have ended, in its order."""
        return [interaction for _, interaction, _ in sorted(self.ledger.kept(), key=_place)]

    def executed_live(self) -> set[str]:
        """Return the fingerprints of what was executed because it is live, and has ended."""
        kept = [interaction for _, interaction, _ in self.ledger.kept()]
        return {item.fingerprint for item in kept if self.policy.is_live(item.kind, item.name)}

    def used_numbers(self) -> list[int]:
        """Return the recordings that were served, with all that lies inside them, in the order of the file."""
        unused = set(self._recordings.unused(row.number for row in self.source.entries))
        return [row.number for row in self.source.entries if row.number not in unused]

    def permit(self, policy: Policy) -> None:
        """Go on under another policy: what follows departs from what was recorded."""
        self.policy = policy
        self._recordings.match_by(policy.match_on)

    def also_match(self, *matchers: Matcher) -> None:
        """Find recordings by more functions of `(asked, recorded)`, after all that was chosen."""
        self._recordings.also_match(matchers)

    def go_back(self, numbers: Iterable[int]) -> None:
        """Serve recordings again that were served already: the run goes back to before it asked for them."""
        self._recordings.give_back(numbers)

    def forget(self) -> None:
        """Forget what has happened: it is with the sink, and an observer never looks at it again."""
        self.ledger.forget()
        self.scheduler.forget()
        self.report = self._new_report()

    # -- the end -----------------------------------------------------------------------------------------------

    def has_unused(self) -> bool:
        """Return True while a recording is left that this run has not asked for."""
        return bool(self._recordings.unused(row.number for row in self.source.entries))

    def find_unused(self) -> None:
        """Put the recordings that were not used into the report."""
        if self.policy.replaces:
            return
        rows = {row.number: row for row in self.source.entries}
        needless = spare(self.source)
        served = [
            number
            for number, row in rows.items()
            if number not in needless and not self.policy.is_live(row.kind, row.name)
        ]
        self.report.close([_crossed(rows[number]) for number in self._recordings.unused(served)])

    def completed(self, source: Source, written: Path | str, put_aside: Path | str | None) -> None:
        """Note what has been written, once the session has ended.

        Args:
            source: The recordings that the cassette holds now.
            written: The file that was written.
            put_aside: The copy of the unreadable file that was in its place, if there was one.
        """
        self.source, self.written, self.put_aside = source, written, put_aside

    def unmatched(self) -> list[str]:
        """Return the names in options that no boundary has, neither of this run nor of the cassette."""
        recorded = {word for row in self.source.entries for word in (row.kind, row.name)}
        return sorted(self._named - self._met - recorded - KINDS - {IDEMPOTENT})

    def unused_error(self) -> UnusedInteractionsError | None:
        """Return the error that names the recordings that were not used; `None` if all were."""
        unused = self.report.judged
        if not unused:
            return None
        problem = f"{shown_path(self.path)}: {len(unused)} of {held(self._setup.source)} recorded interactions"
        lines = unused_explanation(unused, self.report.served, self._setup.remedy)
        return UnusedInteractionsError("\n  ".join([f"{problem} were never asked for", *lines]))


def _place(kept: tuple[Any, ...]) -> Order:
    order: Order = kept[0]
    return order


def _crossed(row: IndexRow) -> Crossed:
    return Crossed(row.kind, row.name, row.address, row.number)

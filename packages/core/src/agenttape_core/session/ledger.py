"""The ledger of one run: the numbers of its calls, and the records that have ended, on their way to the sink."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from agenttape_core.locks import Lock
from agenttape_core.matching import Order
from agenttape_core.schema import Interaction, Step, StepTiming, Timing
from agenttape_core.session.events import Events
from agenttape_core.session.id_mapping import Asked
from agenttape_core.session.ports import Sink
from agenttape_core.session.shared_texts import SharedTexts


class Ledger:
    """Numbers calls by the order of their start, and hands finished records to the sink. Thread-safe.

    The sink is `None` if interactions and steps aren't written; `revise` returns the step to keep, or `None` to drop
    it; `events` receives an event for each new interaction when it ends, if there's a sink for these.
    """

    def __init__(self, sink: Sink | None, revise: Callable[[Step], Step | None], events: Events | None = None) -> None:
        self.is_closed = False  # true if the run has ended. What ends after it is not part of it.
        self.texts: SharedTexts | None = None  # the long texts of its interactions, if steps refer to them
        self.replayed_at: dict[int, Order] = {}
        """The place in this run of each recording that was replayed or stepped into."""
        self.asked: dict[int, Asked] = {}
        """The request that each recording has answered in this run, where the request holds ids and a sink is there."""
        self.inside: dict[int, int] = {}
        """The number, in this run, of the call that each recording was used inside, if it was inside one."""
        self.standing_for: dict[int, int] = {}
        """The recording of each call that was stepped into, by the number of the call in this run."""
        self.again: dict[int, Interaction] = {}
        """The present form of recordings that were stepped into with another outcome, by their numbers."""
        self.are_metered: dict[int, bool] = {}
        """By the numbers of recordings whose answers were read: True if the answer counts tokens."""
        self.runs: set[str] = set()  # the addresses of the outermost runs whose steps were kept
        self._sink = sink
        self._revise = revise
        self._events = events
        self.next_number = itertools.count(1).__next__  # returns the number of a call that begins
        self._kept: list[tuple[Order, Interaction, Timing]] = []
        self._watched: list[tuple[Order, Step]] | None = None
        self._lock = Lock()

    def stepped_into(self, number: int, recorded: int, order: Order) -> None:
        """Note a call that is stepped into, with its recording's number and its place in this run."""
        self.replayed_at.setdefault(recorded, order)
        self.standing_for[number] = recorded

    def close(self) -> None:
        """End the run."""
        with self._lock:
            self.is_closed = True

    # -- interactions ------------------------------------------------------------------------------------------

    @property
    def writes(self) -> bool:
        """True if there is a sink."""
        return self._sink is not None

    def begin(self, interaction: Interaction, timing: Timing, order: Order) -> None:
        """Hand an interaction to the sink that has not ended: for a recovery of a run that doesn't keep it."""
        with self._lock:
            if self._sink is not None and not self.is_closed:
                self._sink.append(interaction, timing, order, has_begun=True)

    def keep(self, interaction: Interaction, timing: Timing, order: Order) -> None:
        """Hand a finished interaction to the sink, unless the run has ended before it."""
        if self._sink is None:
            return
        if self.texts is not None:
            self.texts.note(interaction)
        with self._lock:
            if not self.is_closed:
                self._sink.append(interaction, timing, order)
                self._kept.append((order, interaction, timing))
        if self._events is not None:
            self._events.executed(interaction, timing)

    def kept(self) -> list[tuple[Order, Interaction, Timing]]:
        """Return the interactions that were kept, each with its place and times, in the order in which they ended."""
        with self._lock:
            return list(self._kept)

    def executed(self) -> list[Interaction]:
        """Return the interactions that were executed in this run and have ended, in its order."""
        return [interaction for _, interaction, _ in sorted(self.kept(), key=lambda kept: kept[0])]

    def forget(self) -> None:
        """Forget the interactions: they are with the sink, and an observer never looks at them again."""
        with self._lock:
            self._kept.clear()
            self.runs.clear()

    def refer_to_texts(self) -> None:
        """Let steps refer to the long texts of the interactions from now on, where they would repeat them."""
        self.texts = SharedTexts()

    # -- steps -------------------------------------------------------------------------------------------------

    @property
    def watches_steps(self) -> bool:
        """True if the steps of this run are remembered."""
        return self._watched is not None

    def watch_steps(self) -> None:
        """Remember the steps of this run from now on, also of a replay, which takes them again."""
        self._watched = self._watched or []

    def keep_step(self, step: Step, timing: StepTiming, order: Order) -> None:
        """Remember a step that has ended, if steps are watched, and hand it to the sink, even if it has only begun."""
        with self._lock:
            if self._watched is not None and not self.is_closed and step.status != "open":
                self._watched.append((order, step))
        if self._sink is None:
            return
        kept = self._revise(step)
        if kept is None:
            return
        with self._lock:
            if not self.is_closed:
                self.runs.add(step.address.partition("/")[0])
                self._sink.append_step(kept, timing, order)

    def steps_taken(self, kind: str) -> list[Step]:
        """Return the watched steps of a kind, in the order of the run."""
        return [step for _, step in self.watched() if step.kind == kind]

    def watched(self) -> list[tuple[Order, Step]]:
        """Return the watched steps, each with its place, in the order of the run."""
        with self._lock:
            taken = list(self._watched or ())
        return sorted(taken, key=lambda item: item[0])

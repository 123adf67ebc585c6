"""The ports of a session: recordings to read, and a place to write them. Storage provides both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from agenttape_core.matching import Order
from agenttape_core.schema import IndexRow, Interaction, Outcome, Plain, Step, StepTiming, Timing


class Source(Protocol):
    """The recordings of a cassette."""

    @property
    def entries(self) -> Sequence[IndexRow]:
        """An index row for each recording, in the order of the file."""

    def outcome(self, number: int) -> Outcome:
        """Read the response."""

    def ids(self, number: int) -> Sequence[str]:
        """Read the run-specific ids of the request."""

    def interaction(self, number: int) -> Interaction:
        """Read all of it."""

    def fidelity_note(self, number: int) -> str:
        """Read why it is not exact; empty when it is."""

    def metadata(self, number: int, key: str) -> Plain:
        """Read an entry of its metadata; `None` if there is none."""

    def steps(self) -> Iterator[Step]:
        """Read the steps of the run."""

    def has_step(self, kind: str, /) -> bool:
        """Return whether there is a step of a kind."""

    def step_addresses(self) -> Sequence[str]:
        """Return the addresses of all steps."""

    def outermost_steps(self) -> Iterator[Step]:
        """Read those that no other is around."""


class Sink(Protocol):
    """The destination of finished interactions and steps."""

    def append(self, interaction: Interaction, timing: Timing, order: Order, *, has_begun: bool = False) -> None:
        """Keep a finished interaction, or one that has only begun, so that not even a crash loses it."""

    def append_step(self, step: Step, timing: StepTiming, order: Order) -> None:
        """Keep a finished step in the same way."""

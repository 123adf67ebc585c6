"""One replay of a cassette with something changed: a session to open, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agenttape_core.engine import Mode
from agenttape_core.interventions import GivenOutcome
from agenttape_core.lifecycle.request import Derivation, SessionRequest
from agenttape_core.schema import Outcome, Plain


@dataclass(frozen=True, slots=True)
class Opening:
    """A replay to open. Unless something is live, nothing is executed in it.

    Args:
        cassette: The cassette.
        options: Options of `use_cassette`, in the place of those that the program has chosen.
        outcomes: Other outcomes than the recorded ones, by the number of the interaction; their values encoded. After
            one of them, a call that asks for something else gets the recording of its place.
        write_to: The file of the derived cassette; `None` if none is written.
        keeps: Whether that is written if the program fails, too.
        origin: A note of what was done, for the header of the derived cassette.
        live: The kinds and names of calls that are executed.
        candidate: The models that are asked in the place of recordings, as for `use_cassette`.
    """

    cassette: Path
    options: Mapping[str, Any] = field(default_factory=dict)
    outcomes: Mapping[int, Outcome] = field(default_factory=dict)
    write_to: Path | None = None
    keeps: bool = True
    origin: Plain = None
    live: tuple[str, ...] = ()
    candidate: Any = None

    def applied_to(self, request: SessionRequest) -> SessionRequest:
        """Return a request to open a session, with what is special to this replay.

        Args:
            request: The request of the program.
        """
        options = {**request.options, "unused": "ignore", "live": self.live, "pending": False, **self.options}
        if self.write_to is not None:
            options["on_error"] = "keep" if self.keeps else "discard"
        options.pop("mode", None)
        executes = bool(self.live) or self.candidate is not None
        given = {number: GivenOutcome(given=outcome) for number, outcome in self.outcomes.items()}
        return request._replace(
            cassette=self.cassette,
            options=options,
            mode=Mode.NONE,
            write_to=self.write_to,
            derivation=Derivation(origin=lambda: self.origin) if self.write_to is not None and not executes else None,
            changes=given if self.candidate is None else None,
            candidate=self.candidate,
            beyond="address",
            judges_changes=False,
            events=None,
        )

"""The kit on taped models: each check has a cassette of its own, which is recorded, and then replayed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agenttape_core import open_cassette, use_cassette
from agenttape_core.testing import run_conformance
from agenttape_llamaindex import tape

Outcomes = dict[str, tuple[str, str]]


def taped(suite: type[Any], folder: Path, mode: str) -> type[Any]:
    """Return a suite whose models are taped, in a session of some mode around each check."""

    class Taped(suite):  # type: ignore[misc]
        def make(self) -> Any:
            return tape(super().make())

        def make_failing(self) -> Any:
            return tape(super().make_failing())

        def make_breaking(self) -> Any:
            return tape(super().make_breaking())

        @contextmanager
        def around(self, check: str) -> Iterator[None]:
            # `keep`: a deviation is an assertion that fails, not a recording that went wrong.
            with (
                super().around(check),
                use_cassette(folder / f"{check}.yaml", mode=mode, auto=False, on_error="keep"),
            ):
                yield

    return Taped


def replayed(suite: type[Any], folder: Path, stand_in: Callable[..., Any], **options: Any) -> type[Any]:
    """Return a suite whose models are stand-ins made of the cassettes that a taped one has recorded.

    Each check has one stand-in, which replays its cassette once.
    """

    class Replayed(suite):  # type: ignore[misc]
        @contextmanager
        def around(self, check: str) -> Iterator[None]:
            file = folder / f"{check}.yaml"
            self.stand_in = stand_in(file, **options) if list(open_cassette(file).interactions()) else None
            yield

        def make(self) -> Any:
            return self.stand_in or super().make()

        def make_failing(self) -> Any:
            return self.stand_in

        def make_breaking(self) -> Any:
            return self.stand_in

    return Replayed


def outcomes(suite: type[Any]) -> Outcomes:
    """Return the outcome of each check, with the message if it failed."""
    return {
        result.check: (result.outcome, str(result.error) if result.outcome == "failed" else "")
        for result in run_conformance(suite)
    }

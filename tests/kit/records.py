"""Records of cassettes that are written without a run: a test names only what matters to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agenttape_core.schema import Header, Interaction, Outcome, Step
from agenttape_core.storage import write_cassette


def call(number: int = 1, address: str = "call", value: Any = None, **fields: Any) -> Interaction:
    """Return a call that returned a value, unless another outcome is given."""
    usual = {"kind": "call", "name": "f", "fingerprint": "0" * 32, "request": {}}
    outcome = fields.pop("outcome", None) or Outcome(status="returned", value=value)
    return Interaction(**{"number": number, "address": address, "outcome": outcome, **usual, **fields})


def step(number: int = 1, address: str = "step", **fields: Any) -> Step:
    """Return a step of a graph."""
    return Step(**{"number": number, "kind": "node", "name": "n", "address": address, **fields})


def written(path: Path, *records: Interaction | Step, **header: Any) -> Path:
    """Write records as a cassette with its name, and return its path."""
    write_cassette(path, Header(**{"name": path.name.partition(".")[0], **header}), records)
    return path

"""Runs of a function: the runner for programs that no test calls."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agenttape_core.errors import AgentTapeError
from agenttape_core.experiments.program import Variation, program_of
from agenttape_core.experiments.strategies.mutants.facts import Facts


def run(program: dict[str, Any], *, begin: Callable[[str], object], stops: bool) -> dict[str, Any]:  # noqa: ARG001
    """Replay a function once.

    Args:
        program: `function`, `cassette` and `options`.
        begin: Called with the name of the function before it is called.
        stops: Of no meaning for a single function.
    """
    name = program["function"]
    found: dict[str, Any] = {"facts": {}, "files": [], "problem": ""}
    try:
        loaded = program_of(name, **program["options"])
        begin(name)
        began = time.perf_counter()
        ending = loaded.run(Variation(Path(program["cassette"])))
    except (Exception, SystemExit) as raised:  # noqa: BLE001 - whatever the import of the program raises is reported
        found["problem"] = f"{type(raised).__name__}: {raised}".partition("\n")[0]
        return found
    error = ending.error
    ours = error if isinstance(error, AgentTapeError) else None
    seconds = time.perf_counter() - began
    value = "" if error is not None else repr(ending.result)
    found["facts"][name] = Facts.of([ending.session], error, ours=ours, value=value, seconds=seconds)
    return found

"""Two plain replays, with which an experiment begins: if they differ, nothing can be learned by changing something."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

from agenttape_core.errors import AgentTapeError, VerificationError, shown_path
from agenttape_core.experiments.program import Program, Run
from agenttape_core.experiments.targets import opened
from agenttape_core.experiments.verify import verify
from agenttape_core.lifecycle.variation import Variation

_TIMES = 3


def steady(program: Program, plain: Variation) -> Generator[Variation, Run, tuple[Run, Run]]:
    """Replay a program twice, unchanged, and return both runs, which are equal: a part of an experiment.

    Args:
        program: The program.
        plain: The replay without changes.

    Raises:
        ConfigurationError: If the cassette holds no call.
        CassetteError: If it cannot be read.
        VerificationError: If the replay leaves the recording, or both replays differ; with the cause, where that can
            be found.
    """
    assert plain.cassette is not None
    shown = shown_path(plain.cassette)
    opened(Path(plain.cassette))
    first = yield plain
    second = yield plain
    for ending in (first, second):
        if ending.left is not None:
            raise VerificationError(
                f"{program.name} does not replay {shown} to begin with: {ending.left}\n"
                "  record it again, or see what has changed:  agenttape update --dry-run"
            )
    one, other = first.failure, second.failure
    if first.calls == second.calls and (one.is_like(other) if one is not None else other is None):
        return first, second
    lines = [
        f"{program.name} is not the same in two replays of {shown}, so nothing can be learned by changing something",
        f"first   {first.failure or 'ended well'}, {len(first.calls)} calls",
        f"second  {second.failure or 'ended well'}, {len(second.calls)} calls",
        *_causes(program, plain),
    ]
    raise VerificationError("\n  ".join(lines))


def _causes(program: Program, opening: Variation) -> list[str]:
    """Return why replays differ, as far as `verify` finds it."""
    source = program.source
    if source is None or source.is_test:
        return ["it keeps something from run to run: in a global, in a module or in a file"]
    alone = "in processes of its own it is the same: it keeps something from run to run in this one, as in a global"
    return cause_of(f"{source.file}:{source.name}", opening.cassette) or [alone]


def cause_of(function: str, cassette: str | Path | None) -> list[str]:
    """Return why the replays of a function differ in new processes, and the remedy; empty if they don't."""
    try:
        found = verify(function, cassette, runs=_TIMES, timeout=60, on_unused="ignore")
    except AgentTapeError as error:
        return [f"verify could not find why: {str(error).partition(chr(10))[0]}"]
    if found.first is None:
        return []
    return [f"verify: {found.first.what}: {found.first.cause.name}: {found.first.cause.why}", found.first.cause.remedy]

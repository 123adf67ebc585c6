"""Programs have to hold still before something is changed in them: two replays must be the same."""

from __future__ import annotations

from agenttape_core.errors import AgentTapeError, ConfigurationError, VerificationError, shown_path
from agenttape_core.storage import open_cassette
from agenttape_core.tools.programs.opening import Opening
from agenttape_core.tools.programs.program import Ending, Program

_TIMES = 3


def steady(program: Program, opening: Opening) -> tuple[Ending, Ending]:
    """Replay a program twice as it was recorded, and return the ends, which are alike.

    Args:
        program: The program.
        opening: The replay, in which nothing is changed.

    Raises:
        ConfigurationError: If the cassette holds no call.
        CassetteError: If it cannot be read.
        VerificationError: If the replay leaves the recording, or both replays differ; with the cause, where that can
            be found.
    """
    shown = shown_path(opening.cassette)
    if not open_cassette(opening.cassette).entries:
        raise ConfigurationError(f"{shown} holds no call, so there is nothing in it that could be changed")
    first, second = program.run(opening), program.run(opening)
    for ending in (first, second):
        if ending.left is not None:
            raise VerificationError(
                f"{program.name} does not replay {shown} to begin with: {ending.left}\n"
                "  record it anew, or see what has changed:  agenttape heal --plan"
            )
    if _are_alike(first, second):
        return first, second
    lines = [
        f"{program.name} is not the same in two replays of {shown}, so nothing can be learned by changing something",
        f"first   {first.failure or 'ended well'}, {len(first.calls)} calls",
        f"second  {second.failure or 'ended well'}, {len(second.calls)} calls",
        *_causes(program, opening),
    ]
    raise VerificationError("\n  ".join(lines))


def _are_alike(first: Ending, second: Ending) -> bool:
    if first.calls != second.calls:
        return False
    return first.failure.is_like(second.failure) if first.failure is not None else second.failure is None


def _causes(program: Program, opening: Opening) -> list[str]:
    """Return why replays differ, as far as `verify` finds it."""
    source = program.source
    if source is None or source.is_test:
        return ["it keeps something from run to run: in a global, in a module or in a file"]
    from agenttape_core.tools.verify import verify

    try:
        found = verify(f"{source.file}:{source.name}", opening.cassette, times=_TIMES, timeout=60, unused="ignore")
    except AgentTapeError as error:
        return [f"verify could not find why: {error}"]
    if found.first is None:
        return [
            "in processes of its own it is the same: it keeps something from run to run in this one, as in a global"
        ]
    return [f"verify: {found.first.what}: {found.first.cause.name}: {found.first.cause.why}", found.first.cause.remedy]

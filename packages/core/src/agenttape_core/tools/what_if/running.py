"""`what_if`: replay a function with recorded calls changed, and say what came of it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agenttape_core.errors import AgentTapeError, AgentTapeHalt, ConfigurationError
from agenttape_core.interventions import Beyond, Change, Changes
from agenttape_core.lifecycle.contained import ContainedBlock
from agenttape_core.lifecycle.running_test import FailedBlock
from agenttape_core.lifecycle.use_cassette import use_cassette
from agenttape_core.tools.programs import run_to_end
from agenttape_core.tools.what_if.account import WhatIf, account_of


def what_if(
    cassette: str | Path,
    function: Callable[[], Any],
    changes: Changes,
    *,
    beyond: Beyond = "stop",
    to: str | Path | None = None,
    **options: Any,
) -> WhatIf:
    """Replay a run with recorded calls changed, and return an account of what came of it.

    It begins as a strict replay, and without a change it is one. A change is made where the run makes the call: the
    first attempt gets it, and the next one what was recorded. No call is executed whose kind or name is not in
    `beyond`.

    Args:
        cassette: The recorded run, as `use_cassette` takes it.
        function: Makes the run again, without arguments; a coroutine function is run to its end.
        changes: What comes of recorded calls, by the number, address, kind or name of the call, or a pattern of places.
        beyond: What a call without a recording gets once a change has landed: a stop, the recording at its address
            (`"address"`), or a real call, if its kind or name is among those that are given.
        to: The derived cassette to write; by default one is written only if something may be executed.
        options: More options of `use_cassette`.

    Raises:
        CassetteError: If the cassette is not there, or cannot be read.
        ConfigurationError: If a change selects no call, or cannot be made.
    """
    if not inspect.iscoroutinefunction(function):
        return _around(cassette, function, changes, beyond, to, options)
    inside = asyncio.run(awhat_if(cassette, function, changes, beyond=beyond, to=to, **options))
    if not _elsewhere(inside) or inside.report.executed or inside.written is not None:
        return inside
    around = _around(cassette, function, changes, beyond, to, options)
    return around if _elsewhere(around) < _elsewhere(inside) else inside


def _elsewhere(found: WhatIf) -> int:
    """Return how many calls found no recording, or that of another place.

    The session of a coroutine function may have been opened in the event loop or around it when it was recorded; calls
    have other places then. The first replay finds out.
    """
    return sum(one.rung == "request" for one in found.report.served) + len(found.new)


def _around(  # noqa: PLR0917 - private, and called twice
    cassette: str | Path,
    function: Callable[[], Any],
    changes: Changes,
    beyond: Beyond,
    to: str | Path | None,
    options: dict[str, Any],
) -> WhatIf:
    """Replay with the session opened around the function, and around its event loop if it needs one."""
    block = _block(cassette, changes, beyond, to, options)
    ran = _Ran()
    try:
        with block as ran.session:
            ran.changes = {number: one.change for number, one in block.in_use.changes.items()}
            with ran:
                ran.result = run_to_end(function)
    except (AgentTapeError, AgentTapeHalt) as error:
        ran.came_out(error)
    return ran.account(block.failed)


async def awhat_if(
    cassette: str | Path,
    function: Callable[[], Any],
    changes: Changes,
    *,
    beyond: Beyond = "stop",
    to: str | Path | None = None,
    **options: Any,
) -> WhatIf:
    """Do what `what_if` does, for a function that returns something to await."""
    block = _block(cassette, changes, beyond, to, options)
    ran = _Ran()
    try:
        async with block as ran.session:
            ran.changes = {number: one.change for number, one in block.in_use.changes.items()}
            with ran:
                ran.result = await function()
    except (AgentTapeError, AgentTapeHalt) as error:
        ran.came_out(error)
    return ran.account(block.failed)


class _Ran:
    """A run, and what came of it. As a context manager it takes what the run raises."""

    def __init__(self) -> None:
        self.session: Any = None
        self.changes: Mapping[int, Change] = {}
        self.result: Any = None
        self.raised: BaseException | None = None

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        self.raised = error if isinstance(error, Exception | AgentTapeHalt) else None
        return isinstance(error, Exception)  # what stops a run has to pass the session

    def came_out(self, error: BaseException) -> None:
        """Take what the session raised at its end, or raise it, where that is no outcome of the run."""
        if self.session is None or isinstance(error, ConfigurationError):
            raise error
        self.raised = self.raised or error

    def account(self, failed: Sequence[FailedBlock]) -> WhatIf:
        """Return the account, with the failures of sessions that the run opened itself."""
        result = self.result if self.raised is None else None
        return replace(
            account_of(self.session, self.changes, result, self.raised), failed=tuple(block.line for block in failed)
        )


def _block(
    cassette: str | Path, changes: Changes, beyond: Beyond, to: str | Path | None, options: dict[str, Any]
) -> ContainedBlock:
    request = use_cassette(cassette, changes=changes, beyond=beyond, to=to, **options).request
    given = {"on_error": "keep", **request.options}  # a run that raises is an outcome, too
    return ContainedBlock(request._replace(judges_changes=False, options=given))

"""End the runs of workflows that our halts stop, and raise the halt in the readers of their events.

The control loop of a workflow handles exceptions. A halt, such as a miss in a step, derives from `BaseException`: it
passes through the loop and fails the run, but nothing is written to the stream of events, whose reader would wait for
ever.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable
from typing import Any

from pydantic import PrivateAttr
from workflows.events import StopEvent

from agenttape_core import AgentTapeHalt
from agenttape_core.integration import current_session, register_seam
from agenttape_llamaindex._compat import forget_run


class RunHalted(StopEvent):
    """The last event of a run that was halted. No program sees it: its stream raises the halt instead."""

    _halt: BaseException = PrivateAttr()


def ending_streams(real: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `run` of a control loop: a halt is written to the stream of the run's events as its last one."""

    @functools.wraps(real)
    async def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        session = current_session()
        if session is not None:
            session.turns.keep()  # steps get events in the order in which others ended
        try:
            return await real(self, *args, **kwargs)
        except AgentTapeHalt as halt:
            event = RunHalted()
            event._halt = halt
            await self.adapter.write_to_event_stream(event)
            raise

    return run


def raising_halts(real: Callable[..., AsyncIterator[Any]]) -> Callable[..., AsyncIterator[Any]]:
    """Wrap `stream_events` of a context: it raises the halt that ended its run."""

    @functools.wraps(real)
    async def stream_events(self: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        async for event in real(self, *args, **kwargs):
            if isinstance(event, RunHalted):
                raise event._halt
            yield event

    return stream_events


def _run_id(frozen: Any, real: Callable[..., str]) -> Callable[..., str]:
    """Make the id of a run; a real one if a run of the recorded id is still going on, in another session."""

    def make(size: int = 10) -> str:
        made = str(frozen.next_uuid("workflows.run_id", 4).hex[:size])
        return made if forget_run(made) else real(size)

    return make


register_seam("workflows.context.context", "nanoid", "uuid", _run_id)

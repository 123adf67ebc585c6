"""Runs of workflows that our halts end: a miss in a step ends its run at once, and whoever reads its events hears it.

The control loop of a workflow knows exceptions. What is none, such as a miss, passes through it and fails the run; but
nobody tells the stream of its events, whose reader would wait for ever.
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


def running(real: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `run` of a control loop: a halt is the last thing that the stream of its events tells."""

    @functools.wraps(real)
    async def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        session = current_session()
        if session is not None:
            session.turns.are_kept = True  # steps get events in the order in which others ended
        try:
            return await real(self, *args, **kwargs)
        except AgentTapeHalt as halt:
            event = RunHalted()
            event._halt = halt
            await self.adapter.write_to_event_stream(event)
            raise

    return run


def streaming(real: Callable[..., AsyncIterator[Any]]) -> Callable[..., AsyncIterator[Any]]:
    """Wrap `stream_events` of a context: it raises the halt that ended its run."""

    @functools.wraps(real)
    async def stream_events(self: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        async for event in real(self, *args, **kwargs):
            if isinstance(event, RunHalted):
                raise event._halt
            yield event

    return stream_events


def _run_id(frozen: Any, real: Callable[..., str]) -> Callable[..., str]:
    """Make the id of a run; not the one of a run that goes on meanwhile, which only another session can have made."""

    def make(size: int = 10) -> str:
        made = str(frozen.next_uuid("workflows.run_id", 4).hex[:size])
        return made if forget_run(made) else real(size)

    return make


register_seam("workflows.context.context", "nanoid", "uuid", _run_id)

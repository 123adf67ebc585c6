"""Raise our halts in the readers of streams that they stop: a workflow's events, a chat engine's answer.

The control loop of a workflow handles exceptions. So does the method that writes a streamed answer into a memory, in
its own thread or task. A halt, such as a miss, derives from `BaseException`: it passes through them, but the stream
gets no end, and its reader would wait forever. So they are wrapped while sessions are open, and while there are
stand-ins, which need no session.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from llama_index.core.chat_engine.types import StreamingAgentChatResponse
from pydantic import PrivateAttr
from workflows.events import StopEvent

from agenttape_core.errors import AgentTapeHalt
from agenttape_core.integration.patching import register_seam
from agenttape_core.integration.stand_ins import Recorded
from agenttape_core.integration.threads import Lock
from agenttape_llamaindex._compat import CONTROL_LOOP, OUTER_CONTEXT, forget_run, keep_workers_in_order


class RunHalted(StopEvent):
    """The last event of a run that was halted. No program sees it: its stream raises the halt instead."""

    _halt: BaseException = PrivateAttr()


def ending_streams(real: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `run` of a control loop: a halt is written to the stream of the run's events as its last one."""

    @functools.wraps(real)
    async def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        keep_workers_in_order(self)
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


def telling_reader(real: Callable[..., None]) -> Callable[..., None]:
    """Wrap the method that writes a streamed answer into a memory: a halt reaches the reader as an exception does."""

    @functools.wraps(real)
    def write(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            real(self, *args, **kwargs)
        except AgentTapeHalt as halt:
            self.exception = halt
            self.put_in_queue("")
            raise

    return write


def atelling_reader(real: Callable[..., Any]) -> Callable[..., Any]:
    """Do the same for the one that is awaited."""

    @functools.wraps(real)
    async def write(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            await real(self, *args, **kwargs)
        except AgentTapeHalt as halt:
            self.exception = halt
            self.is_function_false_event.set()
            self.aput_in_queue("")
            raise

    return write


_WRAPPERS: tuple[tuple[Any, str, Callable[[Any], Any]], ...] = (
    (CONTROL_LOOP, "run", ending_streams),
    (OUTER_CONTEXT, "stream_events", raising_halts),
    (StreamingAgentChatResponse, "write_response_to_history", telling_reader),
    (StreamingAgentChatResponse, "awrite_response_to_history", atelling_reader),
)


class _Wrapped:
    """The methods of the framework, wrapped while anybody needs it. Thread-safe."""

    def __init__(self) -> None:
        self._uses = 0
        self._real: list[Any] = []
        self._lock = Lock()

    def need(self) -> None:
        """Wrap them, if they are not."""
        with self._lock:
            self._uses += 1
            if self._uses == 1:
                self._real = [getattr(owner, name) for owner, name, _ in _WRAPPERS]
                self._put([wrap(real) for (_, _, wrap), real in zip(_WRAPPERS, self._real, strict=True)])

    def release(self) -> None:
        """Put them back, if no one else needs them wrapped."""
        with self._lock:
            self._uses -= 1
            if self._uses == 0:
                self._put(self._real)

    @staticmethod
    def _put(methods: list[Any]) -> None:
        for (owner, name, _), method in zip(_WRAPPERS, methods, strict=True):
            setattr(owner, name, method)


_wrapped = _Wrapped()


@contextmanager
def halts_end_streams() -> Iterator[None]:
    """Let a halt end the run of a workflow for those who read its events, while inside."""
    _wrapped.need()
    try:
        yield
    finally:
        _wrapped.release()


def halts_end_streams_for(stand_in: Recorded) -> None:
    """Let a halt end the run of a workflow for those who read its events, for as long as a stand-in lives."""
    stand_in.on_unpickled = halts_end_streams_for
    _wrapped.need()
    weakref.finalize(stand_in, _wrapped.release).atexit = False


def _run_id(frozen: Any, real: Callable[..., str]) -> Callable[..., str]:
    """Make the id of a run; a real one if a run with the recorded id is still active in another session."""

    def make(size: int = 10) -> str:
        made = str(frozen.next_uuid("workflows.run_id", 4).hex[:size])
        return made if forget_run(made) else real(size)

    return make


register_seam("workflows.context.context", "nanoid", "uuid", _run_id)

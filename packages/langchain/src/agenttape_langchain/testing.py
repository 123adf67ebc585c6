"""For tests of whole runs: handlers that take down all callbacks and the tree of runs, for raw comparison."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.tracers.base import BaseTracer
from langchain_core.tracers.schemas import Run

from agenttape_core.testing import Capture

__all__ = ["capturing"]

_METHODS = [name for name in dir(BaseCallbackHandler) if name.startswith("on_")]


def capturing(capture: Capture, *, is_async: bool = False) -> list[BaseCallbackHandler]:
    """Return handlers for the config of a run, which take down all that LangChain reports of it.

    The part `callbacks` has every callback with its arguments, in order; the part `runs` has the tree of runs as a
    tracer keeps it, with its times. Tracers keep the traceback of an error as text: it is in its own part,
    `tracebacks`, as the frames inside of a call that is replayed are not there. In an asynchronous run LangChain calls
    a synchronous handler in a thread.

    Args:
        capture: What they take it down in.
        is_async: Whether the callbacks are taken down by an asynchronous handler.
    """
    handler = _AsyncHandler(capture) if is_async else _Handler(capture)
    return [handler, _Tracer(capture)]


class _Handler(BaseCallbackHandler):
    def __init__(self, capture: Capture) -> None:
        self._capture = capture


class _AsyncHandler(AsyncCallbackHandler):
    def __init__(self, capture: Capture) -> None:
        self._capture = capture


def _noting(name: str) -> Callable[..., None]:
    def note(self: Any, *args: Any, **kwargs: Any) -> None:
        self._capture.add("callbacks", [name, *args, kwargs])

    return note


def _anoting(name: str) -> Callable[..., Any]:
    async def note(self: Any, *args: Any, **kwargs: Any) -> None:
        self._capture.add("callbacks", [name, *args, kwargs])

    return note


for _name in _METHODS:
    setattr(_Handler, _name, _noting(_name))
    setattr(_AsyncHandler, _name, _anoting(_name))


class _Tracer(BaseTracer):
    run_inline = True
    """As LangSmith's tracer is called."""

    def __init__(self, capture: Capture) -> None:
        super().__init__()
        self._capture = capture

    def _persist_run(self, run: Run) -> None:
        self._take_tracebacks(run)
        self._capture.add("runs", run)

    def _take_tracebacks(self, run: Run) -> None:
        if run.error is not None:
            run.error, mark, traceback = run.error.partition("Traceback (most recent call last)")
            self._capture.add("tracebacks", mark + traceback)
        for child in run.child_runs:
            self._take_tracebacks(child)

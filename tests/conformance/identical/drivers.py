"""The ways to run a graph or a chain, with everything taken down that can be seen of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agenttape_core.testing import Capture, Program
from agenttape_langchain.testing import capturing
from agenttape_langgraph.testing import acapture_thread, capture_thread

from .rows import Driver

MODES = ["values", "updates", "messages", "custom", "tasks", "checkpoints", "debug"]
"""Every mode of streaming."""

THREAD: Mapping[str, Any] = {"configurable": {"thread_id": "1"}}


def nothing_more(_: Any) -> None:
    """End after the first input."""


@dataclass(frozen=True)
class Talk:
    """A graph, or another runnable, and what it is given.

    Args:
        subject: The runnable.
        given: Its first input.
        then: Returns the next input, from the state of the thread; `None` ends the talk.
        config: Its config.
    """

    subject: Any
    given: Any
    then: Callable[[Any], Any] = nothing_more
    config: Mapping[str, Any] = field(default_factory=lambda: THREAD)


Make = Callable[[], Talk]


def sync(run: Callable[[Any, Any, Any, Capture], Any]) -> Driver:
    """Return a driver that runs each input by a function, and takes down the thread at the end."""

    def of(make: Make) -> Program:
        def program(capture: Capture) -> Any:
            talk = make()
            config = {**talk.config, "callbacks": capturing(capture)}
            results, given = [], talk.given
            while given is not None:
                results.append(run(talk.subject, given, config, capture))
                given = talk.then(talk.subject.get_state(talk.config)) if talk.then is not nothing_more else None
            if hasattr(talk.subject, "get_state"):
                capture_thread(capture, talk.subject, talk.config)
            return results

        return program

    return of


def tasks(run: Callable[[Any, Any, Any, Capture], Any], *, handler_is_async: bool = False) -> Driver:
    """Do the same for a coroutine function."""

    def of(make: Make) -> Program:
        async def program(capture: Capture) -> Any:
            talk = make()
            config = {**talk.config, "callbacks": capturing(capture, is_async=handler_is_async)}
            results, given = [], talk.given
            while given is not None:
                results.append(await run(talk.subject, given, config, capture))
                given = talk.then(await talk.subject.aget_state(talk.config)) if talk.then is not nothing_more else None
            if hasattr(talk.subject, "get_state"):
                await acapture_thread(capture, talk.subject, talk.config)
            return results

        return program

    return of


def _invoke(subject: Any, given: Any, config: Any, _: Capture) -> Any:
    return subject.invoke(given, config)


async def _ainvoke(subject: Any, given: Any, config: Any, _: Capture) -> Any:
    return await subject.ainvoke(given, config)


def _stream(subject: Any, given: Any, config: Any, capture: Capture) -> None:
    for part in subject.stream(given, config, **_options(subject)):
        capture.add("stream", part)


async def _astream(subject: Any, given: Any, config: Any, capture: Capture) -> None:
    async for part in subject.astream(given, config, **_options(subject)):
        capture.add("stream", part)


def _options(subject: Any) -> dict[str, Any]:
    return {"stream_mode": MODES, "subgraphs": True} if hasattr(subject, "get_state") else {}


def _aevents(version: str) -> Callable[[Any, Any, Any, Capture], Any]:
    async def run(subject: Any, given: Any, config: Any, capture: Capture) -> None:
        async for event in subject.astream_events(given, config, version=version):
            capture.add("events", event)

    return run


def _events_v3(subject: Any, given: Any, config: Any, capture: Capture) -> None:
    for event in subject.stream_events(given, config, version="v3"):
        capture.add("events", event)


async def _aevents_v3(subject: Any, given: Any, config: Any, capture: Capture) -> None:
    async for event in await subject.astream_events(given, config, version="v3"):
        capture.add("events", event)


IN_THREADS: dict[str, Driver] = {"invoke": sync(_invoke), "stream": sync(_stream), "stream_events v3": sync(_events_v3)}
IN_TASKS: dict[str, Driver] = {
    "ainvoke": tasks(_ainvoke, handler_is_async=True),
    "astream": tasks(_astream),
    "astream_events v1": tasks(_aevents("v1"), handler_is_async=True),
    "astream_events v2": tasks(_aevents("v2")),
    "astream_events v3": tasks(_aevents_v3),
}
GRAPH: dict[str, Driver] = {**IN_THREADS, **IN_TASKS}
"""The ways to run a graph."""
CHAIN: dict[str, Driver] = {name: driver for name, driver in GRAPH.items() if "v3" not in name}
"""The ways to run another runnable."""

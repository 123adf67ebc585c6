"""What LangGraph lets a tool, a node or a task do besides returning.

It reaches the graph through the config of its run: it writes state and custom streams, asks a human, and lets what it
calls stream through it. While it executes, it is given a config that tells its crossing; when it is served, the same is
done again with the config of this run.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from langchain_core.callbacks import BaseCallbackManager
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config, get_stream_writer
from langgraph.errors import GraphBubbleUp, ParentCommand
from langgraph.runtime import Runtime
from langgraph.types import Command, interrupt

from agenttape_core.integration import Crossing, Outcome
from agenttape_langchain.integration import Effects, NoteEffect, current_config, in_config
from agenttape_langgraph._compat import (
    NS_SEP,
    RESUME,
    RUNTIME,
    SCRATCHPAD,
    SEND,
    STREAM,
    StreamProtocol,
    asked_human,
    graph_of,
    inside_of,
    is_stream_handler,
    tool_call_writer,
)
from agenttape_langgraph.stable_ids import same_ids
from agenttape_langgraph.stores import aput_again, put_again

_INTERRUPTED = "langgraph.errors:GraphInterrupt"


def _telling(tell: Callable[[Any], None], real: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def told(value: Any) -> Any:
        tell(value)
        return real(value)

    return told


# -- while it executes -------------------------------------------------------------------------------------------------


def _watch(value: Any, tell: NoteEffect) -> Any:
    if isinstance(value, dict):
        return _watched_config(value, tell) if SEND in (value.get("configurable") or ()) else value
    if isinstance(value, Runtime) or _is_tool_runtime(value):
        config = getattr(value, "config", None)
        told = {"config": _watch(config, tell)} if config is not None else {}
        writer = _writer(value.stream_writer, current_config() or {}, tell)
        return dataclasses.replace(value, stream_writer=writer, **told)
    return value


def _is_tool_runtime(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and type(value).__name__ == "ToolRuntime"


def _watched_config(config: Any, tell: NoteEffect) -> Any:
    configurable = dict(config["configurable"])
    watchers: dict[str, Callable[[Any], Any]] = {
        SEND: lambda send: _sender(send, tell),
        STREAM: lambda stream: _relay(stream, config, tell),
        SCRATCHPAD: lambda pad: dataclasses.replace(pad, interrupt_counter=_counter(pad.interrupt_counter, tell)),
        RUNTIME: lambda runtime: runtime.override(stream_writer=_writer(runtime.stream_writer, config, tell)),
    }
    for key, watched in watchers.items():
        if configurable.get(key) is not None:
            configurable[key] = watched(configurable[key])
    return {**config, "configurable": configurable, "callbacks": _callbacks(config, tell)}


def _sender(send: Callable[[Any], Any], tell: NoteEffect) -> Callable[[Any], Any]:
    def told(writes: Any) -> None:
        mine = [[channel, value] for channel, value in writes if channel != RESUME]
        if mine:
            tell("write", mine)

    return _telling(told, send)


def _writer(write: Callable[[Any], Any], config: RunnableConfig, tell: NoteEffect) -> Callable[[Any], Any]:
    """Return a writer of the custom stream; it finds the namespace to write to by the config that it is called in."""
    (own, _) = graph_of(config)

    def told(value: Any) -> None:
        (task, _) = graph_of(current_config() or {})
        if len(task) > len(own) and task[: len(own)] == own:
            tell("custom_inside", {"inside": list(task[len(own) :]), "data": value})
        else:
            tell("custom", value)

    return _telling(told, write)


def _counter(count: Callable[[], int], tell: NoteEffect) -> Callable[[], int]:
    def counted() -> int:
        asked = asked_human()
        if asked is not None:
            tell("interrupt", asked)
        return count()

    return counted


def _relay(stream: Any, config: RunnableConfig, tell: NoteEffect) -> Any:
    """Return where the graphs that are called inside stream to."""
    return StreamProtocol(_telling(lambda part: tell("stream", _plain_part(part, config)), stream), stream.modes)


def _callbacks(config: RunnableConfig, tell: NoteEffect) -> Any:
    """Return the callbacks of a run, of which those that stream what models and tools say tell that, too."""
    callbacks = config.get("callbacks")
    if not isinstance(callbacks, BaseCallbackManager) or not any(map(is_stream_handler, callbacks.handlers)):
        return callbacks
    callbacks = callbacks.copy()
    twins: dict[int, Any] = {}
    heard: list[Any] = list(filter(is_stream_handler, callbacks.handlers))
    for number, handler in enumerate(heard):
        twins[id(handler)] = twin = copy.copy(handler)  # with the same memory of what it has streamed
        by = {"by": number} if number else {}
        twin.stream = _heard(handler.stream, config, by, tell)
        if hasattr(handler, "seen"):
            twin.seen = _Seen(handler.seen, by, tell)
    callbacks.handlers = [twins.get(id(handler), handler) for handler in callbacks.handlers]
    callbacks.inheritable_handlers = [twins.get(id(handler), handler) for handler in callbacks.inheritable_handlers]
    return callbacks


def _heard(
    stream: Callable[[Any], Any], config: RunnableConfig, by: Mapping[str, int], tell: NoteEffect
) -> Callable[[Any], Any]:
    return _telling(lambda part: tell("heard", {**_plain_part(part, config), **by}), stream)


class _Seen:
    """The ids of the messages that a handler need not stream any more; it tells of new ones."""

    def __init__(self, real: set[Any], by: Mapping[str, int], tell: NoteEffect) -> None:
        self._real = real
        self._by = by
        self._tell = tell

    def __contains__(self, message_id: Any) -> bool:
        return message_id in self._real

    def add(self, message_id: Any) -> None:
        if message_id not in self._real:
            self._tell("seen", {"id": message_id, **self._by})
            self._real.add(message_id)


@contextmanager
def _around(crossing: Crossing, tell: NoteEffect) -> Iterator[None]:
    with _giving_parts(crossing, tell):
        try:
            yield
        except GraphBubbleUp as bubble:
            crossing.error_ids = same_ids(crossing.session).of_error(bubble, crossing.position.address)
            if isinstance(bubble, ParentCommand):
                _tell_of_leaving(bubble.args[0], tell)
            raise


def _tell_of_leaving(command: Command[Any], tell: NoteEffect) -> None:
    """NoteEffect of a command for a graph around that ends the call; it names the graph by the ids of tasks."""
    own, _ = graph_of(current_config() or {})
    levels = len((command.graph or "").split(NS_SEP))
    if command.graph == NS_SEP.join(own[:levels]):
        tell("leave", {"levels": levels, "command": dataclasses.replace(command, graph=None)})


@contextmanager
def _giving_parts(crossing: Crossing, tell: NoteEffect) -> Iterator[None]:
    """Be told of what a tool gives of its output before it returns."""
    if crossing.boundary.kind != "tool":
        yield
        return
    real = tool_call_writer.get()
    token = tool_call_writer.set(_telling(lambda part: tell("delta", part), real or (lambda _: None)))
    try:
        yield
    finally:
        tool_call_writer.reset(token)


# -- a part of a stream: where from, in which mode, what ---------------------------------------------------------------


def _plain_part(part: Any, config: RunnableConfig) -> dict[str, Any]:
    namespace, mode, data = part
    if mode == "messages":
        message, metadata = data
        own = config.get("metadata") or {}
        data = [message, {key: item for key, item in metadata.items() if key not in own or own[key] != item}]
    return {**_from_where(namespace, config), "mode": mode, "data": data}


def _from_where(namespace: tuple[str, ...], config: RunnableConfig) -> dict[str, Any]:
    """Return a namespace as it is seen from a run: task ids differ from run to run."""
    own, graph = graph_of(config)
    if namespace == graph:
        return {}
    inside = namespace[: len(own)] == own
    return {"inside": list(namespace[len(own) :])} if inside else {"namespace": list(namespace)}


def _part(plain: Mapping[str, Any], config: RunnableConfig) -> tuple[tuple[str, ...], str, Any]:
    own, graph = graph_of(config)
    namespace = (*own, *plain["inside"]) if "inside" in plain else tuple(plain.get("namespace", graph))
    data = plain["data"]
    if plain["mode"] == "messages":
        data = (data[0], {**(config.get("metadata") or {}), **data[1]})
    return namespace, plain["mode"], data


# -- when it is served -------------------------------------------------------------------------------------------------


def _write(writes: Any) -> None:
    get_config()["configurable"][SEND]([(channel, value) for channel, value in writes])


def _write_custom(value: Any) -> None:
    get_stream_writer()(value)


def _write_inside(plain: Any) -> None:
    config = get_config()
    with in_config(inside_of(config, plain["inside"])):
        get_stream_writer()(plain["data"])


def _interrupt(asked: Any) -> None:
    interrupt(asked["value"], **{key: item for key, item in asked.items() if key != "value"})


def _stream(plain: Any) -> None:
    config = get_config()
    stream = config["configurable"].get(STREAM)
    if stream is not None and plain["mode"] in stream.modes:
        stream(_part(plain, config))


def _hear(plain: Any) -> None:
    """Let the handler of the same place stream it."""
    config = get_config()
    handler = _handler(config, plain.get("by", 0))
    if handler is not None:
        handler.stream(_part(plain, config))


def _see(plain: Any) -> None:
    """Let the handler of the same place not stream a message any more."""
    handler = _handler(get_config(), plain.get("by", 0))
    if hasattr(handler, "seen"):
        handler.seen.add(plain["id"])


def _handler(config: RunnableConfig, number: int) -> Any:
    """Return a handler that streams what models and tools say; nothing if nobody listens this time."""
    callbacks: Any = config.get("callbacks")
    handlers = [h for h in getattr(callbacks, "handlers", ()) if is_stream_handler(h)]
    return handlers[number] if number < len(handlers) else None


def _leave(left: Any) -> None:
    own, _ = graph_of(get_config())
    raise ParentCommand(dataclasses.replace(left["command"], graph=NS_SEP.join(own[: left["levels"]])))


def _delta(part: Any) -> None:
    writer = tool_call_writer.get()
    if writer is not None:
        writer(part)


def _asked(config: RunnableConfig) -> Mapping[str, Any]:
    """Return what humans have answered to the interrupts of the task."""
    pad = (config.get("configurable") or {}).get(SCRATCHPAD)
    if pad is None:
        return {}
    waiting = pad.get_null_resume(False)
    answers = [*pad.resume, *([] if waiting is None else [waiting])]
    return {"answers": answers} if answers else {}


def asks(outcome: Outcome) -> bool:
    """Whether a call has asked a human."""
    if outcome.error is not None and outcome.error.type == _INTERRUPTED:
        return True
    return any(isinstance(effect.value, dict) and "interrupt" in effect.value for effect in outcome.effects)


EFFECTS = Effects(
    apply={
        "store": put_again,
        "write": _write,
        "custom": _write_custom,
        "custom_inside": _write_inside,
        "interrupt": _interrupt,
        "stream": _stream,
        "heard": _hear,
        "seen": _see,
        "delta": _delta,
        "leave": _leave,
    },
    aapply={"store": aput_again},
    watch=_watch,
    around=_around,
    request=_asked,
    depends=lambda outcomes: any(map(asks, outcomes)),
)

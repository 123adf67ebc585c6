"""Side effects that LangGraph lets a tool, a node or a task have in addition to its result.

A call reaches its graph through the config of its run: it writes state and custom streams, interrupts for a human, and
lets inner calls stream through it. While it executes, it gets a config that notes these effects on its call; when
it is replayed, they are applied again with the config of this run.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from langchain_core.callbacks import BaseCallbackManager
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config, get_stream_writer
from langgraph.errors import GraphBubbleUp, ParentCommand
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from langgraph.types import Command

from agenttape_core.integration import ExecutedCall, Outcome
from agenttape_langchain.integration import Effects, NoteEffect, current_config, in_config
from agenttape_langgraph._compat import (
    NS_SEP,
    RESUME,
    RUNTIME,
    SCRATCHPAD,
    SEND,
    STREAM,
    StreamProtocol,
    ask_again,
    graph_of,
    inside_of,
    is_stream_handler,
    pending_question,
    tool_call_writer,
)
from agenttape_langgraph.stable_ids import stable_ids
from agenttape_langgraph.stores import aput_again, noting_store, put_again

# -- Parts of the stream of a graph (namespace, mode, data) as plain data, apart from the run that they came from.


def plain_part(part: Any, config: RunnableConfig) -> dict[str, Any]:
    """Return a part that a tool has put on the stream of a graph, relative to the run of the tool."""
    namespace, mode, data = part
    if mode == "messages":
        message, metadata = data
        data = [message, *_apart_from(config.get("metadata") or {}, metadata)]
    return {**_relative(namespace, config), "mode": mode, "data": data}


def _relative(namespace: tuple[str, ...], config: RunnableConfig) -> dict[str, Any]:
    """Return a namespace relative to a run's: task ids differ from run to run."""
    own, graph = graph_of(config)
    if namespace == graph:
        return {}
    inside = namespace[: len(own)] == own
    return {"inside": list(namespace[len(own) :])} if inside else {"namespace": list(namespace)}


def part_of(plain: Mapping[str, Any], config: RunnableConfig) -> tuple[tuple[str, ...], str, Any]:
    """Return the part of a stream that another run of the tool puts there."""
    own, graph = graph_of(config)
    namespace = (*own, *plain["inside"]) if "inside" in plain else tuple(plain.get("namespace", graph))
    data = plain["data"]
    if plain["mode"] == "messages":
        data = (data[0], _together_with(config.get("metadata") or {}, *data[1:]))
    return namespace, plain["mode"], data


def _apart_from(own: Mapping[str, Any], metadata: Mapping[str, Any]) -> list[Any]:
    """Return the metadata of a part that differ from the run's, with their places if they aren't the last ones."""
    rest = {key: item for key, item in metadata.items() if key not in own or own[key] != item}
    if list({**own, **rest}) == list(metadata):
        return [rest]
    return [rest, [place for place, key in enumerate(metadata) if key in rest]]


def _together_with(
    own: Mapping[str, Any], rest: Mapping[str, Any], places: Sequence[int] | None = None
) -> dict[str, Any]:
    """Return all metadata of a part, including the run's."""
    if places is None:
        return {**own, **rest}
    items = [item for item in own.items() if item[0] not in rest]
    for place, item in zip(places, rest.items(), strict=True):
        items.insert(place, item)
    return dict(items)


_EMIT = "emit_output_delta"
"""The method of a runtime by which a tool emits a part of its output."""
_NOTES = "agenttape_notes"
"""An attribute of a writer of such parts: how it notes them. LangGraph may put its own writer there after a handler."""
_INTERRUPTED = "langgraph.errors:GraphInterrupt"


def _noting(note: Callable[[Any], None], real: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function that notes its argument and then calls the real one."""

    def noted(value: Any) -> Any:
        note(value)
        return real(value)

    return noted


# -- while it executes -------------------------------------------------------------------------------------------------


def _watch(value: Any, note: NoteEffect) -> Any:
    if isinstance(value, dict):
        return _watched_config(value, note) if SEND in (value.get("configurable") or ()) else value
    if isinstance(value, Runtime) or _is_tool_runtime(value):
        config = getattr(value, "config", None)
        watched = {"config": _watch(config, note)} if config is not None else {}
        writer = _writer(value.stream_writer, current_config() or {}, note)
        return dataclasses.replace(value, stream_writer=writer, **watched)
    return value


def _observe(value: Any, note: NoteEffect) -> Any:
    """Let an observed call have a store that notes its writes; a session sees the writes of every store."""
    if isinstance(value, dict):
        runtime = (value.get("configurable") or {}).get(RUNTIME)
        if getattr(runtime, "store", None) is None:
            return value
        return {**value, "configurable": {**value["configurable"], RUNTIME: _observe(runtime, note)}}
    if isinstance(value, Runtime) or _is_tool_runtime(value):
        changed = {} if value.store is None else {"store": _observe(value.store, note)}
        if getattr(value, "config", None) is not None:
            changed["config"] = _observe(value.config, note)
        observed = dataclasses.replace(value, **changed)
        if hasattr(value, _EMIT):
            vars(observed)[_EMIT] = _emitting(getattr(value, _EMIT), note)
        return observed
    if isinstance(value, BaseStore):
        return noting_store(value, lambda puts: note("store", puts))
    return value


def _emitting(emit: Callable[[Any], None], note: NoteEffect) -> Callable[[Any], None]:
    """Return a method that notes a part of the output, unless the writer that it goes to does."""

    def noted(part: Any) -> None:
        if note not in getattr(tool_call_writer.get(), _NOTES, ()):
            note("delta", part)
        emit(part)

    return noted


def _is_tool_runtime(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and type(value).__name__ == "ToolRuntime"


def _watched_config(config: Any, note: NoteEffect) -> Any:
    configurable = dict(config["configurable"])
    watchers: dict[str, Callable[[Any], Any]] = {
        SEND: lambda send: _sender(send, note),
        STREAM: lambda stream: _relay(stream, config, note),
        SCRATCHPAD: lambda pad: _asking(pad, note),
        RUNTIME: lambda runtime: runtime.override(stream_writer=_writer(runtime.stream_writer, config, note)),
    }
    for key, watched in watchers.items():
        if configurable.get(key) is not None:
            configurable[key] = watched(configurable[key])
    return {**config, "configurable": configurable, "callbacks": _callbacks(config, note)}


def _sender(send: Callable[[Any], Any], note: NoteEffect) -> Callable[[Any], Any]:
    def note_writes(writes: Any) -> None:
        own = [[channel, value] for channel, value in writes if channel != RESUME]
        if own:
            note("write", own)

    return _noting(note_writes, send)


def _writer(write: Callable[[Any], Any], config: RunnableConfig, note: NoteEffect) -> Callable[[Any], Any]:
    """Return a writer of the custom stream. It takes the namespace from the config that it is called in."""
    (own, _) = graph_of(config)

    def note_custom(value: Any) -> None:
        (task, _) = graph_of(current_config() or {})
        if len(task) > len(own) and task[: len(own)] == own:
            note("custom_inside", {"inside": list(task[len(own) :]), "data": value})
        else:
            note("custom", value)

    return _noting(note_custom, write)


def _asking(pad: Any, note: NoteEffect) -> Any:
    """Return the scratchpad of a task, on which the questions that the call asks are noted.

    `interrupt` counts first, and then takes an answer: one that the task has had before, or the one that waits.
    """
    are_new: list[bool] = []

    def counted() -> int:
        number: int = pad.interrupt_counter()
        if number < len(pad.resume):
            note_question(pad.resume[number])
        else:
            are_new.append(True)
        return number

    def waiting(consume: bool = False) -> Any:
        answer = pad.get_null_resume(consume)
        if consume and are_new:  # and not for a graph inside the call, which asks its outer one
            are_new.clear()
            note_question(answer)
        return answer

    def note_question(answer: Any) -> None:
        question = pending_question(answer)
        if question is not None:
            note("interrupt", question)

    return dataclasses.replace(pad, interrupt_counter=counted, get_null_resume=waiting)


def _relay(stream: Any, config: RunnableConfig, note: NoteEffect) -> Any:
    """Return the stream of graphs that are called inside."""
    return StreamProtocol(_noting(lambda part: note("stream", plain_part(part, config)), stream), stream.modes)


def _callbacks(config: RunnableConfig, note: NoteEffect) -> Any:
    """Return the callbacks of a run; parts that they stream of models and tools are noted."""
    callbacks = config.get("callbacks")
    if not isinstance(callbacks, BaseCallbackManager) or not any(map(is_stream_handler, callbacks.handlers)):
        return callbacks
    callbacks = callbacks.copy()
    streaming: list[Any] = list(filter(is_stream_handler, callbacks.handlers))
    twins: dict[int, Any] = {
        id(handler): note.twin_of(handler, partial(_twin, handler, config, {"by": number} if number else {}, note))
        for number, handler in enumerate(streaming)
    }
    callbacks.handlers = [twins.get(id(handler), handler) for handler in callbacks.handlers]
    callbacks.inheritable_handlers = [twins.get(id(handler), handler) for handler in callbacks.inheritable_handlers]
    return callbacks


def _twin(handler: Any, config: RunnableConfig, by: Mapping[str, int], note: NoteEffect) -> Any:
    """Return a handler that streams like another one, and notes its chunks."""
    twin = copy.copy(handler)  # it shares the memory of what was streamed
    twin.stream = _handler_stream(handler.stream, config, by, note)
    if hasattr(handler, "seen"):
        twin.seen = _Seen(handler.seen, by, note)
    return twin


def _handler_stream(
    stream: Callable[[Any], Any], config: RunnableConfig, by: Mapping[str, int], note: NoteEffect
) -> Callable[[Any], Any]:
    return _noting(lambda part: note("heard", {**plain_part(part, config), **by}), stream)


class _Seen:
    """The ids of the messages that a handler has streamed; new ones are noted."""

    def __init__(self, real: set[Any], by: Mapping[str, int], note: NoteEffect) -> None:
        self._real = real
        self._by = by
        self._tell = note

    def __contains__(self, message_id: Any) -> bool:
        return message_id in self._real

    def add(self, message_id: Any) -> None:
        if message_id not in self._real:
            self._tell("seen", {"id": message_id, **self._by})
            self._real.add(message_id)


@contextmanager
def _around(session_call: ExecutedCall, note: NoteEffect) -> Iterator[None]:
    with _noting_deltas(session_call, note):
        try:
            yield
        except GraphBubbleUp as bubble:
            session_call.error_ids = stable_ids(session_call.session).of_error(bubble, session_call.position.address)
            if isinstance(bubble, ParentCommand):
                _note_leaving(bubble.args[0], note)
            raise


def _note_leaving(command: Command[Any], note: NoteEffect) -> None:
    """Note a command for an outer graph that ends the call; it names that graph by the ids of tasks."""
    own, _ = graph_of(current_config() or {})
    levels = len((command.graph or "").split(NS_SEP))
    if command.graph == NS_SEP.join(own[:levels]):
        note("leave", {"levels": levels, "command": dataclasses.replace(command, graph=None)})


@contextmanager
def _noting_deltas(session_call: ExecutedCall, note: NoteEffect) -> Iterator[None]:
    """Note the parts of its output that a tool emits before it returns."""
    if session_call.boundary.kind != "tool":
        yield
        return
    real = tool_call_writer.get()
    noted = _noting(lambda part: note("delta", part), real or (lambda _: None))
    vars(noted)[_NOTES] = (note, *getattr(real, _NOTES, ()))
    tool_call_writer.set(noted)
    try:
        yield
    finally:
        if tool_call_writer.get() is noted:  # no token: an abandoned call is closed in another context
            tool_call_writer.set(real)


# -- when it is replayed -----------------------------------------------------------------------------------------------


def _write(writes: Any) -> None:
    get_config()["configurable"][SEND]([(channel, value) for channel, value in writes])


def _write_custom(value: Any) -> None:
    get_stream_writer()(value)


def _write_inside(plain: Any) -> None:
    config = get_config()
    with in_config(inside_of(config, plain["inside"])):
        get_stream_writer()(plain["data"])


def _stream(plain: Any) -> None:
    config = get_config()
    stream = config["configurable"].get(STREAM)
    if stream is not None and plain["mode"] in stream.modes:
        stream(part_of(plain, config))


def _stream_by_handler(plain: Any) -> None:
    """Let the handler of the same number stream a part."""
    config = get_config()
    handler = _handler(config, plain.get("by", 0))
    if handler is not None:
        handler.stream(part_of(plain, config))


def _mark_seen(plain: Any) -> None:
    """Let the handler of the same number not stream a message again."""
    handler = _handler(get_config(), plain.get("by", 0))
    if hasattr(handler, "seen"):
        handler.seen.add(plain["id"])


def _handler(config: RunnableConfig, number: int) -> Any:
    """Return a handler that streams parts of models and tools; `None` if this run streams none."""
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


def _answers(config: RunnableConfig) -> Mapping[str, Any]:
    """Return the answers of humans to the interrupts of the task, as a part of the request."""
    pad = (config.get("configurable") or {}).get(SCRATCHPAD)
    if pad is None:
        return {}
    waiting = pad.get_null_resume(False)
    answers = [*pad.resume, *([] if waiting is None else [waiting])]
    return {"answers": answers} if answers else {}


def asks(outcome: Outcome) -> bool:
    """Return true for the outcome of a call that interrupted to ask a human."""
    if outcome.error is not None and outcome.error.type == _INTERRUPTED:
        return True
    return any(isinstance(effect.value, dict) and "interrupt" in effect.value for effect in outcome.effects)


EFFECTS = Effects(
    apply={
        "store": put_again,
        "write": _write,
        "custom": _write_custom,
        "custom_inside": _write_inside,
        "interrupt": ask_again,
        "stream": _stream,
        "heard": _stream_by_handler,
        "seen": _mark_seen,
        "delta": _delta,
        "leave": _leave,
    },
    aapply={"store": aput_again},
    watch=_watch,
    observe=_observe,
    around=_around,
    request=_answers,
    depends=lambda outcomes: any(map(asks, outcomes)),
)

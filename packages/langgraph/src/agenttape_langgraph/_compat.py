"""The only file that touches what LangGraph does not promise to keep.

Read against langgraph 1.2; each function says what it relies on.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import RunnableSequence
from langchain_core.runnables.config import ContextThreadPoolExecutor
from langgraph._internal._constants import CONFIG_KEY_CALL as CALL
from langgraph._internal._constants import CONFIG_KEY_CHECKPOINT_NS, NS_END, NS_SEP, RESUME
from langgraph._internal._constants import CONFIG_KEY_RUNTIME as RUNTIME
from langgraph._internal._constants import CONFIG_KEY_SCRATCHPAD as SCRATCHPAD
from langgraph._internal._constants import CONFIG_KEY_SEND as SEND
from langgraph._internal._constants import CONFIG_KEY_STREAM as STREAM
from langgraph._internal._runnable import RunnableCallable, RunnableSeq, is_async_callable
from langgraph.func import _TaskFunction as TaskFunction
from langgraph.pregel import _executor, _messages, _runner
from langgraph.pregel._algo import task_path_str
from langgraph.pregel._messages import StreamMessagesHandler
from langgraph.pregel._tools import StreamToolCallHandler
from langgraph.pregel._tools import _tool_call_writer as tool_call_writer
from langgraph.pregel.protocol import StreamProtocol
from langgraph.store import memory
from langgraph.types import interrupt
from pydantic import TypeAdapter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

__all__ = [
    "CALL",
    "EXECUTORS",
    "NS_END",
    "NS_SEP",
    "RESUME",
    "RUNTIME",
    "SAVERS_OF_WRITES",
    "SCRATCHPAD",
    "SEND",
    "STREAM",
    "TASK_RUNNERS",
    "FuturesDict",
    "RunnableCallable",
    "StreamProtocol",
    "TaskFunction",
    "asked_human",
    "context_of",
    "graph_of",
    "inside_of",
    "is_async_callable",
    "is_function_node",
    "is_internal_channel",
    "is_sequence",
    "is_stream_handler",
    "name_of_task",
    "route_of",
    "runner",
    "searching_in_context",
    "store_of",
    "task_path_str",
    "tool_call_writer",
    "writer_of",
]


# -- what effects.py and nodes.py need -------------------------------------------------------------------------------


def graph_of(config: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the namespace of the task that a config is for, and that of the graph the task belongs to.

    The first is in the config; `graph_namespace` of `langgraph.pregel._messages`, where there is one, tells the second
    of the metadata. Before, LangGraph took it for all of the first but its end.
    """
    namespace = (config.get("configurable") or {}).get(CONFIG_KEY_CHECKPOINT_NS) or ""
    own = tuple(namespace.split(NS_SEP)) if namespace else ()
    metadata = config.get("metadata") or {}
    told = getattr(_messages, "graph_namespace", None)
    return own, told(metadata) if told is not None and "langgraph_checkpoint_ns" in metadata else own[:-1]


def inside_of(config: Any, segments: list[str]) -> Any:
    """Return a config as a task has it that runs inside the task of another one, for who asks it for the namespace."""
    namespace = NS_SEP.join([*graph_of(config)[0], *segments])
    return {**config, "configurable": {**config["configurable"], CONFIG_KEY_CHECKPOINT_NS: namespace}}


def is_stream_handler(handler: Any) -> bool:
    """Whether a callback handler is one by which LangGraph streams what models and tools say: it calls its `stream`."""
    return isinstance(handler, StreamMessagesHandler | StreamToolCallHandler)


def asked_human() -> dict[str, Any] | None:
    """Return what `interrupt` is asking, for the counter of interrupts that it calls first of all.

    It keeps the question in its arguments `value` and `response_schema`; a type among the latter is told by its schema,
    as `Interrupt.response_schema` is.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not interrupt.__code__:
        frame = frame.f_back
    if frame is None:
        return None
    asked = {"value": frame.f_locals["value"]}
    schema = frame.f_locals.get("response_schema")
    if schema is not None:
        asked["response_schema"] = schema if isinstance(schema, dict) else TypeAdapter(schema).json_schema()
    return asked


def is_function_node(bound: Any) -> bool:
    """Whether a node is a plain function; LangGraph has classes of its own below that of function nodes."""
    return type(bound) is RunnableCallable


def is_sequence(bound: Any) -> bool:
    """Whether a node is a sequence, whose steps `RunnableSeq` puts in the place of it."""
    return isinstance(bound, RunnableSequence | RunnableSeq)


def name_of_task(func: Any) -> str:
    """Return what a task is called, as `get_runnable_for_task` of `langgraph.pregel._call` names it."""
    if hasattr(func, "__name__"):
        return str(func.__name__)
    return str(func.func.__name__ if hasattr(func, "func") else type(func).__name__)


@contextmanager
def searching_in_context() -> Iterator[None]:
    """Let the threads in which an `InMemoryStore` embeds what it is asked know the context; by themselves they do not.

    Relies on its module making them with `cf.ThreadPoolExecutor`, and using nothing else of `cf`.
    """
    module: Any = memory
    real = module.cf
    module.cf = SimpleNamespace(ThreadPoolExecutor=ContextThreadPoolExecutor)
    try:
        yield
    finally:
        module.cf = real


def store_of(config: Any) -> Any:
    """Return the store of the graph that a config of a run belongs to."""
    return getattr(((config or {}).get("configurable") or {}).get(RUNTIME), "store", None)


def writer_of(config: Any) -> Any:
    """Return the function by which a run writes to the custom stream, as the runtime in its config has it."""
    return getattr(((config or {}).get("configurable") or {}).get(RUNTIME), "stream_writer", None)


def context_of(config: Any) -> Any:
    """Return the context that a run was given, which the runtime in its config holds."""
    return getattr((config.get("configurable") or {}).get(RUNTIME), "context", None)


# -- what strands.py and steps.py need -------------------------------------------------------------------------------

FuturesDict: Any = _runner.FuturesDict
"""The futures of the tasks of one superstep; `on_done` is called when one has ended, and commits what it wrote."""

runner: Any = _runner
"""The module that runs the tasks of a superstep; `_panic_or_proceed` raises what they raised, once all have ended."""

EXECUTORS: tuple[Any, ...] = (_executor.BackgroundExecutor, _executor.AsyncBackgroundExecutor)
"""Where a graph submits its tasks, and what else is to happen beside it."""

TASK_RUNNERS = frozenset({"run_with_retry", "arun_with_retry"})
"""The functions that run a task."""

SAVERS_OF_WRITES = frozenset({"put_writes", "aput_writes"})
"""The methods of savers that a loop submits with a config, the writes, the id and the path of a task."""

_ROUTES = "branch:to:"
_TASKS = "__pregel_tasks"


def is_internal_channel(channel: str) -> bool:
    """Whether a channel is one of LangGraph's own: those of `graph/state.py` that start a node, and reserved ones."""
    return channel.startswith(_ROUTES) or channel in {
        _TASKS,
        "__no_writes__",
        "__resume__",
        "__error__",
        "__interrupt__",
    }


def route_of(writes: Any) -> list[str]:
    """Return the nodes that a task chose to go on with, of what it wrote: of edges, conditions, `goto` and `Send`."""
    chosen = []
    for channel, value in writes:
        if channel.startswith(_ROUTES):
            chosen.append(channel.removeprefix(_ROUTES))
        elif channel == _TASKS:
            chosen += [each.node for each in (value if isinstance(value, list | tuple) else [value])]
    return chosen

"""The only file that uses parts of LangGraph that it does not promise to keep.

Read against langgraph 1.2; each function documents the part that it relies on.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import RunnableSequence
from langchain_core.runnables.config import ContextThreadPoolExecutor
from langgraph._internal._constants import CONFIG_KEY_CALL as CALL
from langgraph._internal._constants import CONFIG_KEY_CHECKPOINT_NS, CONFIG_KEY_CHECKPOINTER, NS_END, NS_SEP, RESUME
from langgraph._internal._constants import CONFIG_KEY_RUNTIME as RUNTIME
from langgraph._internal._constants import CONFIG_KEY_SCRATCHPAD as SCRATCHPAD
from langgraph._internal._constants import CONFIG_KEY_SEND as SEND
from langgraph._internal._constants import CONFIG_KEY_STREAM as STREAM
from langgraph._internal._runnable import RunnableCallable, RunnableSeq, is_async_callable
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config
from langgraph.func import _TaskFunction as TaskFunction
from langgraph.pregel import _executor, _messages, _retry, _runner
from langgraph.pregel import main as _main
from langgraph.pregel._algo import task_path_str
from langgraph.pregel._messages import StreamMessagesHandler
from langgraph.pregel._tools import StreamToolCallHandler
from langgraph.pregel._tools import _tool_call_writer as tool_call_writer
from langgraph.pregel.protocol import StreamProtocol
from langgraph.store import memory
from langgraph.types import interrupt
from pydantic import TypeAdapter, ValidationError

from langgraph import errors as _errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import FrameType

__all__ = [
    "BEGINNING",
    "CALL",
    "EXECUTORS",
    "NS_END",
    "NS_SEP",
    "RAISED_BY_OTHERS",
    "RESUME",
    "RUNTIME",
    "SAVERS_OF_WRITES",
    "SCRATCHPAD",
    "SEND",
    "STREAM",
    "TASK_RUNNERS",
    "FuturesDict",
    "NodeTimeoutError",
    "PartsQueue",
    "RunnableCallable",
    "StreamProtocol",
    "TaskFunction",
    "ask_again",
    "context_of",
    "graph_of",
    "inside_of",
    "is_async_callable",
    "is_function_node",
    "is_internal_channel",
    "is_sequence",
    "is_stream_handler",
    "name_of_task",
    "pending_question",
    "route_of",
    "runner",
    "saves_in_memory",
    "saving_to",
    "searching_in_context",
    "store_of",
    "task_path_str",
    "tool_call_writer",
    "twin_of",
    "writer_of",
]


# -- for effects.py and graphs.py -------------------------------------------------------------------------------------


def graph_of(config: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the namespace of the task that a config is for, and the namespace of the task's graph.

    The first is in the config. `graph_namespace` of `langgraph.pregel._messages`, where it exists, reads the second
    from the metadata; older versions of LangGraph took all of the first but its end.
    """
    namespace = (config.get("configurable") or {}).get(CONFIG_KEY_CHECKPOINT_NS) or ""
    own = tuple(namespace.split(NS_SEP)) if namespace else ()
    metadata = config.get("metadata") or {}
    namespace_in = getattr(_messages, "graph_namespace", None)
    if namespace_in is None or "langgraph_checkpoint_ns" not in metadata:
        return own, own[:-1]
    return own, namespace_in(metadata)


def inside_of(config: Any, segments: list[str]) -> Any:
    """Return the config of a task that runs inside the task of another config, as far as the namespace goes."""
    namespace = NS_SEP.join([*graph_of(config)[0], *segments])
    return {**config, "configurable": {**config["configurable"], CONFIG_KEY_CHECKPOINT_NS: namespace}}


def is_stream_handler(handler: Any) -> bool:
    """Return true for a callback handler by which LangGraph streams models and tools: it calls its own `stream`."""
    return isinstance(handler, StreamMessagesHandler | StreamToolCallHandler)


def pending_question(answer: Any) -> dict[str, Any] | None:
    """Return the question of the `interrupt` that is calling; `None` if none is.

    The question is in its arguments `value` and `response_schema`. A type as the latter is replaced by its JSON schema,
    as in `Interrupt.response_schema`. `refused` is added if the answer does not fit that type: then `interrupt` raises
    a validation error, and the answer is not saved. `answer` is the human's answer; `None` without one.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not interrupt.__code__:
        frame = frame.f_back
    if frame is None:
        return None
    question = {"value": frame.f_locals["value"]}
    schema = frame.f_locals.get("response_schema")
    if isinstance(schema, dict):
        question["response_schema"] = schema
    elif schema is not None:
        adapter: TypeAdapter[Any] = TypeAdapter(schema)
        question["response_schema"] = adapter.json_schema()
        if answer is not None and not _fits(adapter, answer):
            question["refused"] = True
    return question


def _fits(adapter: TypeAdapter[Any], answer: Any) -> bool:
    try:
        adapter.validate_python(answer)
    except ValidationError:
        return False
    return True


def ask_again(question: Mapping[str, Any]) -> None:
    """Repeat a question from `pending_question`; the error for a refused answer isn't raised."""
    if not question.get("refused"):
        interrupt(question["value"], **{key: item for key, item in question.items() if key != "value"})
        return
    pad = get_config()["configurable"][SCRATCHPAD]
    if pad.interrupt_counter() >= len(pad.resume):
        pad.get_null_resume(True)  # as `interrupt` does: the answer is taken, and not saved


def twin_of(value: Any, cls: Any = None, /, **changes: Any) -> Any:
    """Return an object with the attributes of a graph, a builder or a node's function, and changes of them.

    `Pregel.copy` calls the constructor, which may take other arguments in a subclass, so it isn't used.

    `cls` is the class of the twin, by default the object's.
    """
    twin = object.__new__(cls if cls is not None else type(value))
    vars(twin).update(vars(value), **changes)
    return twin


BEGINNING = (_main.Pregel, "_defaults")
"""The class of graphs, and the name of a method that each run of one calls first, synchronous or not."""


def saving_to(config: Any, saver: Any) -> Any:
    """Return a config by which a graph edits its own state in a saver, even if it is a subgraph of another one.

    Without the key, `update_state` looks for the subgraph of the namespace in the config among the nodes of the graph.
    """
    return {**config, "configurable": {**config["configurable"], CONFIG_KEY_CHECKPOINTER: saver}}


def is_function_node(bound: Any) -> bool:
    """Return true for a node that is a plain function; subclasses of its class are nodes of LangGraph's own."""
    return type(bound) is RunnableCallable


def is_sequence(bound: Any) -> bool:
    """Return true for a node that is a sequence; `RunnableSeq` replaces sequences inside it by their steps."""
    return isinstance(bound, RunnableSequence | RunnableSeq)


def name_of_task(func: Any) -> str:
    """Return the name of a task, as `get_runnable_for_task` of `langgraph.pregel._call` chooses it."""
    if hasattr(func, "__name__"):
        return str(func.__name__)
    return str(func.func.__name__ if hasattr(func, "func") else type(func).__name__)


@contextmanager
def searching_in_context() -> Iterator[None]:
    """Carry the context into the threads in which an `InMemoryStore` embeds queries, while inside.

    Relies on its module making them with `cf.ThreadPoolExecutor`, and using no other name of `cf`.
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
    """Return the function by which a run writes to the custom stream, from the runtime in its config."""
    return getattr(((config or {}).get("configurable") or {}).get(RUNTIME), "stream_writer", None)


def context_of(config: Any) -> Any:
    """Return the context of a run, from the runtime in its config."""
    return getattr((config.get("configurable") or {}).get(RUNTIME), "context", None)


# -- for scheduling.py and node_steps.py -------------------------------------------------------------------------------

NodeTimeoutError: Any = getattr(_errors, "NodeTimeoutError", None)
"""The error of a node that ran out of time; `None` in versions without timeouts of nodes."""

FuturesDict: Any = _runner.FuturesDict
"""The futures of the tasks of one superstep; `on_done` is called when one has ended, and commits its writes."""

runner: Any = _runner
retry: Any = _retry
"""The module that watches the time of nodes, by the module `time` in its names."""
"""The module that runs the tasks of a superstep; `_panic_or_proceed` raises their errors once all have ended."""

_pregel: Any = _main
PartsQueue: Any = _pregel.SyncQueue
"""The queue that takes the parts of a stream, in the threads in which they arise."""

EXECUTORS: tuple[Any, ...] = (_executor.BackgroundExecutor, _executor.AsyncBackgroundExecutor)
"""The executors to which a graph submits its tasks and its background work."""

RAISED_BY_OTHERS: Any = runner.SKIP_RERAISE_SET
"""The futures of tasks whose error the graph doesn't raise: their callers raise or handle it."""

TASK_RUNNERS = frozenset({"run_with_retry", "arun_with_retry"})
"""The functions that run a task."""

SAVERS_OF_WRITES = frozenset({"put_writes", "aput_writes"})
"""The methods of savers that a loop submits with a config, the writes, the id and the path of a task."""


def saves_in_memory(fn: Any) -> bool:
    """Return true for save work that a synchronous loop submits, if its saver is an `InMemorySaver`.

    So is one that is derived from it: if its own parts and those of `InMemorySaver` waited separately, the graph would
    continue between them. What is submitted is the method of the saver for the writes of a task, and for a checkpoint a
    method of the loop, which waits for the checkpoint before.
    """
    owner = getattr(fn, "__self__", None)
    if getattr(fn, "__name__", "") == "_checkpointer_put_after_previous":
        owner = getattr(owner, "checkpointer", None)
    return isinstance(owner, InMemorySaver)


_ROUTES = "branch:to:"
_TASKS = "__pregel_tasks"


def is_internal_channel(channel: str) -> bool:
    """Return true for a channel of LangGraph's own: one from `graph/state.py` that starts a node, or a reserved one."""
    return channel.startswith(_ROUTES) or channel in {
        _TASKS,
        "__no_writes__",
        "__resume__",
        "__error__",
        "__interrupt__",
    }


def route_of(writes: Any) -> list[str]:
    """Return the nodes that a task continues to, from its writes: by edges, conditions, `goto` and `Send`."""
    chosen = []
    for channel, value in writes:
        if channel.startswith(_ROUTES):
            chosen.append(channel.removeprefix(_ROUTES))
        elif channel == _TASKS:
            chosen += [each.node for each in (value if isinstance(value, list | tuple) else [value])]
    return chosen

"""Everything that this package uses of LlamaIndex that is not public; no other file does."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import wrapt
from llama_index.core.llms import callbacks
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
from llama_index.core.tools import FunctionTool
from llama_index_instrumentation import root_dispatcher
from llama_index_instrumentation.dispatcher import DISPATCHER_SPAN_DECORATED_ATTR
from llama_index_instrumentation.span import active_span_id
from llama_index_instrumentation.span_handlers import BaseSpanHandler
from workflows import Workflow
from workflows.context.external_context import ExternalContext
from workflows.context.internal_context import InternalContext
from workflows.events import DictLikeModel, HumanResponseEvent
from workflows.plugins.basic import basic_runtime
from workflows.runtime.control_loop.runner import _ControlLoopRunner
from workflows.runtime.types.results import StepWorkerStateContextVar
from workflows.runtime.types.ticks import TickIdleCheck, TickWaiterTimeout, TickWakeup

from agenttape_core.integration.threads import FuturesInOrder

RUN_IDS_OF = (
    "llama_index.core.callbacks",
    "llama_index.core.instrumentation",
    "llama_index_instrumentation",
    "workflows",
)
"""The packages that draw ids of runs, of spans and of events."""
_ID = len("-00000000-0000-4000-8000-000000000000")


def current_span_id() -> str | None:
    """Return the id of the span that the caller's code runs in."""
    return active_span_id.get()


def span_name(span_id: str) -> str:
    """Return the name of a span: its id is the name and a UUID."""
    return span_id[:-_ID] if len(span_id) > _ID else span_id


def hook_span_handler(handler: BaseSpanHandler[Any]) -> Callable[[], None]:
    """Add a handler of every span of this process, before all others, and return a function that removes it.

    The list is changed in place: a dispatcher may be iterating over it.
    """
    root_dispatcher.span_handlers.insert(0, handler)
    return lambda: root_dispatcher.span_handlers.remove(handler)


def within_decorators(method: Any, make: Callable[[Any], Any]) -> Any:
    """Return a method with the decorators of another one, around a function made of the one inside.

    The decorators of the framework, `dispatcher.span` and the ones in `llms.callbacks`, begin spans, fire events and
    wait for rate limiters. They do so also for calls that are replayed. `method` is from the class dict; `make` makes
    the function.
    """
    if isinstance(method, wrapt.FunctionWrapper):
        inner = within_decorators(method.__wrapped__, make)
        setattr(inner, DISPATCHER_SPAN_DECORATED_ATTR, True)
        return wrapt.FunctionWrapper(inner, method._self_wrapper)
    if isinstance(method, types.FunctionType) and method.__globals__ is vars(callbacks):
        names = method.__code__.co_freevars
        if "f" in names:
            return _with_cell(method, names.index("f"), make)
    return make(method)


def _with_cell(function: types.FunctionType, place: int, make: Callable[[Any], Any]) -> Any:
    cells = list(function.__closure__ or ())
    cells[place] = types.CellType(within_decorators(cells[place].cell_contents, make))
    twin = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, tuple(cells)
    )
    twin.__kwdefaults__ = function.__kwdefaults__
    twin.__dict__.update(function.__dict__)
    for name in ("__module__", "__qualname__", "__doc__", "__annotations__"):
        setattr(twin, name, getattr(function, name))
    return twin


def function_inside(llm: Any, name: str) -> Callable[..., Any]:
    """Return the function inside the decorators of a leaf method, as the class defines it."""
    found: list[Callable[..., Any]] = []

    def find(function: Callable[..., Any]) -> Callable[..., Any]:
        found.append(function)
        return function

    within_decorators(inspect.getattr_static(type(llm), name), find)
    return found[0]


def prepared_chat(llm: Any, tools: list[Any], messages: list[Any], *, is_required: bool) -> dict[str, Any]:
    """Return the arguments of `chat` with which an LLM offers tools."""
    arguments: dict[str, Any] = llm._prepare_chat_with_tools_compat(
        tools, chat_history=messages, allow_parallel_tool_calls=True, tool_required=is_required
    )
    return arguments


def reports_chunks(frame: types.FrameType) -> bool:
    """Return whether the generator of a frame is one of the framework's, which fires events for its chunks."""
    return frame.f_globals is vars(callbacks)


@contextmanager
def unmarked(error: BaseException | None) -> Iterator[None]:
    """Remove, while inside, the mark that the framework puts on an error that it has reported to callbacks."""
    marks = vars(error) if error is not None else {}
    if "event_added" not in marks:
        yield
        return
    mark = marks.pop("event_added")
    try:
        yield
    finally:
        marks["event_added"] = mark


def is_decorated(method: Any) -> bool:
    """Return whether the framework begins a span for each call of a method."""
    return isinstance(method, wrapt.FunctionWrapper) or hasattr(method, DISPATCHER_SPAN_DECORATED_ATTR)


def static(cls: type, name: str) -> Any:
    """Return the raw attribute of a class or of one above it, without calling descriptors."""
    return inspect.getattr_static(cls, name, None)


def undecorated(llm: Any, name: str) -> Callable[..., Any]:
    """Return a method of an LLM without the framework's decorators: calls of it begin no spans and fire no events."""
    found: list[Any] = []

    def keep(function: Any) -> Any:
        found.append(function)
        return function

    within_decorators(static(type(llm), name), keep)
    method: Callable[..., Any] = types.MethodType(found[0], llm)
    return method


def answered_by(cls: Any, settings: dict[str, Any], http_client: Any) -> Any:
    """Return a provider's model that sends with the given HTTP client.

    OpenAI's classes take one. `Anthropic` does not: it makes its SDK's client when it is constructed, as `_client`.
    """
    if "http_client" in inspect.signature(cls.__init__).parameters:
        return cls(**settings, http_client=http_client)
    model = cls(**settings)
    model._client = model._client.with_options(http_client=http_client)
    return model


# -- tools ------------------------------------------------------------------------------------------------------------


def functions_of(tool: FunctionTool) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the functions that a tool calls: the synchronous one, and the one that is awaited."""
    return tool._fn, tool._async_fn


def with_functions(tool: Any, function: Any, async_function: Any) -> Any:
    """Return a tool that shares the state of another one and calls other functions."""
    cls: Any = type(tool)
    twin = object.__new__(_calling(cls))
    object.__setattr__(twin, "__dict__", tool.__dict__)
    twin.agenttape_functions = (function, async_function)
    return twin


@functools.cache
def _calling(cls: Any) -> Any:
    """Return a class of tools whose functions are not in the state that they share with others."""
    looks = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    own = {
        "__slots__": ("agenttape_functions",),
        "_fn": property(lambda self: self.agenttape_functions[0]),
        "_async_fn": property(lambda self: self.agenttape_functions[1]),
    }
    return type(cls)(cls.__name__, (cls,), {**looks, **own})


# -- stores -----------------------------------------------------------------------------------------------------------


def is_in_process(store: Any) -> bool:
    """Return whether a chat store in a database has the database in the memory of this process."""
    if not isinstance(store, SQLAlchemyChatStore):
        return False
    engine = store._async_engine
    if engine is not None:
        return engine.url.get_backend_name() == "sqlite" and engine.url.database in {None, "", ":memory:"}
    return SQLAlchemyChatStore._is_in_memory_uri(store.async_database_uri)


# -- workflows --------------------------------------------------------------------------------------------------------


def step_names(workflow: Workflow) -> set[str]:
    """Return the names of the step functions of a workflow."""
    return set(workflow._get_steps())


def answered_steps(workflow: Workflow) -> set[str]:
    """Return the names of the steps of a workflow that only take answers of people."""
    configs = {name: getattr(step, "_step_config", None) for name, step in workflow._get_steps().items()}
    return {
        name
        for name, config in configs.items()
        if config is not None and all(issubclass(event, HumanResponseEvent) for event in config.accepted_events)
    }


RUNNING_CONTEXT = InternalContext
"""The inner side of a context: inside of a step."""


def is_step(member: Any) -> bool:
    """Return whether a member of a class is a step function of a workflow."""
    return hasattr(member, "_step_config")


def decorated_by(decorator: Any) -> Any:
    """Return the runtime or the adapter inside of a decorator."""
    return decorator._decorated


def run_of(context: Any) -> Any:
    """Return the identity that all contexts of a run share: the id of the run, or the inner side outside of a run."""
    adapter = getattr(context._face, "_internal_adapter", None) or getattr(context._face, "_external_adapter", None)
    return adapter.run_id if adapter is not None else context._face


def belongs_to_run(face: Any, run: Any) -> bool:
    """Return whether the inner side of a context belongs to a run that `run_of` has named."""
    return run is face or face._internal_adapter.run_id == run


def resolved_waits() -> list[Any]:
    """Return the events that the step executing here has waited for and received, in the order of the waits."""
    try:
        waiters = StepWorkerStateContextVar.get().state.collected_waiters
    except LookupError:
        return []
    return [waiter.resolved_event for waiter in waiters if waiter.resolved_event is not None]


def state_items(state: Any) -> dict[str, Any]:
    """Return the items of the state of a workflow: its declared fields, and those that were added."""
    fields = {name: getattr(state, name) for name in type(state).model_fields}
    return {**fields, **(state._data if isinstance(state, DictLikeModel) else {})}


def unset_state_item(state: Any, key: str) -> None:
    """Remove an item that was added to the state of a workflow."""
    if isinstance(state, DictLikeModel):
        state._data.pop(key, None)


CONTROL_LOOP = _ControlLoopRunner
"""The loop that starts the steps of a workflow, and waits until they are due."""


def scheduled(runner: Any) -> list[tuple[float, int, Any]]:
    """Return the heap of ticks that a control loop has scheduled: moment, number, tick."""
    heap: list[tuple[float, int, Any]] = runner.scheduled_wakeups
    return heap


def buffered(runner: Any) -> int:
    """Return the number of ticks that a control loop has to process now, without its looks at whether it is idle."""
    return sum(not isinstance(tick, TickIdleCheck) for tick in runner.tick_buffer)


def is_at_rest(runner: Any) -> bool:
    """Return whether a control loop is idle until its next scheduled tick is due."""
    return not (runner.worker_tasks or runner.tick_buffer or runner._pending_workers)


def around_processing(runner: Any, change: Callable[[Any], Any], after: Callable[[], list[Any]]) -> None:
    """Let a control loop process its ticks as converted by one function, and take the next one from another.

    `change` returns the tick that is processed in place of one; `after` returns the ticks that are processed next,
    before those that the loop has already to process.
    """
    process = runner._process_tick

    async def process_tick(tick: Any) -> Any:
        result = await process(change(tick))
        runner.tick_buffer[:0] = after()
        return result

    runner._process_tick = process_tick


def keep_workers_in_order(runner: Any) -> None:
    """Let a control loop look at its workers in the order in which they began: it keeps them in a set."""
    runner.worker_tasks = FuturesInOrder(runner.worker_tasks)


def is_retry(tick: Any) -> bool:
    """Return whether a scheduled tick ends the delay before another attempt."""
    return isinstance(tick, TickWakeup)


def ends_a_wait(tick: Any) -> bool:
    """Return whether a scheduled tick ends a wait of a step: before another attempt, or for an event."""
    return isinstance(tick, TickWakeup | TickWaiterTimeout)


OUTER_CONTEXT = ExternalContext
"""The outer side of a context: outside of its run."""


def forget_run(run_id: str) -> bool:
    """Release the id of a run that has ended, though someone may still hold the run; return whether the id is free."""
    run = basic_runtime._queues.get(run_id)
    if run is not None and run.complete.done():
        basic_runtime._queues.pop(run_id, None)
        return True
    return run is None

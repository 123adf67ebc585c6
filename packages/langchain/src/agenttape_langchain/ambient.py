"""Tape every leaf of the process while a session is open, with the user's code unchanged."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from functools import partial
from typing import Any

from langchain_core.callbacks import AsyncCallbackManager, CallbackManager
from langchain_core.runnables.config import ContextThreadPoolExecutor
from langsmith import utils as langsmith
from langsmith.run_trees import RunTree

from agenttape_core.integration import (
    ConnectedOnImport,
    Wrappers,
    atold_outside,
    current_session,
    enter_branch,
    forking_pools,
    here,
    in_order,
    is_told_at_once,
    register_backoff,
    register_restart,
    register_run_ids,
    register_seam,
    register_tracer,
    steps_in_order,
    task_branch,
    told_outside,
    wrapping,
)
from agenttape_langchain import checkpoint_ids, configured_chains, tracing
from agenttape_langchain._compat import (
    BACKOFFS,
    EVENTS,
    ID_MAKERS,
    MODULES_WITH_STEPS,
    RUN_ID_MODULES,
    RUN_IDS_OF,
    STREAMING,
    streaming_besides_ours,
)
from agenttape_langchain.callback_order import MERGING, keeping_order
from agenttape_langchain.configurables import atelling, noting, telling
from agenttape_langchain.indexing import record_managers_in_order
from agenttape_langchain.limiters import LIMITERS
from agenttape_langchain.restarting import restart
from agenttape_langchain.run_tree import RunTree as OurTree
from agenttape_langchain.session_tree import tree_of
from agenttape_langchain.shells import shells_taped
from agenttape_langchain.tape import LATE, OTHERS, RUNNABLES, late_family

for module in RUN_ID_MODULES:
    register_seam(module, "uuid7", "uuid", lambda frozen, _: functools.partial(frozen.next_uuid, "uuid7", 7))
register_run_ids(*RUN_IDS_OF, makers=ID_MAKERS)
checkpoint_ids.register()
for module, functions in BACKOFFS.items():
    register_backoff(module, functions)
register_tracer(tracing.hosts)
configured_chains.follow()
_LATE = [ConnectedOnImport(module, lambda found: wrapping(late_family(found.__name__))) for module in LATE]
register_restart(restart)


def _install(wrappers: Wrappers) -> None:
    for family in (*RUNNABLES, *OTHERS, LIMITERS):
        wrappers.enter(wrapping(family))
    for late in _LATE:
        wrappers.enter(late)
    # An item of `map` passes through `submit` too, which copies the context as `map` itself would.
    wrappers.patch(ContextThreadPoolExecutor, "map", _of_pools)
    for manager in MERGING:
        wrappers.patch(manager, "merge", keeping_order)
    for manager in (CallbackManager, AsyncCallbackManager):
        wrappers.patch(manager, "configure", lambda configure: classmethod(noting(configure.__func__, tree_of)))
    wrappers.patch(CallbackManager, "on_chain_start", telling)
    wrappers.patch(AsyncCallbackManager, "on_chain_start", atelling)
    for module in MODULES_WITH_STEPS:
        wrappers.patch(module, "coro_with_context", _lending)
    wrappers.patch(EVENTS, "handle_event", in_order)
    wrappers.patch(EVENTS, "_ahandle_event_for_handler", steps_in_order)
    wrappers.patch(EVENTS, "handle_event", _telling_outside)
    wrappers.patch(EVENTS, "ahandle_event", _atelling_outside)
    wrappers.patch(*STREAMING, streaming_besides_ours)
    wrappers.patch(langsmith, "tracing_is_enabled", tracing.enabling)
    for name in ("post", "patch"):
        wrappers.patch(RunTree, name, tracing.posting)
    wrappers.hold(partial(forking_pools, ContextThreadPoolExecutor))
    wrappers.hold(record_managers_in_order)
    wrappers.hold(shells_taped)


_wrappers = Wrappers(_install)


def integration() -> Wrappers:
    """Connect LangChain to the sessions of this process; core enters it with the first and leaves it with the last."""
    return _wrappers


def _of_pools(_: Any) -> Any:
    return ThreadPoolExecutor.map


def _lending(real: Callable[..., Any]) -> Callable[..., Any]:
    """Let a step of a chain run in the branch of its chain: the framework makes it a task only to give it a context."""

    @functools.wraps(real)
    def coro_with_context(coro: Any, context: Context, *, create_task: bool = False) -> Any:
        session = current_session()
        branch = task_branch(here(session)) if session is not None else None
        if branch is not None:
            context.run(enter_branch, branch.lend())
        return real(coro, context, create_task=create_task)

    return coro_with_context


# -- Events that a model tells while it is executed: whoever is told is outside of the call. Inside an executed call the
# clock and ids are real (decision 2). The handlers and tracers of the program are part of the run all the same: what
# they read from the clock when a chunk arrives is that of the session, as it is on replay.


def _telling_outside(handle: Callable[..., None]) -> Callable[..., None]:
    """Return `handle_event` so that handlers are told outside of the call that tells them.

    Where the tree of a session is the only handler, it is called without what the framework does for others: it raises
    what goes wrong, never returns a coroutine, and does nothing for a token.
    """

    @functools.wraps(handle)
    def told(handlers: Sequence[Any], event_name: str, ignore_condition_name: Any, *args: Any, **kwargs: Any) -> None:
        if len(handlers) == 1 and type(handlers[0]) is OurTree and is_told_at_once():
            if event_name != "on_llm_new_token":
                getattr(handlers[0], event_name)(*args, **kwargs)
            return
        with told_outside():
            handle(handlers, event_name, ignore_condition_name, *args, **kwargs)

    return told


def _atelling_outside(handle: Callable[..., Any]) -> Callable[..., Any]:
    """Return `ahandle_event` as `_telling_outside` returns `handle_event`."""

    @functools.wraps(handle)
    async def told(
        handlers: Sequence[Any], event_name: str, ignore_condition_name: Any, *args: Any, **kwargs: Any
    ) -> None:
        if len(handlers) == 1 and type(handlers[0]) is OurTree and is_told_at_once():
            if event_name != "on_llm_new_token":
                getattr(handlers[0], event_name)(*args, **kwargs)
            return
        async with atold_outside():
            await handle(handlers, event_name, ignore_condition_name, *args, **kwargs)

    return told

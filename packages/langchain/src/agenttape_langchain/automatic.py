"""Tape every leaf of the process while a session is open, with the user's code unchanged."""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from contextvars import Context
from pathlib import PurePath
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from langchain_core.callbacks import (
    AsyncCallbackManager,
    AsyncCallbackManagerForChainGroup,
    BaseCallbackManager,
    CallbackManager,
    CallbackManagerForChainGroup,
)
from langchain_core.rate_limiters import BaseRateLimiter
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import ContextThreadPoolExecutor
from langsmith import utils as langsmith
from langsmith.run_trees import RunTree

from agenttape_core.integration import (
    Boundary,
    Call,
    Family,
    Session,
    SessionCall,
    Source,
    anotified_outside,
    begin,
    context_session,
    current_session,
    forking_pools,
    here,
    notified_outside,
    plain,
    record_step,
    register_restart,
    wrapping,
)
from agenttape_core.integration.leaves import limiter_leaves
from agenttape_core.integration.patching import (
    ConnectedOnImport,
    PatchedOnImport,
    Wrappers,
    register_backoff,
    register_run_ids,
    register_seam,
    register_tracer,
)
from agenttape_core.integration.threads import enter_branch, in_order, is_notified_directly, steps_in_order, task_branch
from agenttape_langchain import checkpoint_ids
from agenttape_langchain._compat import (
    BACKOFFS,
    EVENTS,
    ID_MAKERS,
    MODULES_WITH_STEPS,
    RUN_ID_MODULES,
    RUN_IDS_OF,
    STEP,
    STREAMING,
    streaming_besides_ours,
)
from agenttape_langchain.address import is_graph
from agenttape_langchain.chat_models import CHAT_MODELS
from agenttape_langchain.configurables import atelling, noting, telling
from agenttape_langchain.requests import method_body
from agenttape_langchain.run_tree import RunTree as OurTree
from agenttape_langchain.session_tree import register_follower, tree_of
from agenttape_langchain.tape import LATE, late_family

if TYPE_CHECKING:
    from uuid import UUID

    from agenttape_langchain.callbacks.runs import ObservedRun
    from agenttape_langchain.run_tree import ChainFacts, Run

# -- Rate limiters, which wait as a part of the calls that they let through.

_BEFORE = ("langchain_core.language_models.chat_models",)

LIMITERS = Family(BaseRateLimiter, limiter_leaves("acquire", "aacquire", before=_BEFORE))
"""Every rate limiter."""


# -- Record what an agent does in the shell that `ShellToolMiddleware` keeps open from one call of its tool to the next.
#
# A node begins the shell, outside of every call of a tool, and each command acts wherever it pleases. So both are
# calls: a replay starts no process, and a command has the output that it had. What the tool makes of it, as redacting
# it or saying that it took too long, is program. The end of a shell is no call: one that was not begun has nothing to
# end.

SHELL = Boundary("call")
_SHELL_TOOL = "langchain.agents.middleware.shell_tool"


def _cross(shell: Any, method: str, **arguments: Any) -> SessionCall | None:
    session = current_session()
    if session is None or not session.auto:
        return None
    return begin(SHELL, shell, type(shell).__name__, lambda _: method_body(method, arguments, {}), writes=True)


def _starting(real: Callable[..., None]) -> Callable[..., None]:
    def describe(shell: Any, /) -> Call:
        return Call(_cross(shell, "start"), lambda: real(shell))

    return plain(real, describe)


def _executing(real: Callable[..., Any]) -> Callable[..., Any]:
    def describe(shell: Any, /, command: str, *, timeout: float) -> Call:
        session_call = _cross(shell, "execute", command=command)
        return Call(
            session_call, lambda: real(shell, command, timeout=timeout), pack=dataclasses.asdict, unpack=_result
        )

    return plain(real, describe)


def _result(recorded: dict[str, Any]) -> Any:
    return sys.modules[_SHELL_TOOL].CommandExecutionResult(**recorded)


SHELLS_TAPED = (
    PatchedOnImport(_SHELL_TOOL, "ShellSession.start", _starting),
    PatchedOnImport(_SHELL_TOOL, "ShellSession.execute", _executing),
)
"""While inside, work in such shells is recorded."""


# -- Begin a recorded chain or agent again, as `agenttape replay --run` does.


def restart(app: Any, source: Source) -> Callable[[], Any] | None:
    """Return a function that invokes a runnable with the recorded input and configurable values.

    Returns `None` for any other `app`; a recording of a server, or without an input, is left to others.
    """
    if not isinstance(app, Runnable) or source.input is None or source.is_request:
        return None
    given, config = source.given(), RunnableConfig(configurable=dict(source.entry.configurable))
    return (lambda: app.ainvoke(given, config)) if source.entry.awaited else (lambda: app.invoke(given, config))


# -- Keep the order in which documents were indexed, by which LangChain finds those that are to be deleted.
#
# `index` deletes what was last indexed before it began. On a clock that stands still nothing was.

_LATEST = "_agenttape_latest"
_TICK = 1e-6
"""Seconds between two readings at one moment: a float holds no much shorter time since the epoch."""


def _ascending(get_time: Callable[[Any], float]) -> Callable[[Any], float]:
    """Let each reading of a record manager be later than the one before it."""

    @functools.wraps(get_time)
    def ascending(self: Any) -> float:
        now = get_time(self)
        if current_session() is not None:
            now = vars(self)[_LATEST] = max(now, vars(self).get(_LATEST, 0.0) + _TICK)
        return now

    return ascending


record_managers_in_order = PatchedOnImport("langchain_core.indexing.base", "InMemoryRecordManager.get_time", _ascending)
"""While inside, readings of LangChain's record manager in memory are in order."""


# -- Keep the order of callback handlers and tags when LangChain merges two callback managers.
#
# `BaseCallbackManager.merge` makes sets of them, so handlers come in the order of their addresses in memory, and tags
# in that of their hashes: another one in each run. A handler of LangGraph draws ids of messages when a node ends,
# before or after the run tree notes that end, so they would be drawn by lot. Here, the first manager's come first,
# then the others.

MERGING = (BaseCallbackManager, CallbackManagerForChainGroup, AsyncCallbackManagerForChainGroup)
"""The classes with their own `merge`."""

_LISTS = ("handlers", "inheritable_handlers", "tags", "inheritable_tags")
ItemT = TypeVar("ItemT", bound=Hashable)


def keeping_order(merge: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Wrap a `merge` of callback managers: in a session, the merged items keep their order."""

    @functools.wraps(merge)
    def merged(self: BaseCallbackManager, other: BaseCallbackManager) -> BaseCallbackManager:
        manager: BaseCallbackManager = merge(self, other)
        if current_session() is not None:
            for name in _LISTS:
                setattr(manager, name, _ordered(getattr(manager, name), getattr(self, name) + getattr(other, name)))
        return manager

    return merged


def _ordered(items: list[ItemT], order: list[ItemT]) -> list[ItemT]:
    """Return items in an order; unknown ones come last, unchanged."""
    kept = set(items)
    return list(dict.fromkeys([*(item for item in order if item in kept), *items]))


@functools.cache
def _late(module: str) -> AbstractContextManager[None]:
    return wrapping(late_family(module))


_LATE = ConnectedOnImport(*LATE, connect=lambda module: _late(module.__name__))


@functools.cache
def _steps(module: ModuleType) -> Wrappers:
    wrappers = Wrappers()
    if hasattr(module, STEP):
        wrappers.patch(module, STEP, _lending)
    return wrappers


_STEPS = ConnectedOnImport(*MODULES_WITH_STEPS, connect=_steps)


def _install(wrappers: Wrappers) -> None:
    wrappers.enter(wrapping(CHAT_MODELS, LIMITERS))
    wrappers.enter(_LATE)
    # An item of `map` passes through `submit` too, which copies the context as `map` itself would.
    wrappers.patch(ContextThreadPoolExecutor, "map", _of_pools)
    for manager in MERGING:
        wrappers.patch(manager, "merge", keeping_order)
    for manager in (CallbackManager, AsyncCallbackManager):
        wrappers.patch(manager, "configure", lambda configure: classmethod(noting(configure.__func__, tree_of)))
    wrappers.patch(CallbackManager, "on_chain_start", telling)
    wrappers.patch(AsyncCallbackManager, "on_chain_start", atelling)
    wrappers.enter(_STEPS)
    wrappers.patch(EVENTS, "handle_event", in_order)
    wrappers.patch(EVENTS, "_ahandle_event_for_handler", steps_in_order)
    wrappers.patch(EVENTS, "handle_event", _telling_outside)
    wrappers.patch(EVENTS, "ahandle_event", _atelling_outside)
    wrappers.patch(*STREAMING, streaming_besides_ours)
    wrappers.patch(langsmith, "tracing_is_enabled", enabling)
    for name in ("post", "patch"):
        wrappers.patch(RunTree, name, posting)
    wrappers.enter(forking_pools(ContextThreadPoolExecutor))
    for patched in (record_managers_in_order, *SHELLS_TAPED):
        wrappers.enter(patched)


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
    """Return `handle_event` so that handlers run outside the call that reports to them.

    If the tree of a session is the only handler, the framework's work for others is skipped: it raises its errors,
    never returns a coroutine, and ignores tokens.
    """

    @functools.wraps(handle)
    def told(handlers: Sequence[Any], event_name: str, ignore_condition_name: Any, *args: Any, **kwargs: Any) -> None:
        if len(handlers) == 1 and type(handlers[0]) is OurTree and is_notified_directly():
            if event_name != "on_llm_new_token":
                getattr(handlers[0], event_name)(*args, **kwargs)
            return
        with notified_outside():
            handle(handlers, event_name, ignore_condition_name, *args, **kwargs)

    return told


def _atelling_outside(handle: Callable[..., Any]) -> Callable[..., Any]:
    """Return `ahandle_event` as `_telling_outside` returns `handle_event`."""

    @functools.wraps(handle)
    async def told(
        handlers: Sequence[Any], event_name: str, ignore_condition_name: Any, *args: Any, **kwargs: Any
    ) -> None:
        if len(handlers) == 1 and type(handlers[0]) is OurTree and is_notified_directly():
            if event_name != "on_llm_new_token":
                getattr(handlers[0], event_name)(*args, **kwargs)
            return
        async with anotified_outside():
            await handle(handlers, event_name, ignore_condition_name, *args, **kwargs)

    return told


# -- Steps of outermost chains with a configurable part, such as the `session_id` of a `RunnableWithMessageHistory`.
#
# They tell a replay which recorded run such a chain is; see `recorded_runs`. The steps of graphs have it already.


class ConfiguredChains:
    """Records the outermost chains of one session that have a configurable part. Thread-safe. The session records."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._open: dict[UUID, ObservedRun] = {}

    def began(self, run_id: UUID, parent_run_id: UUID | None, run: Run, facts: ChainFacts) -> None:
        """Note the beginning of a chain."""
        if facts.configurable and parent_run_id is None and self._session.auto and not is_graph(facts.metadata):
            from agenttape_langchain.callbacks.runs import ObservedRun  # a replay observes none

            self._open[run_id] = ObservedRun(
                key=run_id,
                position=run.position,
                name=facts.name,
                above=None,
                run=run,
                tags=facts.tags,
                metadata={**facts.configurable, **facts.metadata},
            )

    def ended(self, run_id: UUID, output: Any) -> None:
        """Record the step."""
        run = self._open.pop(run_id, None)
        if run is not None:
            run.kind = run.chain_kind()
            record_step(self._session, run.as_step())

    def failed(self, run_id: UUID, error: BaseException) -> None:
        """Record the step with its error."""
        run = self._open.pop(run_id, None)
        if run is not None:
            run.kind = run.chain_kind()
            record_step(self._session, run.as_step(status="failed", error=error))


def _chains_of(session: Session) -> ConfiguredChains | None:
    return ConfiguredChains(session) if session.keeps_steps else None


# -- Keep replays out of LangSmith by default, and mark those that are traced.
#
# All runs reach LangSmith through `RunTree`: those from the environment, from `tracing_v2_enabled`, from a
# `LangChainTracer` among the callbacks, and from `@traceable` functions.

MARK = "agenttape:replay"
"""The tag of a replayed run; its metadata has the name of the cassette as `agenttape_cassette`."""

_ENDPOINTS = ("LANGSMITH_ENDPOINT", "LANGCHAIN_ENDPOINT")
_DEFAULT_ENDPOINT = "https://api.smith.langchain.com"


def hosts() -> list[str]:
    """Return the host that runs are posted to. LangSmith's own function would cache it for the whole process."""
    endpoint = next(filter(None, map(os.environ.get, _ENDPOINTS)), _DEFAULT_ENDPOINT)
    host = urlsplit(endpoint.strip("\"' ")).hostname
    return [host] if host else []


def enabling(tracing_is_enabled: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `tracing_is_enabled`: it is False in a replay that is not traced."""

    @functools.wraps(tracing_is_enabled)
    def is_enabled(*args: Any, **kwargs: Any) -> Any:
        session = context_session()
        return False if session is not None and not session.tracing else tracing_is_enabled(*args, **kwargs)

    return is_enabled


def posting(post: Callable[..., None]) -> Callable[..., None]:
    """Wrap `RunTree.post` or `RunTree.patch`: a replay posts no runs, or posts marked runs if it's traced."""

    @functools.wraps(post)
    def posted(run: Any, *args: Any, **kwargs: Any) -> None:
        session = context_session()
        if session is not None and not session.policy.records:
            if not session.tracing:
                return
            _mark(run, session)
        post(run, *args, **kwargs)

    return posted


def _mark(run: Any, session: Session) -> None:
    """Add the mark to copies of tags and metadata: they may be the user's own objects."""
    extra = run.extra or {}
    metadata = {**extra.get("metadata", {}), "agenttape_cassette": PurePath(str(session.path)).name}
    run.tags = [*(tag for tag in run.tags or () if tag != MARK), MARK]
    run.extra = {**extra, "metadata": metadata}


for module in RUN_ID_MODULES:
    register_seam(module, "uuid7", "uuid", lambda frozen, _: functools.partial(frozen.next_uuid, "uuid7", 7))
register_run_ids(*RUN_IDS_OF, makers=ID_MAKERS)
checkpoint_ids.register()
for module, functions in BACKOFFS.items():
    register_backoff(module, functions)
register_tracer(hosts)
register_follower(_chains_of)
register_restart(restart)

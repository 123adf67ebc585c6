"""Connect LangGraph to the sessions of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.pregel import Pregel

from agenttape_core.integration import Session, Source, register_restart, wrapping
from agenttape_core.integration.automatic import holding_in_memory
from agenttape_core.integration.patching import Stored, Wrappers, register_thread_files
from agenttape_core.integration.threads import register_lazy_stream
from agenttape_langchain.integration import position_of
from agenttape_langgraph._compat import searching_in_context
from agenttape_langgraph.node_steps import track_tasks
from agenttape_langgraph.scheduling import be_independent_of_schedule
from agenttape_langgraph.stores import STORES


def _install(wrappers: Wrappers) -> None:
    be_independent_of_schedule(wrappers)
    track_tasks(wrappers)
    wrappers.enter(wrapping(STORES))
    wrappers.hold(searching_in_context)
    wrappers.hold(partial(holding_in_memory, InMemorySaver))


_wrappers = Wrappers(_install)


def integration() -> Wrappers:
    """Connect LangGraph to the sessions of this process; core enters it with the first and leaves it with the last.

    Models, tools and retrievers inside graphs belong to LangChain, whose integration is connected beside this one.
    """
    return _wrappers


def _stored(path: Path) -> Iterator[Stored]:
    from agenttape_langgraph.saver.tape_saver import stored_values  # the saver is loaded where it is used

    return stored_values(path)


def _restart(app: Any, source: Source) -> Callable[[], Any] | None:
    from agenttape_langgraph.time_travel import restart  # it is loaded where it is used

    return restart(app, source)


def _began(session: Session, variables: Mapping[str, Any]) -> bool:
    return position_of(session, variables.get("run_manager")) is not None


register_thread_files(_stored)
register_restart(_restart)
for stream in (Pregel.stream, Pregel.astream):
    register_lazy_stream(stream, _began)

"""Has a graph raise the same error in each replay, where several of its tasks have failed or handed over at once.

LangGraph waits for all of them, and raises the error of one, from a set: which one follows from where objects lie in
memory. In a session it is that of the task that ended first, as tasks end in the recorded order. In a replay of a run
that a handler has observed, it is the one that the handler saw.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from langgraph.errors import GraphInterrupt

from agenttape_core.integration import Session, Slot, current_session, here, was_observed
from agenttape_langchain.integration import RAISED, placement
from agenttape_langgraph._compat import RAISED_BY_OTHERS

_ended: WeakKeyDictionary[Any, tuple[int, str]] = WeakKeyDictionary()
"""The places of the futures of tasks that have failed, in the order in which these ended, and their nodes' labels."""
_places = itertools.count()
_AGAIN = re.compile(r"#\d+$")
"""The end of the label of a node that was tried again."""


def error_of(future: Any) -> BaseException | None:
    """Return the exception of a task, if it has ended with one."""
    return future.exception() if future.done() and not future.cancelled() else None


def note_failure(task: Any, future: Any) -> None:
    """Note that a task has ended with an error.

    Args:
        task: The task.
        future: Its future.
    """
    metadata = (getattr(task, "config", None) or {}).get("metadata") or {}  # a test of a runner has no real tasks
    place = placement(getattr(task, "name", ""), [f"graph:step:{metadata.get('langgraph_step', 0)}"], metadata)
    _ended[future] = next(_places), place["label"]


def raising_alike(real: Callable[..., None]) -> Callable[..., None]:
    """Return LangGraph's function that raises the error of a superstep, given no more than one to raise."""

    def panic_or_proceed(futures: Collection[Any], **kwargs: Any) -> None:
        session = current_session()
        if session is not None:
            handled, ids = kwargs.get("handled_futures") or (), kwargs.get("handled_exception_ids") or ()
            failed = [one for one in futures if _is_raised(one) and one not in handled and id(error_of(one)) not in ids]
            if len(failed) > 1:
                seen = _seen(session).get(here(session).address) if was_observed(session) else None
                ordered = sorted(failed, key=functools.partial(_place, seen))
                futures = set(futures).difference(ordered[1:])
        real(futures, **kwargs)

    return panic_or_proceed


def _is_raised(future: Any) -> bool:
    """Return True if a graph may raise the error of a task by itself: it gathers interrupts."""
    error = error_of(future)
    return error is not None and not isinstance(error, GraphInterrupt) and future not in RAISED_BY_OTHERS


def _place(seen: str | None, future: Any) -> tuple[bool, int]:
    """Return the place of a task that has failed: before all others, if its error was seen to be raised."""
    number, label = _ended.get(future, (0, ""))
    return label != seen, number


def _read(session: Any) -> Mapping[str, str]:
    """Return the labels of the nodes whose errors graphs were seen to raise, by the addresses of these graphs."""
    data = ((step.address, step.data) for step in session.source.steps())
    raised = ((address, str(given[RAISED])) for address, given in data if isinstance(given, dict) and RAISED in given)
    return {address: _AGAIN.sub("", label) for address, label in raised}


_SEEN: Slot[Mapping[str, str]] = Slot(_read)


def _seen(session: Session) -> Mapping[str, str]:
    return session.extension(_SEEN)

"""Ids that are the same in every recording, in place of LangGraph's own, which hold the time.

LangGraph derives the id of a task from the checkpoint's id, and the id of an interrupt from the ids of tasks. A
recorded error holds them for readers only: a replayed call interrupts again. There, an interrupt gets an id that
is derived from the place where it was asked, and a task gets none.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Any

from langgraph.errors import GraphInterrupt, ParentCommand
from langgraph.types import Interrupt

from agenttape_core.integration import Session, Slot
from agenttape_core.integration.cassettes import IdMap
from agenttape_core.integration.threads import Lock

_TASK = "<task>"
_ID = r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
_NOTE = re.compile(rf"During task with name '.*' and id '{_ID}'")
_RUN = "<run>"
_OF_RUN = re.compile(rf"lc_run--{_ID}")
_SEGMENT = re.compile(rf":{_ID}(?=\||$)")


class StableIds:
    """Stable ids for the interrupts of one session, by the places where they were first seen. Thread-safe.

    The innermost node that asks is seen first; the nodes around it raise the same interrupt later.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._by_id: dict[str, str] = {}

    def of_error(self, error: BaseException, address: str) -> dict[str, str]:
        """Return the replacements of the ids in an error that is recorded at an address."""
        with self._lock:
            interrupts = [one.id for one in interrupts_of(error)]
            for number, one in enumerate(dict.fromkeys(interrupts)):
                place = f"{address} {number}" if number else address
                self._by_id.setdefault(one, hashlib.sha256(place.encode()).hexdigest()[:32])
            stable = {one: self._by_id[one] for one in interrupts}
        return {**dict.fromkeys(_tasks(error), _TASK), **stable}

    def replaced(self, plain: Any) -> Any:
        """Return plain data with stable ids of interrupts that were seen, for example in the answers to them."""
        with self._lock:
            known = dict(self._by_id)
        return IdMap(list(known), list(known.values())).value(plain)


_STABLE_IDS = Slot(lambda _: StableIds())


def stable_ids(session: Session) -> StableIds:
    """Return the stable ids of a session."""
    return session.extension(_STABLE_IDS)


def interrupts_of(error: BaseException | None) -> list[Interrupt]:
    """Return the interrupts that an error holds; none if it does not interrupt a graph."""
    if not isinstance(error, GraphInterrupt) or not error.args or not isinstance(error.args[0], tuple | list):
        return []
    return [one for one in error.args[0] if isinstance(one, Interrupt)]


def ids_of_runs(error: BaseException) -> dict[str, str]:
    """Return the replacements of the ids of runs in the messages that an error hands to another graph.

    LangChain names an answer after its run, whose id holds the time. For a step, which is read and never replayed.
    """
    return dict.fromkeys(_OF_RUN.findall(str(error)), _RUN) if isinstance(error, ParentCommand) else {}


def _tasks(error: BaseException) -> Iterator[str]:
    """Yield the task ids in the notes that LangGraph adds to an error, and those by which a command names a graph."""
    for note in getattr(error, "__notes__", ()):
        found = _NOTE.fullmatch(str(note))
        if found is not None:
            yield found[1]
    if isinstance(error, ParentCommand) and error.args and isinstance(error.args[0].graph, str):
        yield from _SEGMENT.findall(error.args[0].graph)

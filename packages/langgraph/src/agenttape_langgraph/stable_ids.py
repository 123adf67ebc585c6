"""Ids that are the same in each recording, in the place of LangGraph's own, which tell the time.

The id of a task is made of that of a checkpoint, and the id of an interrupt of those of tasks. A recorded error holds
them for readers only: who is served a question asks it anew. There, an interrupt has an id that is made of the place
where it was asked, and a task has none.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from threading import Lock
from typing import Any

from langgraph.errors import GraphInterrupt, ParentCommand
from langgraph.types import Interrupt

from agenttape_core.integration import IdMap, Session

_TASK = "<task>"
_ID = r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
_NOTE = re.compile(rf"During task with name '.*' and id '{_ID}'")
_SEGMENT = re.compile(rf":{_ID}(?=\||$)")


class SameIds:
    """The ids of the interrupts of one session by the places where they were first seen. Thread-safe.

    The innermost node that asks is seen first; those around it tell of the same interrupt later.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._by_id: dict[str, str] = {}

    def of_error(self, error: BaseException, address: str) -> dict[str, str]:
        """Return what is to stand for the ids in an error that is told at an address."""
        with self._lock:
            asked = [one.id for one in asked_in(error)]
            for number, one in enumerate(dict.fromkeys(asked)):
                place = f"{address} {number}" if number else address
                self._by_id.setdefault(one, hashlib.sha256(place.encode()).hexdigest()[:32])
            same = {one: self._by_id[one] for one in asked}
        return {**dict.fromkeys(_tasks(error), _TASK), **same}

    def shown(self, plain: Any) -> Any:
        """Return plain data with the ids of interrupts that were seen, such as those that an answer is given by."""
        with self._lock:
            known = dict(self._by_id)
        return IdMap(list(known), list(known.values())).value(plain)


def same_ids(session: Session) -> SameIds:
    """Return those of a session."""
    found: SameIds = session.keepsake("langgraph.same_ids", SameIds)
    return found


def asked_in(error: BaseException | None) -> list[Interrupt]:
    """Return what is asked by an error that interrupts a graph."""
    if not isinstance(error, GraphInterrupt) or not error.args or not isinstance(error.args[0], tuple | list):
        return []
    return [one for one in error.args[0] if isinstance(one, Interrupt)]


def _tasks(error: BaseException) -> Iterator[str]:
    """Yield the ids of the tasks that LangGraph notes of an error, and those by which a command names a graph."""
    for note in getattr(error, "__notes__", ()):
        found = _NOTE.fullmatch(str(note))
        if found is not None:
            yield found[1]
    if isinstance(error, ParentCommand) and error.args and isinstance(error.args[0].graph, str):
        yield from _SEGMENT.findall(error.args[0].graph)

"""What all observation has in common: the open runs, the recording of what has ended, and its errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

from agenttape_core import Rule
from agenttape_core.integration import (
    Boundary,
    Crossing,
    Happening,
    Observer,
    Position,
    Unseen,
    plain_value,
    record_step,
)
from agenttape_langchain.callbacks.calls import ObservedCall, Unrecorded
from agenttape_langchain.callbacks.runs import OpenRun
from agenttape_langchain.run_tree import Run, RunTree

if TYPE_CHECKING:
    from uuid import UUID

T = TypeVar("T", bound=ObservedCall)

_UNSEEN = Unseen(
    "callbacks",
    ("embeddings", "memory", "http", "call"),
    "the run was recorded by a callback handler, and LangChain tells callbacks of chat models, text models, tools and "
    "retrievers only; record it with use_cassette instead",
)
_NOT_ENDED = "it was cancelled, or went on beyond the run that it belongs to: its end was not told"


class Observing(RunTree, Observer):
    """Follows the runs that callbacks tell of, and records each when it has ended. Thread-safe.

    Args:
        path: The cassette.
        redact: Rules beyond the built-in ones, or `False` to keep secrets as they are.
        tags: Words for the header.
    """

    raise_error = False

    def __init__(self, path: str | Path, *, redact: bool | Sequence[Rule], tags: Sequence[str]) -> None:
        RunTree.__init__(self, Position())
        Observer.__init__(self, "TapeCallbackHandler", path, _UNSEEN, redact=redact, tags=tags)
        self._opened: dict[UUID, OpenRun] = {}

    def is_busy(self) -> bool:
        """Whether an observed run is open."""
        return bool(self._opened)

    def cut_off(self) -> None:
        """Give up the runs that are open."""
        self._abandon(list(self._opened.values()))

    # -- runs --------------------------------------------------------------------------------------------------

    def _open(
        self,
        run_id: UUID,
        parent_run_id: UUID | None,
        name: str,
        told: Mapping[str, Any],
        *,
        kind: str = "chain",
        tool_call_id: str | None = None,
    ) -> OpenRun:
        tags, metadata = told.get("tags") or (), told.get("metadata") or {}
        with self._gate:
            run = self._begin(run_id, parent_run_id, name, tags, metadata, tool_call_id=tool_call_id)
            above = self._opened.get(parent_run_id) if parent_run_id is not None else None
            opened = OpenRun(run_id, run, name, above, tags, metadata, kind)
            self._opened[run_id] = opened
            return opened

    def _branch(self, above: Position) -> None:
        """No session forks strands for this tree; what the context still holds of another says nothing about it."""

    def _end(self, run_id: UUID) -> Run | None:
        with self._gate:
            run = super()._end(run_id)
            opened = self._opened.pop(run_id, None)
            if opened is None or opened.above is not None:
                return run
            self._abandon([other for other in self._opened.values() if other.outermost is opened])
            if not self._opened:
                with self.noting():
                    self.nothing_goes_on()
        return run

    def _abandon(self, runs: list[OpenRun]) -> None:
        """Give up runs that did not end before the one they belong to: the framework forgot them, or cancelled them."""
        for run in runs:
            self._runs.pop(run.run_id, None)
            self._opened.pop(run.run_id, None)
            with self.noting(again=run.lost != ""):
                self._record(run, status="open", missing=_NOT_ENDED if run.call is not None else run.lost)

    # -- recording ---------------------------------------------------------------------------------------------

    def _crossing(self, run: OpenRun, boundary: Boundary, name: str, body: Any) -> Crossing:
        ids = (run.run.tool_call_id,) if run.run.tool_call_id is not None else ()
        crossing = self.session().cross(
            boundary, name, body, position=run.run.position, ids=ids, parent=run.crossing_around
        )
        crossing.tags, crossing.metadata = run.own_tags, run.own_metadata
        return crossing

    def _begun(self, run: OpenRun, begin: Callable[[], T]) -> T | None:
        """Begin a call; where that fails, the run remembers why."""
        try:
            return begin()
        except Exception as error:  # noqa: BLE001 - as in `noting`
            run.lost = self.could_not_record(error)
            return None

    def _outcome(self, run: OpenRun, answer: Callable[[Any], Unrecorded | None]) -> Unrecorded | None:
        if run.call is None:
            return Unrecorded(run.lost)
        try:
            return answer(run.call)
        except Exception as error:  # noqa: BLE001 - as in `noting`
            return Unrecorded(self.could_not_record(error))

    def _record(self, run: OpenRun, **facts: Any) -> None:
        """Record a step; the facts are those of a `Happening`."""
        position = run.run.position
        happening = Happening(
            kind=run.kind,
            name=run.name,
            address=position.address,
            order=position.order,
            began=run.began,
            tags=run.own_tags,
            metadata=run.own_metadata,
            input=run.input,
            **facts,
        )
        record_step(self.session(), happening)

    def _happened(self, run_id: UUID, kind: str, name: str, data: Any, error: BaseException | None = None) -> None:
        """Record what happens within a run and is none itself."""
        run = self._opened.get(run_id)
        position = run.run.position if run is not None else self._root
        with self.noting():
            happening = Happening(
                kind, name, position.address, position.moment(), perf_counter(), data=plain_value(data), error=error
            )
            record_step(self.session(), happening)

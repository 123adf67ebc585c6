"""What all observation has in common: the open runs, the recording of what has ended, and its errors."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

from agenttape_core import Rule
from agenttape_core.integration import (
    Boundary,
    Crossing,
    Happening,
    Observation,
    Position,
    Session,
    plain_value,
    record_step,
)
from agenttape_langchain.observed_calls import ObservedCall, Unrecorded
from agenttape_langchain.observed_runs import OpenRun
from agenttape_langchain.run_tree import Run, RunTree

if TYPE_CHECKING:
    from uuid import UUID

T = TypeVar("T", bound=ObservedCall)

NOT_SEEN = ["embeddings", "memory", "http", "call"]
"""The kinds of calls that LangChain tells no callbacks of."""
_GAP = (
    "the run was recorded by a callback handler, and LangChain tells callbacks of chat models, text models, tools and "
    "retrievers only; record it with use_cassette instead"
)
_NOT_ENDED = "it was cancelled, or went on beyond the run that it belongs to: its end was not told"
_log = logging.getLogger("agenttape")


class Observing(RunTree):
    """Follows the runs that callbacks tell of, and records each when it has ended. Thread-safe.

    Args:
        path: The cassette.
        redact: Rules beyond the built-in ones, or `False` to keep secrets as they are.
        tags: Words for the header.
    """

    raise_error = False

    def __init__(self, path: str | Path, *, redact: bool | Sequence[Rule], tags: Sequence[str]) -> None:
        super().__init__(Position())
        self._observation = Observation(path, redact=redact, tags=tags)
        self._opened: dict[UUID, OpenRun] = {}
        self._gate = RLock()  # no run begins between the end of the last one and the writing of the file
        self._has_told_gaps = False
        self._must_flush = False
        self.errors: list[Exception] = []
        weakref.finalize(self, _finish, self._observation)

    @property
    def path(self) -> Path | str:
        """The cassette."""
        return self._observation.path

    def flush(self) -> None:
        """Write all that was observed to the cassette: now, or when the observed runs that are open have ended.

        Raises:
            CassetteError: If it cannot be written; the message says where the recording is kept.
        """
        with self._gate:
            self._must_flush = bool(self._opened)
            if not self._must_flush:
                self._observation.flush()

    def close(self) -> None:
        """Write all that was observed to the cassette, and observe no more. Runs that are open are cut off here.

        Raises:
            CassetteError: If it cannot be written; the message says where the recording is kept.
        """
        with self._gate:
            self._abandon(list(self._opened.values()))
            self._observation.close()

    # -- errors ------------------------------------------------------------------------------------------------

    @contextmanager
    def _observing(self, *, again: bool = False) -> Iterator[None]:
        """Keep our errors out of the observed run, and not lose them.

        Args:
            again: Whether what fails here has failed before, and is known.
        """
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever it is, it is ours and not the run's
            if not again:
                self._note(error)

    def _note(self, error: Exception) -> None:
        self.errors.append(error)
        _log.error("TapeCallbackHandler(%s) could not record a call: %s", self.path, error)

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
                with self._observing():
                    write = self._observation.flush if self._must_flush else self._observation.run_ended
                    self._must_flush = False
                    write()
        return run

    def _abandon(self, runs: list[OpenRun]) -> None:
        """Give up runs that did not end before the one they belong to: the framework forgot them, or cancelled them."""
        for run in runs:
            self._runs.pop(run.run_id, None)
            self._opened.pop(run.run_id, None)
            with self._observing(again=run.lost != ""):
                self._record(run, status="open", missing=_NOT_ENDED if run.call is not None else run.lost)

    # -- recording ---------------------------------------------------------------------------------------------

    def _session(self) -> Session:
        session = self._observation.session
        with self._gate:
            if not self._has_told_gaps:
                self._has_told_gaps = True
                gap = Happening("gap", "callbacks", "", (), perf_counter(), missing=_GAP, data=NOT_SEEN)
                record_step(session, gap)
        return session

    def _crossing(self, run: OpenRun, boundary: Boundary, name: str, body: Any) -> Crossing:
        ids = (run.run.tool_call_id,) if run.run.tool_call_id is not None else ()
        crossing = self._session().cross(
            boundary, name, body, position=run.run.position, ids=ids, parent=run.crossing_around
        )
        crossing.tags, crossing.metadata = run.own_tags, run.own_metadata
        return crossing

    def _begun(self, run: OpenRun, begin: Callable[[], T]) -> T | None:
        """Begin a call; where that fails, the run remembers why."""
        try:
            return begin()
        except Exception as error:  # noqa: BLE001 - as in `_observing`
            self._note(error)
            run.lost = _because(error)
            return None

    def _outcome(self, run: OpenRun, answer: Callable[[Any], Unrecorded | None]) -> Unrecorded | None:
        if run.call is None:
            return Unrecorded(run.lost)
        try:
            return answer(run.call)
        except Exception as error:  # noqa: BLE001 - as in `_observing`
            self._note(error)
            return Unrecorded(_because(error))

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
        record_step(self._session(), happening)

    def _happened(self, run_id: UUID, kind: str, name: str, data: Any, error: BaseException | None = None) -> None:
        """Record what happens within a run and is none itself."""
        run = self._opened.get(run_id)
        position = run.run.position if run is not None else self._root
        with self._observing():
            happening = Happening(
                kind, name, position.address, position.moment(), perf_counter(), data=plain_value(data), error=error
            )
            record_step(self._session(), happening)


def _because(error: Exception) -> str:
    """Return why something could not be recorded, in a line; what was written says the rest."""
    return f"it could not be recorded: {str(error).partition(chr(10))[0]}"


def _finish(observation: Observation) -> None:
    """Write what is left when a handler is forgotten, or at the end of the program."""
    try:
        observation.flush()
    except Exception as error:  # noqa: BLE001 - nobody is there to be told but the log
        _log.error("TapeCallbackHandler(%s) could not write its cassette: %s", observation.path, error)

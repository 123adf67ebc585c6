"""The ways in which a call that is executed can end, each of them recorded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from asyncio import CancelledError
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from agenttape_core.matching import IdMap
from agenttape_core.scheduling import is_cancellation_requested
from agenttape_core.schema import Outcome, Plain, RecordedError, Usage
from agenttape_core.schema.class_names import writing_answers
from agenttape_core.session.boundary import BaseCrossing
from agenttape_core.session.recorded_errors import record_error

Failure: TypeAlias = Exception | CancelledError
"""An exception that is an outcome. One that ends the program is none."""


class EndingCrossing(BaseCrossing, ABC):
    """A call whose end is an outcome to record; `_record` says what becomes of it."""

    __slots__ = ("error_ids",)

    error_ids: Mapping[str, str]
    """The ids in its error that differ in each recording, and what is recorded in their place."""

    def returned(self, value: Any) -> None:
        """Record that the call returned.

        Raises:
            UnrecordableValueError: If the value has no codec.
        """
        with self.session.latching(), writing_answers():
            plain = self.session.redactor.value(self._written(value))
            self._record(Outcome(status="returned", value=plain, usage=self.boundary.usage_of(value)))

    def _written(self, value: Any) -> Plain:
        return self.session.codec.encode(value)

    def raised(self, error: Failure) -> None:
        """Record that the call raised, or that it was cancelled, if that is why it did."""
        if isinstance(error, CancelledError) and is_cancellation_requested():
            return self.cancelled()
        with self.session.latching():
            return self._record(Outcome(status="raised", error=self._redacted(error)))

    def cancelled(self, chunks: Sequence[Plain] | None = None) -> None:
        """Record that the call was cancelled before it ended.

        Args:
            chunks: The chunks so far of a stream, as for `streamed`.
        """
        with self.session.latching():
            redacted = self.session.redactor.chunks(list(chunks)) if chunks is not None else None
            self._record(Outcome(status="cancelled", chunks=redacted))

    def streamed(
        self,
        chunks: Sequence[Plain],
        ended: Literal["exhausted", "closed", "raised"] = "exhausted",
        error: Failure | None = None,
        usage: Usage | None = None,
    ) -> None:
        """Record a stream, or that it was cancelled, if that is why it raised.

        Args:
            chunks: The chunks, each encoded at the moment of its arrival, before the reader could change it.
            ended: How it ended.
            error: The error that broke it.
            usage: The token counts of the whole.
        """
        if isinstance(error, CancelledError) and is_cancellation_requested():
            return self.cancelled(chunks)
        with self.session.latching():
            record = self._redacted(error) if error is not None else None
            redacted = self.session.redactor.chunks(list(chunks))
            return self._record(Outcome(status="streamed", chunks=redacted, ended=ended, error=record, usage=usage))

    def _redacted(self, error: Failure) -> RecordedError:
        record = record_error(error, self.session.codec)
        plain = IdMap(list(self.error_ids), list(self.error_ids.values())).value(record.model_dump())
        return RecordedError.model_validate(self.session.redactor.value(plain))

    @abstractmethod
    def _record(self, outcome: Outcome) -> None:
        """Record how the call ended."""

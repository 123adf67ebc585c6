"""The runs and the calls that an observer has open: the known facts, and the recorded ones.

A run is whatever the framework reports a beginning and an end of. A call is a run that reaches outside; it is kept as
the call that a session would have recorded, and reports at its end whether it could be recorded.
"""

from __future__ import annotations

import marshal
from asyncio import CancelledError
from collections.abc import Iterator
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Self

from agenttape_core.integration.observing.order import Came, Moment, came_now
from agenttape_core.matching import Position
from agenttape_core.schema import Plain
from agenttape_core.session import ExecutedCall, StepEvent, plain_value, value_codec

INTERRUPTED = "the program was interrupted before it had an outcome"
HOLE = "a chunk of its stream could not be recorded, and a stream with a hole is none"
_LARGE = 64 * 1024  # an output of more bytes is left out


def output_facts(output: Any) -> dict[str, Any]:
    """Return the facts of a step about the output of its run; of a large output only the size.

    A replay makes the output again, and the last state of an agent is its whole conversation, which its calls hold
    already.
    """
    plain = plain_value(output)
    size = len(marshal.dumps(plain, 2))
    return {"output": plain} if size <= _LARGE else {"data": {"left_out": "output", "bytes": size}}


@dataclass(frozen=True, slots=True)
class Unrecorded:
    """The reason why no interaction was made of a call.

    Args:
        note: The parts of the run that are missing because of that; empty if the run reached no outside.
    """

    note: str = ""


class ObservedCall:
    """A call whose outcome is the value of its run.

    Args:
        session_call: Its call.
    """

    def __init__(self, session_call: ExecutedCall) -> None:
        self.session_call = session_call

    def returned(self, value: Any) -> Unrecorded | None:
        """Record the value that came back."""
        self.session_call.returned(value)
        return None

    def failed(self, error: BaseException | None) -> Unrecorded | None:
        """Record the error, or that it was cancelled. An exception that ends the program isn't recorded."""
        if isinstance(error, CancelledError):
            self.session_call.cancelled()
        elif isinstance(error, Exception):
            self.session_call.raised(error)
        else:
            return Unrecorded(INTERRUPTED)
        return None


class ObservedStream(ObservedCall):
    """A call whose chunks are reported one by one.

    Args:
        session_call: Its call.
    """

    def __init__(self, session_call: ExecutedCall) -> None:
        super().__init__(session_call)
        self.chunks: list[Plain] = []
        self.came: list[Came] = []
        """The arrival of each chunk."""
        self.is_whole = True

    def arrived(self, chunk: Any) -> None:
        """Keep the current state of a chunk: the run may change it.

        Raises:
            UnrecordableValueError: If it has no codec. The stream has a hole then.
        """
        self.session_call.chunk_arrived()
        self.came.append(came_now())
        was_whole, self.is_whole = self.is_whole, False  # until the chunk is kept, it is missing
        self.chunks.append(value_codec().encode(chunk))
        self.is_whole = was_whole

    def exhausted(self, value: Any) -> Unrecorded | None:
        """Record the stream, which was read to its end.

        Args:
            value: What its chunks amount to, for the token counts; `None` where that is not known.
        """
        if not self.is_whole:
            return Unrecorded(HOLE)
        usage = self.session_call.boundary.usage(value) if value is not None else None
        self.session_call.streamed(self.chunks, "exhausted", usage=usage)
        return None

    def broken(self, error: BaseException) -> Unrecorded | None:
        """Record the stream, which its reader closed (`GeneratorExit`), which raised, or which was cancelled."""
        if not self.is_whole:
            return Unrecorded(HOLE)
        if isinstance(error, GeneratorExit):
            self.session_call.streamed(self.chunks, "closed")
        elif isinstance(error, Exception):
            self.session_call.streamed(self.chunks, "raised", error)
        elif isinstance(error, CancelledError):
            self.session_call.cancelled(self.chunks)
        else:
            return Unrecorded(INTERRUPTED)
        return None


@dataclass(slots=True, kw_only=True)
class OpenRun:
    """A run that hasn't ended.

    Args:
        key: The framework's id of it.
        position: Its position in the tree.
        name: The framework's name for it.
        above: The run that it belongs to, if that is observed.
        kind: The kind of step that it is.
        call: The call that it is, if it reaches outside.
        lost: The reason why the recording of its call could not be begun.
        input: The input of an outermost run, as plain data.
        began: When it began, in seconds of a clock that runs.
        began_in: The moment of its event loop at which its call began: see `order`.
    """

    key: Any
    position: Position
    name: str
    above: Self | None
    kind: str = "chain"
    call: ObservedCall | None = None
    lost: str = ""
    input: Plain = None
    began: float = field(default_factory=perf_counter)
    began_in: Moment | None = None

    @property
    def own_tags(self) -> list[str]:
        """The tags that a program gave this run, and not one around it."""
        return []

    @property
    def own_metadata(self) -> dict[str, Any]:
        """The metadata that a program gave this run, and not one around it."""
        return {}

    @property
    def outermost(self) -> Self:
        """The run around it that belongs to no other."""
        return self if self.above is None else self.above.outermost

    @property
    def call_around(self) -> ExecutedCall | None:
        """The innermost call that this run is part of."""
        return next((run.call.session_call for run in self.around() if run.call is not None), None)

    def around(self) -> Iterator[Self]:
        """Yield the runs around it, the innermost first."""
        run = self.above
        while run is not None:
            yield run
            run = run.above

    def as_step(self, **facts: Any) -> StepEvent:
        """Return the run as a step, with further facts of its `StepEvent`."""
        known = {
            "kind": self.kind,
            "name": self.name,
            "address": self.position.address,
            "order": self.position.order,
            "began": self.began,
            "tags": self.own_tags,
            "metadata": self.own_metadata,
            "input": self.input,
        }
        return StepEvent(**{**known, **facts})

"""Delegation: a leaf method of an LLM that calls another leaf method of the same object.

A class may implement `achat` by `self.chat`, `chat` by `complete`, or by the `chat` of its base class. Then two leaf
calls are one request. It is recorded once, with the request of the outer call and the answer of the inner one, and the
recording names the methods that have delegated. On replay these run for real, with all the events of the framework, and
the inner call is replayed.

A method may also call another one for its own purpose, such as to rewrite a query, and then make its own request. Run
on a replay, it would reach the world. So its call is a delegation only if that is proven when the call has ended: it
has made exactly one inner call, and its outcome is the inner one's, see `_Answer.is_that_of`. All other calls are
recorded and replayed as a whole, together with the calls inside.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from llama_index.core.base.llms.types import ChatResponse

from agenttape_core.integration import (
    ExecutedCall,
    Outcome,
    SessionCall,
    awaited,
    executing,
)

DELEGATED_BY = "delegated_by"
"""The key under which the metadata of an interaction list the methods that have delegated."""


class _Answer:
    """A copy of a response at the time it was returned: the caller may change it in place.

    `response` may be the last one of a stream.
    """

    def __init__(self, response: Any) -> None:
        self._objects = [response, getattr(response, "raw", None)]
        self._blocks: list[Any] | None = None
        self._extras = [*getattr(response, "additional_kwargs", {}).items()]
        if isinstance(response, ChatResponse):
            self._objects.append(response.message)
            self._extras += response.message.additional_kwargs.items()
            self._text = response.message.content or ""
            self._blocks = [block.model_dump() for block in response.message.blocks]
        else:
            self._text = getattr(response, "text", "")
        if len(self._text) > 1:  # Python has only one object for each shorter text
            self._objects.append(self._text)

    def is_that_of(self, inner: _Answer) -> bool:
        """Return whether this answer was made from an inner call's answer, without any other.

        It has the same content, and has been handed on: both share an object. Equal content alone is no proof, since
        two requests may both be answered by "yes". What the method has added, such as an id, is only its own.
        """
        if any(extra not in inner._extras for extra in self._extras):
            return False
        if self._text != inner._text or (None not in (self._blocks, inner._blocks) and self._blocks != inner._blocks):
            return False
        return any(mine is theirs for mine in self._objects if mine is not None for theirs in inner._objects)


@dataclass(slots=True)
class MethodRun:
    """A leaf method that is executed."""

    # Its call; a part of the outer one's where another leaf method of the same object has called it.
    session_call: ExecutedCall
    method: str  # its name
    outer: MethodRun | None = None  # the leaf method of the same object that has called it
    inner: list[MethodRun] = field(default_factory=list)  # those that it has called
    error: BaseException | None = None  # the error that it raised
    # The inner one that it has delegated its call to, as far as that is known: it has ended.
    delegate: MethodRun | None = None
    _answer: _Answer | None = None

    def __post_init__(self) -> None:
        """Count as a call that the outer method has made, and decide which outcome the call records."""
        self.session_call.settle = self._settle
        if self.outer is not None:
            self.outer.inner.append(self)

    def answered(self, response: Any) -> None:
        """Note its response, or the next one of its stream."""
        if self.inner or self.outer is not None:
            self._answer = _Answer(response)

    def _settle(self, outcome: Outcome) -> ExecutedCall | None:
        """Return the inner call if it is a delegation."""
        part = self._part(outcome)
        if part is not None:
            self.delegate = self.inner[0]
            methods = [self.method, *part.metadata.get(DELEGATED_BY, ())]
            self.session_call.metadata = {**self.session_call.metadata, DELEGATED_BY: methods}
        return part

    def _part(self, outcome: Outcome) -> ExecutedCall | None:
        if len(self.inner) != 1:
            return None
        (inner,) = self.inner
        part = inner.session_call
        if part.whole is None or part.outcome is None:
            return None
        if "closed" in {outcome.ended, part.outcome.ended}:
            return None  # what the method would have done next is not known
        if self.error is not inner.error:
            return None
        if self._answer is None or inner._answer is None:
            is_same = self._answer is inner._answer and self.error is not None
        else:
            is_same = self._answer.is_that_of(inner._answer)
        return part if is_same else None


@dataclass(slots=True)
class LeafCall:
    """A leaf call whose method runs, so that it may call another leaf method of its object."""

    session_call: SessionCall
    methods: tuple[str, ...] = ()  # on replay, the leaf methods that the call has come through; the last one is running
    run: MethodRun | None = None  # the method, where the call is executed; `None` on replay
    is_delegated: bool = False  # on replay, whether another method has taken the call over
    _executing: ExecutedCall | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run code of the method inside; never hold it while the code of its caller runs."""
        before = _current.get()
        try:
            with self.session_call.executing():
                self._executing = executing()
                _current.set(self)
                yield
        except (Exception, CancelledError) as error:
            if self.run is not None:
                self.run.error = error
            raise
        finally:
            _current.set(before)

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Run the method inside; if it raises, that is the outcome of the call."""
        try:
            with self.running():
                yield
        except (Exception, CancelledError) as error:
            if self.run is not None:
                self.run.session_call.raised(error)
            raise

    def coming(self) -> AbstractContextManager[None]:
        """Run the method inside, or the next step of its stream: on replay, its answer comes when that is due."""
        call = self.session_call
        return call.arrivals.coming(call.recording or None) if call.is_replayed else nullcontext()

    def awaiting(self) -> AbstractAsyncContextManager[None]:
        """Await the method inside, or the next step of its stream."""
        return awaited(self.session_call, is_cancelled=None if self.run is None else self.run.session_call.raised)

    def answered(self, response: Any) -> None:
        """Note a response of the method."""
        if self.run is not None:
            self.run.answered(response)

    def effected(self, effect: dict[str, Any] | None) -> None:
        """Record the method's changes to its object, if any."""
        if self.run is not None and effect is not None:
            self.run.session_call.effected(effect)

    def returned(self, response: Any) -> None:
        """Record the response of a method that returns one."""
        self.answered(response)
        if self.run is not None:
            self.run.session_call.returned(response)

    def inside(self) -> SessionCall | None:
        """Return the call for another leaf method of the object; `None` on replay if one has it already."""
        if not self.session_call.is_replayed:
            return self.session_call.part()
        if self.is_delegated:
            return None
        self.is_delegated = True
        return self.session_call


_current: ContextVar[LeafCall | None] = ContextVar("agenttape_llamaindex_leaf_call", default=None)


@contextmanager
def apart() -> Iterator[None]:
    """Hide the current leaf call while inside: an observer must not take over the call of a session beside it."""
    before = _current.set(None)
    try:
        yield
    finally:
        _current.reset(before)


def call_around(state: Any) -> LeafCall | None:
    """Return the leaf call directly around this one, if it is of the same object.

    The object and its aliases have `state` in common.
    """
    around = _current.get()
    if around is None or around.session_call.owner is not state:
        return None
    # Inside of a call of something else, such as a tool, it is a part of that call.
    return around if executing() is around._executing else None


def running_call(session_call: SessionCall, method: str) -> LeafCall | None:
    """Return the leaf call of a method that has to run; `None` where the recording answers it."""
    around = _current.get()
    if not session_call.is_replayed:
        outer = around.run if around is not None and session_call.whole is not None else None
        return LeafCall(session_call, run=MethodRun(session_call, method, outer))
    before = around.methods if around is not None and around.session_call is session_call else ()
    methods = (*before, method)
    if _delegated_by(session_call)[: len(methods)] != list(methods):
        return None
    return LeafCall(session_call, methods)


def _delegated_by(session_call: SessionCall) -> list[Any]:
    if not (session_call.is_replayed and session_call.recording):
        return []
    methods = session_call.session.source.metadata(session_call.recording, DELEGATED_BY)
    return methods if isinstance(methods, list) else []

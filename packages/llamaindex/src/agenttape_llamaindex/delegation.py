"""Delegation: a leaf method of an LLM that calls another leaf method of the same object.

A class may implement `achat` by `self.chat`, `chat` by `complete`, or by the `chat` of its base class. Then two leaf
calls are one request. It is recorded once, with the request of the outer call and the answer of the inner one, and the
recording names the methods that have delegated. On replay these run for real, with all the events of the framework, and
the inner call is served. A method delegates if it does so when it runs, whatever its code looks like: the first leaf
call that the object makes directly inside of another one takes that one over.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from agenttape_core.integration import Crossing, ExecutedCrossing, ServedCrossing, executing

DELEGATED_BY = "delegated_by"
"""The key under which the metadata of an interaction list the methods that have delegated."""


@dataclass(slots=True)
class LeafCall:
    """A leaf call whose method runs, so that another leaf method of its object may take it over.

    Args:
        crossing: Its crossing.
        methods: The leaf methods that the call has come through; the last one is running.
        is_delegated: Whether another method has taken it over.
    """

    crossing: Crossing
    methods: tuple[str, ...]
    is_delegated: bool = False
    _executing: ExecutedCrossing | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let a leaf call inside take this one over. Hold it only while the code of the method runs."""
        before = _current.get()
        try:
            with nullcontext() if self.crossing.is_served else self.crossing.executing():
                self._executing = executing()
                _current.set(self)
                yield
        finally:
            _current.set(before)

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Run the method inside; if it raises, that is the outcome of the call."""
        try:
            with self.running():
                yield
        except Exception as error:
            if (recorded := self.recorded) is not None:
                recorded.raised(error)
            raise

    @contextmanager
    def first_step(self) -> Iterator[None]:
        """Take the first step of a stream inside; if it raises, the stream broke before its first chunk."""
        try:
            with self.running():
                yield
        except Exception as error:
            if (recorded := self.recorded) is not None:
                recorded.streamed([], "raised", error)
            raise

    @property
    def recorded(self) -> ExecutedCrossing | None:
        """The crossing to record the outcome of the method on; `None` if another method records it."""
        return None if self.is_delegated or self.crossing.is_served else self.crossing

    def take_over(self) -> Crossing:
        """Return the crossing for the method that the call is delegated to."""
        self.is_delegated = True
        if not self.crossing.is_served:
            self.crossing.metadata = {DELEGATED_BY: list(self.methods)}
        return self.crossing


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

    Args:
        state: The state that the object and its aliases have in common.
    """
    around = _current.get()
    if around is None or around.crossing.owner is not state:
        return None
    # Inside of a call of something else, such as a tool, it is a part of that call.
    return around if executing() is around._executing else None


def running_call(crossing: Crossing, method: str) -> LeafCall | None:
    """Return the leaf call of a method that has to run; `None` where the recording serves it.

    Args:
        crossing: The crossing of the call.
        method: The leaf method.
    """
    around = _current.get()
    before = around.methods if around is not None and around.crossing is crossing else ()
    methods = (*before, method)
    if crossing.is_served and _delegated_by(crossing)[: len(methods)] != list(methods):
        return None
    return LeafCall(crossing, methods)


def _delegated_by(crossing: Crossing) -> list[Any]:
    if not isinstance(crossing, ServedCrossing):
        return []
    methods = crossing.session.source.interaction(crossing.found.number).metadata.get(DELEGATED_BY, [])
    return methods if isinstance(methods, list) else []

"""Leaf methods that hand their call on to another leaf method of the same object.

A class of the user's may implement `achat` by `self.chat`, `chat` by `complete`, or by the `chat` of its base class.
Then two leaf calls are one question. It is recorded once, and the recording says by which methods it was handed on. On
replay those run for real, with all that the framework tells of them, and the last of them is served.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from agenttape_core.integration import Crossing

THROUGH = "handed_on_by"
"""Under which name the metadata of an interaction list the methods."""


@dataclass(slots=True)
class Handing:
    """A call in progress that may hand itself on.

    Args:
        crossing: Its crossing.
        methods: The leaf methods that it has come through, with its own; none where nothing takes it over.
        is_taken: Whether it has handed itself on.
    """

    crossing: Crossing
    methods: tuple[str, ...]
    is_taken: bool = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let leaf calls inside take the call over. Hold it only while the code of the method runs."""
        before = _handing.get()
        _handing.set(self)
        try:
            with nullcontext() if self.crossing.is_served else self.crossing.executing():
                yield
        finally:
            _handing.set(before)

    @property
    def is_decided(self) -> bool:
        """Whether it is known that the call hands itself on."""
        return self.is_taken or self.crossing.is_served

    @contextmanager
    def first(self) -> Iterator[None]:
        """Take the first step of a stream inside, which may hand the call on only then."""
        try:
            with self.running():
                yield
        except Exception as error:
            if not self.is_taken:
                self.crossing.streamed([], "raised", error)
            raise

    def failed(self, error: Exception) -> None:
        """Record that the method raised, if it was not another one that did."""
        if not self.is_taken:
            self.crossing.raised(error)

    def take(self) -> Crossing:
        """Take the call over."""
        self.is_taken = True
        if not self.crossing.is_served:
            self.crossing.metadata = {THROUGH: list(self.methods)}
        return self.crossing


_handing: ContextVar[Handing | None] = ContextVar("agenttape_llamaindex_handing", default=None)


@contextmanager
def unhanded() -> Iterator[None]:
    """While inside, no call is there to be taken over: an observer must not take one over from a session beside it."""
    before = _handing.get()
    _handing.set(None)
    try:
        yield
    finally:
        _handing.set(before)


def handed_to(state: Any) -> Handing | None:
    """Return the call of the same object around this one that may hand itself on.

    Args:
        state: What the object and its aliases have in common.
    """
    handing = _handing.get()
    return handing if handing is not None and handing.methods and handing.crossing.owner is state else None


def handing_of(crossing: Crossing, method: str, function: Any) -> Handing | None:
    """Return the handing-on of a call, if its method may do that; of a served one, if it did.

    Args:
        crossing: The crossing of the call.
        method: The leaf method.
        function: The function of the method.
    """
    if not names_leaf(function):
        return None
    around = _handing.get()
    before = around.methods if around is not None and around.crossing is crossing else ()
    methods = (*before, method)
    if crossing.is_served and _recorded(crossing)[: len(methods)] != list(methods):
        return None
    return Handing(crossing, methods)


def _recorded(crossing: Crossing) -> list[Any]:
    if crossing.found is None:
        return []
    through = crossing.session.source.interaction(crossing.found.number).metadata.get(THROUGH, [])
    return through if isinstance(through, list) else []


_LEAVES = frozenset(
    f"{prefix}{name}" for name in ("chat", "complete", "stream_chat", "stream_complete") for prefix in ("", "a")
)


def names_leaf(function: Callable[..., Any]) -> bool:
    """Whether the code of a function names a leaf method, so that it may call one."""
    while callable(inner := getattr(function, "__wrapped__", None)):
        function = inner
    code = getattr(function, "__code__", None)
    return code is not None and _code_names_leaf(code)


def _code_names_leaf(code: types.CodeType) -> bool:
    inner = (const for const in code.co_consts if isinstance(const, types.CodeType))
    return not _LEAVES.isdisjoint(code.co_names) or any(map(_code_names_leaf, inner))

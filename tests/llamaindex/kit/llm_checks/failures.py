"""Checks about failures of the service of an LLM."""

from __future__ import annotations

from collections import Counter
from typing import Any

from llama_index.core.callbacks import CallbackManager
from llama_index.core.callbacks.schema import CBEventType

from agenttape_core.testing import expect

from ..calls import read
from ..listeners import CallbackListener, listening
from ..llm_hooks import LLMHooks
from ..suite import check
from .events import family
from .streams import EVERYTHING


class FailureChecks(LLMHooks):
    """The checks about errors: skipped without `make_failing` and `make_breaking`."""

    @check
    def test_error_reaches_the_caller(self) -> None:
        """An error of the service reaches the caller of each call: the same type for the same failure."""
        types = {}
        for call in self.calls:
            error = self._raised(self.make_failing(), call)
            expect(error is not None, f"{call} answered although the service fails")
            types[call] = type(error).__name__
        expect(len(set(types.values())) == 1, f"the same failure raised {types}")

    @check
    def test_error_ends_what_was_begun(self) -> None:
        """After an error no span is open, every callback has ended, and no end event reports an answer."""
        for call in self.calls:
            llm, listener = self.make_failing(), CallbackListener()
            llm.callback_manager = CallbackManager([listener])
            with listening() as reports:
                self._raised(llm, call)
            still = [span for span, how in reports.spans.items() if how == "open"]
            expect(not still, f"{call}: still open after the error: {still}")
            # LlamaIndex reports an exception as an event that begins and never ends.
            begun = Counter(event for event, kind in listener.begun if kind != CBEventType.EXCEPTION)
            ended = Counter(listener.ended)
            expect(begun == ended, f"{call}: {begun.total()} callbacks began, {ended.total()} ended")
            events = reports.shape(family(call))
            expect(f"{family(call)}EndEvent" not in events, f"{call}: fired {events} although it failed")

    @check
    def test_broken_stream_keeps_its_chunks(self) -> None:
        """Of a stream that breaks, the reader gets the chunks before the error, then the error, and no end event."""
        for call in self.streaming():
            llm = self.make_breaking()
            chunks: list[Any] = []
            with listening() as reports:
                error = self._raised(llm, call, chunks)
            expect(chunks, f"{call}: no chunk came before the error {error!r}")
            expect(error is not None, f"{call}: the stream ended after {len(chunks)} chunks without an error")
            events = reports.shape(family(call), "Exception")
            expect(f"{family(call)}EndEvent" not in events, f"{call}: fired {events} although it broke")
            expect("ExceptionEvent" in events, f"{call}: fired {events}, and no event reports the error")

    def _raised(self, llm: Any, call: str, chunks: list[Any] | None = None) -> Exception | None:
        kept: list[Any] = [] if chunks is None else chunks
        try:
            if "stream" in call:
                read(self.begin(llm, call), EVERYTHING, kept.append)
            else:
                self.ask(llm, call)
        except Exception as error:
            return error
        return None

"""Checks about the events, spans and callbacks of an LLM."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import Any

from llama_index.core.callbacks import CallbackManager
from llama_index.core.callbacks.schema import CBEventType
from llama_index.core.instrumentation.events import BaseEvent

from agenttape_core.testing import expect

from ..calls import COMPLETIONS, read
from ..comparison import content_of
from ..listeners import CallbackListener, Reports, listening
from ..llm_hooks import LLMHooks
from ..suite import check, needs, shown


def family(call: str) -> str:
    """Return the prefix of the names of the events of a call."""
    return "LLMCompletion" if call in COMPLETIONS else "LLMChat"


class EventChecks(LLMHooks):
    """The checks about events, spans and callbacks."""

    @check
    def test_call_fires_one_start_and_one_end(self) -> None:
        """A plain call fires one start and one end, in this order."""
        for call in self.calls_of("chat", "complete"):
            self._expect_shape(call, ["Start", "End"])

    @check
    def test_async_call_fires_one_start_and_one_end(self) -> None:
        """So does an asynchronous call."""
        for call in self.calls_of("achat", "acomplete"):
            self._expect_shape(call, ["Start", "End"])

    @check
    def test_stream_fires_an_event_for_each_chunk(self) -> None:
        """A stream fires one start, one event for each chunk, and one end, in this order."""
        for call in self.calls_of("stream_chat", "stream_complete"):
            self._expect_shape(call, ["Start", "InProgress", "End"])

    @check
    def test_async_stream_fires_an_event_for_each_chunk(self) -> None:
        """So does an asynchronous stream."""
        for call in self.calls_of("astream_chat", "astream_complete"):
            self._expect_shape(call, ["Start", "InProgress", "End"])

    @check
    def test_events_of_a_call_have_one_span(self) -> None:
        """The events of each span are a start, progress, and an end; every event has the span of a call."""
        for call in self.calls:
            reports, _ = self._reports(call)
            spans: dict[str | None, list[BaseEvent]] = {}
            for event in reports.named("LLMChat", "LLMCompletion"):
                spans.setdefault(event.span_id, []).append(event)
            for span, events in spans.items():
                names = [type(event).__name__ for event in events]
                expect(span in reports.spans, f"{call}: {names} name the span {span!r}, which was never begun")
                whole = names[0].endswith("StartEvent") and names[-1].endswith("EndEvent")
                expect(whole, f"{call}: the events of the span {span!r} are {names}")

    @check
    def test_events_carry_question_and_answer(self) -> None:
        """The start carries the question, each event in progress its chunk, the end the answer."""
        for call in self.calls:
            reports, result = self._reports(call)
            events: list[Any] = reports.named(family(call))
            expect(events, f"{call} fires no event")
            expect(self.questions[0] in _asked(events[0]), f"{call}: the start carries {shown(_asked(events[0]))}")
            chunks = result if isinstance(result, list) else []
            last = chunks[-1] if chunks else result
            end = events[-1].response
            expect(
                content_of(end) == content_of(last),
                f"{call}: the end carries {shown(end)}, the answer was {shown(last)}",
            )
            carried = [content_of(e.response) for e in events if type(e).__name__.endswith("InProgressEvent")]
            missing = [number for number, chunk in enumerate(chunks, 1) if content_of(chunk) not in carried]
            expect(not missing, f"{call}: no event carries the chunks {missing}")

    @check
    def test_spans_are_closed(self) -> None:
        """Every span that a call begins ends, and the call's own is among them."""
        for call in self.calls:
            reports, _ = self._reports(call)
            named = [span for span in reports.spans if span.partition("-")[0].endswith(f".{call}")]
            expect(named, f"{call} begins no span of its own, but {list(reports.spans)}")
            unended = {span: how for span, how in reports.spans.items() if how != "exited"}
            expect(not unended, f"{call}: these did not end: {unended}")

    @check
    def test_closed_stream_ends_without_an_end(self) -> None:
        """A stream that is closed early fires no end: there's no answer."""
        for call in self.streaming():
            llm = self.make()
            with listening() as reports:
                chunks = read(self.begin(llm, call), 1)
            needs(len(self.ask(self.make(), call)) > 1, f"{call} streams no more than one chunk")
            events = reports.shape(family(call))
            expect(f"{family(call)}StartEvent" in events, f"{call} fires {events}")
            expect(f"{family(call)}EndEvent" not in events, f"{call}: {len(chunks)} chunk was read, and {events} fired")

    @check
    def test_older_callbacks_begin_and_end(self) -> None:
        """Each event that begins in the callback manager ends once, and one of them is of an LLM."""
        for call in self.calls:
            llm, listener = self.make(), CallbackListener()
            llm.callback_manager = CallbackManager([listener])
            self.ask(llm, call)
            begun = [event for event, _ in listener.begun]
            expect(
                CBEventType.LLM in {kind for _, kind in listener.begun},
                f"{call}: no callback is of an LLM: {listener.begun}",
            )
            expect(
                Counter(begun) == Counter(listener.ended),
                f"{call}: {len(begun)} events began, {len(listener.ended)} ended",
            )

    @check
    def test_events_tell_no_secrets(self) -> None:
        """No event, and no payload, holds a secret of the LLM."""
        needs(self.secrets, "names no `secrets`")
        for call in self.calls:
            reports, _ = self._reports(call)
            text = "".join(repr(event) for event in reports.events)
            expect(not any(secret in text for secret in self.secrets), f"{call}: an event holds a secret")

    def _reports(self, call: str) -> tuple[Reports, Any]:
        llm = self.make()
        with listening() as reports:
            result = self.ask(llm, call)
        return reports, result

    def _expect_shape(self, call: str, parts: list[str]) -> None:
        reports, result = self._reports(call)
        found = reports.shape(family(call))
        chunks = len(result) if isinstance(result, list) else 1
        wanted = [f"{family(call)}{part}Event" for part in parts for _ in range(chunks if part == "InProgress" else 1)]
        expect(found == wanted, f"{call}: fired {_counted(found)}, expected {_counted(wanted)}")


def _counted(names: list[str]) -> str:
    return ", ".join(f"{len(list(group))} x {name}" for name, group in groupby(names)) or "nothing"


def _asked(event: Any) -> str:
    if hasattr(event, "prompt"):
        return str(event.prompt)
    return " ".join(str(message.content) for message in getattr(event, "messages", ()))

"""What an LLM tells LlamaIndex's instrumentation and its older callbacks."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import Any

from llama_index.core.callbacks import CallbackManager
from llama_index.core.callbacks.schema import CBEventType
from llama_index.core.instrumentation.events import BaseEvent

from agenttape_core.testing import expect
from agenttape_llamaindex.testing.asking import COMPLETIONS, read
from agenttape_llamaindex.testing.comparing import said
from agenttape_llamaindex.testing.listeners import CallbackEar, Heard, listening
from agenttape_llamaindex.testing.llm_hooks import LLMHooks
from agenttape_llamaindex.testing.suite import needs, point, shown


def family(call: str) -> str:
    """Return how the names of the events of a call begin."""
    return "LLMCompletion" if call in COMPLETIONS else "LLMChat"


class EventPoints(LLMHooks):
    """The points about events, spans and callbacks."""

    @point
    def test_call_fires_one_start_and_one_end(self) -> None:
        """A plain call fires one start and one end, in this order."""
        for call in self.calls_of("chat", "complete"):
            self._expect_shape(call, ["Start", "End"])

    @point
    def test_async_call_fires_one_start_and_one_end(self) -> None:
        """So does an asynchronous call."""
        for call in self.calls_of("achat", "acomplete"):
            self._expect_shape(call, ["Start", "End"])

    @point
    def test_stream_fires_an_event_for_each_chunk(self) -> None:
        """A stream fires one start, one event for each chunk, and one end, in this order."""
        for call in self.calls_of("stream_chat", "stream_complete"):
            self._expect_shape(call, ["Start", "InProgress", "End"])

    @point
    def test_async_stream_fires_an_event_for_each_chunk(self) -> None:
        """So does an asynchronous stream."""
        for call in self.calls_of("astream_chat", "astream_complete"):
            self._expect_shape(call, ["Start", "InProgress", "End"])

    @point
    def test_events_of_a_call_have_one_span(self) -> None:
        """The events of each span are a start, what is in progress, and an end; every event has the span of a call."""
        for call in self.calls:
            heard, _ = self._heard(call)
            spans: dict[str | None, list[BaseEvent]] = {}
            for event in heard.named("LLMChat", "LLMCompletion"):
                spans.setdefault(event.span_id, []).append(event)
            for span, events in spans.items():
                names = [type(event).__name__ for event in events]
                expect(span in heard.spans, f"{call}: {names} name the span {span!r}, which nobody began")
                whole = names[0].endswith("StartEvent") and names[-1].endswith("EndEvent")
                expect(whole, f"{call}: the events of the span {span!r} are {names}")

    @point
    def test_events_carry_question_and_answer(self) -> None:
        """The start carries what was asked, each event in progress its chunk, the end the answer."""
        for call in self.calls:
            heard, result = self._heard(call)
            events: list[Any] = heard.named(family(call))
            expect(events, f"{call} fires no event")
            expect(self.questions[0] in _asked(events[0]), f"{call}: the start carries {shown(_asked(events[0]))}")
            chunks = result if isinstance(result, list) else []
            last = chunks[-1] if chunks else result
            end = events[-1].response
            expect(said(end) == said(last), f"{call}: the end carries {shown(end)}, answered was {shown(last)}")
            told = [said(e.response) for e in events if type(e).__name__.endswith("InProgressEvent")]
            missing = [number for number, chunk in enumerate(chunks, 1) if said(chunk) not in told]
            expect(not missing, f"{call}: no event carries the chunks {missing}")

    @point
    def test_spans_are_closed(self) -> None:
        """Every span that a call begins ends, and the call's own is among them."""
        for call in self.calls:
            heard, _ = self._heard(call)
            named = [span for span in heard.spans if span.partition("-")[0].endswith(f".{call}")]
            expect(named, f"{call} begins no span of its own, but {list(heard.spans)}")
            unended = {span: how for span, how in heard.spans.items() if how != "exited"}
            expect(not unended, f"{call}: not ended were {unended}")

    @point
    def test_closed_stream_ends_without_an_end(self) -> None:
        """A stream that is closed early fires no end: there is no answer."""
        for call in self.streaming():
            llm = self.make()
            with listening() as heard:
                chunks = read(self.begin(llm, call), 1)
            needs(len(self.ask(self.make(), call)) > 1, f"{call} streams no more than one chunk")
            events = heard.shape(family(call))
            expect(f"{family(call)}StartEvent" in events, f"{call} fires {events}")
            expect(f"{family(call)}EndEvent" not in events, f"{call}: {len(chunks)} chunk was read, and {events} fired")

    @point
    def test_older_callbacks_begin_and_end(self) -> None:
        """Each event that the callback manager is told to begin ends once, and one of them is of an LLM."""
        for call in self.calls:
            llm, ear = self.make(), CallbackEar()
            llm.callback_manager = CallbackManager([ear])
            self.ask(llm, call)
            begun = [event for event, _ in ear.begun]
            expect(CBEventType.LLM in {kind for _, kind in ear.begun}, f"{call}: no callback is of an LLM: {ear.begun}")
            expect(Counter(begun) == Counter(ear.ended), f"{call}: {len(begun)} events began, {len(ear.ended)} ended")

    @point
    def test_events_tell_no_secrets(self) -> None:
        """No event, and no payload, holds what the LLM was made with and must not tell."""
        needs(self.secrets, "names no `secrets`")
        for call in self.calls:
            heard, _ = self._heard(call)
            told = "".join(repr(event) for event in heard.events)
            expect(not any(secret in told for secret in self.secrets), f"{call}: an event tells a secret")

    def _heard(self, call: str) -> tuple[Heard, Any]:
        llm = self.make()
        with listening() as heard:
            result = self.ask(llm, call)
        return heard, result

    def _expect_shape(self, call: str, parts: list[str]) -> None:
        heard, result = self._heard(call)
        found = heard.shape(family(call))
        chunks = len(result) if isinstance(result, list) else 1
        wanted = [f"{family(call)}{part}Event" for part in parts for _ in range(chunks if part == "InProgress" else 1)]
        expect(found == wanted, f"{call}: fired {_counted(found)}, expected {_counted(wanted)}")


def _counted(names: list[str]) -> str:
    return ", ".join(f"{len(list(group))} x {name}" for name, group in groupby(names)) or "nothing"


def _asked(event: Any) -> str:
    if hasattr(event, "prompt"):
        return str(event.prompt)
    return " ".join(str(message.content) for message in getattr(event, "messages", ()))

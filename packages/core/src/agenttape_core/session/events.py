"""Events: a session's decisions, sent as they happen.

An event is plain data, a line of JSON for most sinks. It uses the words of the report, and contains no part of a
request or an answer.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping
from time import time
from typing import Any, Protocol

from agenttape_core.locks import Lock
from agenttape_core.schema import Interaction, Timing
from agenttape_core.session.report import CallRecord

SCHEMA = 1  # the version of the shape of events; it grows when a key changes its meaning
REPLAY, AUDIT = "replayEvent", "auditEvent"
"""The subjects: of what happens in a replay, and of what happens for real while it is recorded or observed."""

Event = dict[str, Any]


class EventSink(Protocol):
    """Takes events. It never raises, and never keeps its caller waiting."""

    @property
    def dropped(self) -> int:
        """The events that it could not pass on."""

    def put(self, event: Event) -> None:
        """Take an event."""

    def close(self) -> None:
        """Pass on the events taken so far, for a short time at most."""


class Events:
    """The events of one session, numbered in order. Thread-safe. `when` returns whether events are sent here."""

    def __init__(
        self, sink: EventSink, run_id: str, cassette: str, *, is_replay: bool, when: Callable[[], bool] = lambda: True
    ) -> None:
        self._sink = sink
        self._when = when
        self._numbers = itertools.count(1)
        self._lock = Lock()
        self._same = {"run_id": run_id, "cassette": cassette, "subject": REPLAY if is_replay else AUDIT}

    def tell(self, event: str, **facts: Any) -> None:
        """Send an event. `event` is such as `call.replayed`; facts that are `None` are left out."""
        if not self._when():
            return
        known = {key: fact for key, fact in facts.items() if fact is not None}
        with self._lock:  # so that a sink gets them in the order of their numbers
            numbered = {"schema": SCHEMA, "seq": next(self._numbers), "time": round(time(), 6), "event": event}
            self._sink.put({**numbered, **self._same, "thread": threading.current_thread().name, **known})

    def call_record(self, event: str, call_record: CallRecord, parent: int | None = None) -> None:
        """Tell what became of a call."""
        match_rule = str(call_record.match_rule) if call_record.match_rule is not None else None
        self.tell(event, **_place(call_record), number=call_record.number, parent=parent, match_rule=match_rule)

    def executed(self, interaction: Interaction, timing: Timing) -> None:
        """Tell that a call was executed and has ended."""
        usage = interaction.outcome.usage
        self.tell(
            "call.recorded",
            **_place(interaction),
            number=interaction.number,
            parent=interaction.parent,
            status=interaction.outcome.status,
            duration_ms=round(timing.duration_ms, 3),
            usage=usage.model_dump(exclude_none=True) if usage is not None else None,
        )

    def ended(self, facts: Mapping[str, Any]) -> None:
        """Report the end of the session, with the events that could not be passed on until now, and close the sink."""
        self.tell("session.ended", **facts, dropped=self._sink.dropped)
        self._sink.close()


def _place(call: CallRecord | Interaction) -> dict[str, str]:
    return {"kind": call.kind, "name": call.name, "address": call.address}

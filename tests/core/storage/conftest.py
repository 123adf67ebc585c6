"""Makers of records, shared by the tests of the files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agenttape_core.schema import Header, Interaction, Outcome, Timing, Usage, Volatile

MakeInteraction = Callable[..., Interaction]


def _interaction(serial: int = 1, **changes: Any) -> Interaction:
    fields: dict[str, Any] = {
        "number": serial,
        "kind": "chat",
        "name": "FakeModel",
        "address": f"agent/model#{serial}",
        "fingerprint": f"f{serial:031x}",
        "request": {"model": "fake", "messages": [{"role": "human", "content": f"question {serial}"}]},
        "outcome": Outcome(status="returned", value={"role": "ai", "content": f"answer {serial}"}),
    }
    return Interaction(**{**fields, **changes})


@pytest.fixture(scope="session")
def make() -> MakeInteraction:
    """A maker of interactions: a number, and the fields that matter to the test."""
    return _interaction


@pytest.fixture(scope="session")
def agent() -> Callable[[int], list[Interaction]]:
    """The interactions of an agent of so many turns: one tool call and one tool result of about 1 KB each."""

    def run(turns: int) -> list[Interaction]:
        description = {"type": "object", "properties": {"query": {"type": "string", "description": "what to look up"}}}
        tools = [{"name": f"tool_{i}", "description": "Looks it up.", "parameters": description} for i in range(3)]
        messages: list[Any] = [{"role": "human", "content": "Do the long task."}]
        found: list[Interaction] = []
        for turn in range(turns):
            call_id = f"call_{turn:024x}"
            call = {"name": "tool_1", "args": {"query": f"item {turn}"}, "id": call_id}
            answer = {"role": "ai", "content": "", "tool_calls": [call]}
            result = f'{{"item": {turn}, "text": "' + "all that is known of it, in words. " * 28 + '"}'
            found.append(
                _interaction(
                    2 * turn + 1,
                    request={"model": "gpt-5", "temperature": 0.0, "tools": tools, "messages": messages},
                    outcome=Outcome(
                        status="returned", value=answer, usage=Usage(input_tokens=40 * turn, output_tokens=20)
                    ),
                )
            )
            found.append(
                _interaction(
                    2 * turn + 2,
                    kind="tool",
                    name="tool_1",
                    request={"args": {"query": f"item {turn}"}},
                    outcome=Outcome(status="returned", value=result),
                )
            )
            messages = [*messages, answer, {"role": "tool", "content": result, "tool_call_id": call_id}]
        return found

    return run


@pytest.fixture(scope="session")
def full_header() -> Header:
    """A header with every field set."""
    return Header.model_validate(
        {
            "name": "weather",
            "derived_from": "weather-live",
            "tags": ["nightly"],
            "input": {"question": "Weather in Paris?\nAnd in Rome?\n"},
            "freeze": {"kinds": ["clock", "uuid"], "seed": "7"},
            "redaction": {"key": "00ff", "rules": ["customer"]},
            "volatile": Volatile(
                created="2026-01-02T03:04:05Z",
                clock=1767323045.5,
                python="3.11.9",
                packages={"agenttape-core": "0.1.0", "langchain-core": "1.7.2"},
                timings={1: Timing(duration_ms=12.5), 2: Timing(duration_ms=100.0, offsets_ms=[10.1, 20.2])},
            ),
        }
    )

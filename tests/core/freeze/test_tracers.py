"""Tracers report when something really happened, and the program does not notice whether it is traced."""

from __future__ import annotations

import importlib
import random
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agenttape_core import use_cassette
from agenttape_core.guard import is_tracer

from ...kit.installed import install

_ASKING = """
import datetime, random, time, uuid
from time import time_ns

def moments():
    return [time.time(), time_ns() / 1e9, datetime.datetime.now().timestamp()]

def drawn():
    return [random.random(), uuid.uuid4(), random.Random().random()]
"""


@pytest.fixture
def spans() -> tuple[Any, InMemorySpanExporter]:
    """A tracer, and what it has exported."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider.get_tracer("test"), exporter


def program(tracer: Any = None) -> list[Any]:
    """Draw and look at the clock, perhaps within a span."""
    if tracer is None:
        return [time.time(), uuid.uuid4(), random.random()]
    with tracer.start_as_current_span("work") as span:
        span.add_event("begun")
        return program()


@pytest.mark.parametrize(
    ("distribution", "name"),
    [
        ("openinference-instrumentation", "openinference.instrumentation"),
        ("langfuse", "langfuse"),
        ("traceloop-sdk", "traceloop.sdk"),
        ("arize-phoenix-otel", "phoenix.otel"),
    ],
)
@pytest.mark.parametrize("mode", ["all", "none"])
def test_moments_and_ids_of_a_tracer_are_real(
    distribution: str, name: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a session is open, code of a tracer has the real clock, and ids that come once."""
    tracer: Any = install(tmp_path, distribution, name, _ASKING)
    monkeypatch.setitem(sys.modules, name, tracer)
    with use_cassette(tmp_path / "run.yaml", mode="all"):
        first = tracer.drawn()
    before = time.time()
    with use_cassette(tmp_path / "run.yaml", mode=mode):
        moments, drawn = tracer.moments(), tracer.drawn()
    assert all(before - 0.001 <= moment <= time.time() + 0.001 for moment in moments)
    assert not set(first) & set(drawn)


def test_spans_of_a_replay_are_its_own(tmp_path: Path, spans: tuple[Any, InMemorySpanExporter]) -> None:
    """OpenTelemetry's spans begin and end in the replay, and are not those of the recording."""
    tracer, exporter = spans
    with use_cassette(tmp_path / "run.yaml", mode="all"):
        recorded = program(tracer)
    before = time.time_ns()
    with use_cassette(tmp_path / "run.yaml"):
        assert program(tracer) == recorded
    first, second = exporter.get_finished_spans()
    assert second.start_time is not None
    assert second.end_time is not None
    assert before <= second.start_time <= second.events[0].timestamp <= second.end_time <= time.time_ns()
    assert first.context.trace_id != second.context.trace_id


@pytest.mark.parametrize("traced", [(True, False), (False, True)])
def test_tracing_changes_nothing(
    traced: tuple[bool, bool], tmp_path: Path, spans: tuple[Any, InMemorySpanExporter]
) -> None:
    """A program draws the same ids and numbers whether it is traced or not."""
    seen = []
    for mode, is_traced in zip(("all", "none"), traced, strict=True):
        with use_cassette(tmp_path / "run.yaml", mode=mode):
            seen.append([program(spans[0] if is_traced else None) for _ in range(2)])
    assert seen[0] == seen[1]


_FRAME = "import sys\nframe = sys._getframe()\n"


@pytest.mark.parametrize(
    ("distribution", "name", "expected"),
    [
        ("opentelemetry-sdk", "opentelemetry.sdk.trace", True),
        ("langfuse", "langfuse", True),
        ("sentry-sdk", "sentry_sdk", True),
        ("langfuse-like", "langfuse_like", False),
        ("llama-index-core", "llama_index.core", False),
        ("my-agent", "langfuse", False),
        ("", "langfuse", False),
    ],
)
def test_what_is_a_tracer(distribution: str, name: str, expected: bool, tmp_path: Path) -> None:
    """A module counts if the distribution of its name is installed, and has its file; no other of that name does."""
    module: Any = install(tmp_path, distribution, name, _FRAME)
    assert is_tracer(module.frame) is expected


def test_a_module_of_the_program_with_the_name_of_a_tracer_is_the_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It draws what was recorded."""
    (tmp_path / "posthog.py").write_text(_ASKING, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "posthog", raising=False)
    module: Any = importlib.import_module("posthog")
    monkeypatch.delitem(sys.modules, "posthog")
    with use_cassette(tmp_path / "run.yaml", mode="all"):
        recorded = module.drawn()
    with use_cassette(tmp_path / "run.yaml"):
        assert module.drawn() == recorded

"""Faults: one agent, of which each recorded call fails once in each way."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from measure import FULL, Row, Scale
from observed import Caller, look

from agenttape_core import use_cassette, what_if
from agenttape_core.experiments import faults


def _answer() -> str:
    call = {"name": "look", "args": {"city": "Rome"}, "id": "call_1"}
    model: Any = Caller(messages=iter([AIMessage("", tool_calls=[call]), AIMessage("Sunny.")]))
    return str(create_agent(model, [look]).invoke({"messages": [("user", "Rome?")]})["messages"][-1].text)


def cells(folder: Path, scale: Scale = FULL) -> Iterator[Row]:
    """Measure a cell of the matrix against a strict replay of the same run."""
    path = folder / "faulted.yaml"
    with use_cassette(path, mode="record"):
        _answer()
    _answer()
    began, rounds = time.process_time(), max(scale.calls // 20, 1)
    for _ in range(rounds):
        what_if(path, _answer, {})
    replay = (time.process_time() - began) / rounds
    began, done = time.process_time(), 0
    for _ in range(max(rounds // 5, 1)):
        done += len(faults(_answer, path).cells)
    cell = (time.process_time() - began) / done
    yield Row("faults: cells of an agent of 3 calls, each second of one processor", f"{1 / cell:.0f}")
    yield Row("faults: a cell over a strict replay of the run", f"{cell / replay:.2f}x", "<= 1.5x")

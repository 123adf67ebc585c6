"""Old defects of replays that are no difference between two replays: each is put back by undoing what corrected it.

A run of pytest loads this module as a plugin, and puts back the defect that the environment names. `verify` finds those
that show in a replay of a program; `tests/*/put_back.py` has them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from importlib import import_module
from typing import Any, NamedTuple

VARIABLE = "PUT_BACK_DEFECT"
"""The environment variable with the name of the defect."""


class Defect(NamedTuple):
    """A defect.

    Args:
        undoes: Undoes its correction.
        found_by: The test that finds it: a file, and words that choose some of its tests.
        words: These words; empty for all.
    """

    undoes: Callable[[], None]
    found_by: str
    words: str = ""


def _put(module: str, name: str, value: Any) -> Callable[[], None]:
    """Return what puts a value into the place of an attribute of a module, or of a class in it."""

    def put() -> None:
        owner = import_module(module)
        *outer, last = name.split(".")
        for part in outer:
            owner = getattr(owner, part)
        setattr(owner, last, value)

    return put


def _steps_in_recordings_only() -> None:
    """Remember the steps of sessions that record, and of no replay."""
    _put("agenttape_core.session.base_session", "BaseSession.keeps_steps", property(lambda self: self.records))()
    _put("agenttape_core.session.ledger", "Ledger.watch_steps", lambda _: None)()


def _no_steps_of_added_runs() -> None:
    """Record the steps of runs in new cassettes only."""
    steps = import_module("agenttape_langgraph.node_steps").GraphSteps
    real = steps._record

    def record(self: Any, *args: Any, **how: Any) -> None:
        if not self._session.policy.adds:
            real(self, *args, **how)

    steps._record = record


DEFECTS: dict[str, Defect] = {
    "ids of observed runs stay": Defect(
        _put("agenttape_core.session.ids_of_run", "counterparts", lambda _, recorded: list(recorded)),
        "tests/langgraph/test_observed.py",
        "swarm",
    ),
    "agents within tools are served as a block": Defect(
        _put("agenttape_core.engine.policy", "Policy.runs_through", lambda *_: False),
        "tests/langchain/test_agents_as_tools.py",
        "supervisor_replays",
    ),
    "added runs have no steps": Defect(_no_steps_of_added_runs, "tests/langgraph/time_travel/test_added_runs.py"),
    "tracers read the clock of the call that tells them": Defect(
        _put("agenttape_langchain.told", "told_outside", nullcontext), "tests/langgraph/test_tracer_times.py"
    ),
    "tracers read the frozen clock": Defect(
        _put("agenttape_core.freeze.frozen_function", "is_tracer", lambda _: False), "tests/core/freeze/test_tracers.py"
    ),
    "a replay knows no steps": Defect(_steps_in_recordings_only, "tests/llamaindex/test_steps.py"),
    "a miss of a stand-in leaves a stream open": Defect(
        _put("agenttape_llamaindex.stand_ins.llms", "halts_end_streams_for", lambda _: None),
        "tests/llamaindex/test_replay_llm.py",
        "ends_a_stream",
    ),
    "stand-ins ask with encoded schemas": Defect(
        _put("agenttape_core.integration.stand_ins.recorded", "Recorded.value", lambda _, plain: plain),
        "tests/llamaindex/test_structured.py",
        "nested",
    ),
    "each turn writes the conversation again": Defect(
        _put("agenttape_llamaindex.workflows.events", "is_steady", lambda _: False),
        "tests/llamaindex/test_handler_costs.py",
        "costs_the_same",
    ),
    "observed runs have no order": Defect(
        _put("agenttape_llamaindex.workflows.order", "_recorded_ticks", lambda _: []),
        "tests/llamaindex/test_observed_order.py",
    ),
}
"""The defects, by what is wrong."""


def pytest_configure() -> None:
    """Put back the defect that the environment names, before a test or a session begins."""
    name = os.environ.get(VARIABLE)
    if name is not None:
        DEFECTS[name].undoes()

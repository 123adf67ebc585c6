"""Old defects of replays that are no difference between two replays: each is put back by undoing what corrected it.

A run of pytest loads this module as a plugin, and puts back the defect that the environment names. `verify` finds some
of those that show in a replay of a program: see `tests/core/tools/verify/put_back.py`.

Each undoes its correction at one place of today's code; where a defect stood in code that is gone, it undoes what does
the work of that code now. With some, a program waits for ever, and its test gives up after a while.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import nullcontext
from contextvars import copy_context
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

VARIABLE = "PUT_BACK_DEFECT"
"""The environment variable with the name of the defect."""


class Defect(NamedTuple):
    """A defect.

    Args:
        undoes: Undoes its correction.
        found_by: The test that finds it: a file, and words that choose some of its tests.
        words: These words; empty for all.
        in_children: Whether it is undone in the Pythons that the test starts, and not in that of the test.
    """

    undoes: Callable[[], None]
    found_by: str
    words: str = ""
    in_children: bool = False


def owner_of(module: str, name: str) -> tuple[Any, str]:
    """Return a module, or a class in it, and the name of the attribute of it that a dotted name is.

    Raises:
        AttributeError: If there is no such attribute (any more).
    """
    owner = import_module(module)
    *outer, last = name.split(".")
    for part in outer:
        owner = getattr(owner, part)
    getattr(owner, last)
    return owner, last


def _put_now(module: str, name: str, value: Any) -> None:
    setattr(*owner_of(module, name), value)


def _put(module: str, name: str, value: Any) -> Callable[[], None]:
    """Return what puts a value into the place of an attribute of a module, or of a class in it."""
    return partial(_put_now, module, name, value)


def _steps_in_recordings_only() -> None:
    """Remember the steps of sessions that record, and of no replay."""
    _put("agenttape_core.session.session", "Session.keeps_steps", property(lambda self: self.records))()
    _put("agenttape_core.session.ledger", "Ledger.watch_steps", lambda _: None)()


def _no_steps_of_added_runs() -> None:
    """Record the steps of runs in new cassettes only."""
    steps = import_module("agenttape_langgraph.node_steps").GraphSteps
    real = steps._record

    def record(self: Any, *args: Any, **how: Any) -> None:
        if not self._session.policy.adds:
            real(self, *args, **how)

    steps._record = record


def _a_session_counts_as_open_while_it_opens() -> None:
    """Let the guard of the time before a session rest as soon as the session is being opened."""
    process = import_module("agenttape_startup").Process  # as a program that a command starts has it
    real = process._opened

    def opened(self: Any) -> Any:
        self._session = nullcontext()
        return real(self)

    process._opened = opened


DEFECTS: dict[str, Defect] = {
    "ids of observed runs stay": Defect(
        _put("agenttape_core.session.id_mapping", "counterparts", lambda _, recorded: list(recorded)),
        "tests/langgraph/test_observed.py",
        "swarm",
    ),
    "merged handlers lose their order": Defect(
        _put("agenttape_langchain.automatic", "keeping_order", lambda merge: merge),
        "tests/langgraph/test_message_ids.py",
        "merged_handlers",
    ),
    "conversations are told apart by their order": Defect(
        _put("agenttape_core.integration", "RecordedRuns.begin", lambda _, begin, *_given: begin()),
        "tests/langgraph/test_threads.py",
        "keep_their_answers",
    ),
    "a tool's set is a text in today's order": Defect(
        _put("agenttape_llamaindex.tools", "recorded_text", lambda _, text: text),
        "tests/llamaindex/test_tools.py",
        "text_of_a_set",
    ),
    "triplets of a graph come in the order of a set": Defect(
        _put("agenttape_llamaindex.automatic", "_triplets_in_order", lambda real: real),
        "tests/llamaindex/test_sets.py",
        "triplets",
    ),
    "agents within tools are replayed as a block": Defect(
        _put("agenttape_core.engine", "Policy.steps_into", lambda *_: False),
        "tests/langchain/test_agents_as_tools.py",
        "supervisor_replays",
    ),
    "added runs have no steps": Defect(_no_steps_of_added_runs, "tests/langgraph/time_travel/test_added_runs.py"),
    "tracers read the clock of the call that tells them": Defect(
        _put("agenttape_langchain.automatic", "notified_outside", nullcontext),
        "tests/langgraph/test_message_ids.py",
        "times_of_a_tracer",
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
        "tests/llamaindex/test_replay_llm.py",
        "nested",
    ),
    "each turn writes the conversation again": Defect(
        _put("agenttape_llamaindex.workflows.events", "difference", lambda _, whole: {"$to": whole}),
        "tests/llamaindex/test_handler_costs.py",
        "costs_the_same",
    ),
    "what is reached beside boundaries is not named": Defect(
        _put("agenttape_core.lifecycle.open_cassette", "_uncovered", lambda _: ""),
        "tests/langchain/test_bare_functions.py",
    ),
    "contexts that are older than the session are left alone": Defect(
        _put("agenttape_core.scheduling.loop_seams", "join_session", lambda _: None),
        "tests/core/session/test_contexts_of_their_own.py",
    ),
    "garbage draws what the program would draw next": Defect(
        _put("agenttape_core.freeze.frozen_function", "is_collecting", lambda: False),
        "tests/core/freeze/test_bare_threads.py",
        "garbage",
    ),
    "a replay admits what arrives as it comes": Defect(
        _put("agenttape_core.scheduling.scheduler", "keys_of", lambda _: ()),
        "tests/core/session/test_drawn_programs.py",
    ),
    "timers of ours are held back with the program": Defect(
        _put("agenttape_core.scheduling.clock", "Context", copy_context),
        "tests/core/session/test_beside_loops.py",
        "timer_of_ours",
    ),
    "observed runs have no order": Defect(
        _put("agenttape_llamaindex.workflows.order", "_recorded_ticks", lambda _: []),
        "tests/llamaindex/test_observed_order.py",
    ),
    "connections get out while a session opens": Defect(
        _a_session_counts_as_open_while_it_opens,
        "tests/core/tools/processes/test_commands.py",
        "while_a_session_opens",
        in_children=True,
    ),
    "an import waits for a session whose opening waits for that import": Defect(
        _put("agenttape_core.tools.processes.startup.agenttape_startup", "_waits_for_import", lambda *_: False),
        "tests/core/tools/processes/test_decisions.py",
        "waits_for_an_import",
    ),
    "commands draw a hash seed of their own": Defect(
        _put("agenttape_core.tools.processes.run", "_hash_seed", lambda _: secrets.randbelow(2**32)),
        "tests/core/tools/processes/test_commands.py",
        "the_hash_seed",
    ),
    "recordings keep no hash seed": Defect(
        _put("agenttape_core.lifecycle.header", "hash_seed", lambda: None), "tests/core/session/test_hash_seed.py"
    ),
    "programs of workflows alone are not connected": Defect(
        _put("agenttape_llamaindex_early", "workflows", nullcontext),
        "tests/llamaindex/test_workflows_alone.py",
        "is_recorded",
        in_children=True,
    ),
    "stand-ins ask for objects by tools only": Defect(
        _put("agenttape_llamaindex.stand_ins.llms", "ReplayLLM._response_format", lambda *_: None),
        "tests/llamaindex/test_replay_llm.py",
        "response_format",
    ),
    "stand-ins take all calls of tools": Defect(
        _put("agenttape_llamaindex.stand_ins.llms", "ReplayLLM._asked_for_one", False),
        "tests/llamaindex/test_replay_llm.py",
        "one_call",
    ),
}
"""The defects, by what is wrong."""


def table() -> str:
    """Return the table of the page `docs/identical.md`, as Markdown."""
    rows = [f"| {name} | `{defect.found_by}` |" for name, defect in DEFECTS.items()]
    return "\n".join(["| put back | found by tests in |", "|---|---|", *rows])


def named() -> Defect:
    """Return the defect that the environment names."""
    return DEFECTS[os.environ[VARIABLE]]


def pytest_configure() -> None:
    """Put back the defect that the environment names, before a test or a session begins."""
    if VARIABLE not in os.environ:
        return
    if named().in_children:
        paths = [str(Path(__file__).with_name("children")), os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    else:
        named().undoes()

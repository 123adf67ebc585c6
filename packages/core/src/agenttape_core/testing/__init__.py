"""For authors of integrations: the conformance suite with its scripted world, and the raw comparison of whole runs."""

from agenttape_core.storage.stable import stable_text
from agenttape_core.testing.bench import Shape
from agenttape_core.testing.concurrency import Branch
from agenttape_core.testing.conformance import IntegrationConformance
from agenttape_core.testing.identical import (
    Capture,
    Facts,
    PartDifference,
    Program,
    Verdict,
    compare_runs,
    record_run,
    replay_run,
)
from agenttape_core.testing.raw import raw
from agenttape_core.testing.running import CheckResult, CheckSuite, expect, run_conformance
from agenttape_core.testing.world import ScriptedError, World

__all__ = [
    "Branch",
    "Capture",
    "CheckResult",
    "CheckSuite",
    "Facts",
    "IntegrationConformance",
    "PartDifference",
    "Program",
    "ScriptedError",
    "Shape",
    "Verdict",
    "World",
    "compare_runs",
    "expect",
    "raw",
    "record_run",
    "replay_run",
    "run_conformance",
    "stable_text",
]

"""For authors of integrations: the conformance suite, and the scripted world that it puts behind what is taped."""

from agenttape_core.testing.concurrency import Branch
from agenttape_core.testing.conformance import IntegrationConformance
from agenttape_core.testing.hooks import Shape
from agenttape_core.testing.running import CheckResult, CheckSuite, expect, run_conformance
from agenttape_core.testing.stable import stable_text
from agenttape_core.testing.world import ScriptedError, World

__all__ = [
    "Branch",
    "CheckResult",
    "CheckSuite",
    "IntegrationConformance",
    "ScriptedError",
    "Shape",
    "World",
    "expect",
    "run_conformance",
    "stable_text",
]

"""The conformance suite: every check that an integration must keep."""

from __future__ import annotations

from agenttape_core.testing.checks.ambient import AmbienceChecks
from agenttape_core.testing.checks.files import FileChecks
from agenttape_core.testing.checks.misses import MissChecks
from agenttape_core.testing.checks.processes import ProcessChecks
from agenttape_core.testing.checks.results import ResultChecks
from agenttape_core.testing.checks.sequences import SequenceChecks
from agenttape_core.testing.checks.sessions import SessionChecks
from agenttape_core.testing.checks.streams import StreamChecks


class IntegrationConformance(
    ResultChecks,
    StreamChecks,
    SequenceChecks,
    MissChecks,
    SessionChecks,
    AmbienceChecks,
    FileChecks,
    ProcessChecks,
):
    """The promises of every integration, as tests. Derive from it, say how yours is made, taped and called, run pytest.

    `make` and `tape` must be given, and `shapes` unless it is a plain function; see `Hooks` for the rest. Each `test_*`
    method is one check. Checks of something that an integration does not have (a shape, ambience, token counts) are
    skipped, with the reason. Pytest is not needed: `run_conformance` runs the checks too.
    """

"""The conformance suite: every point that an integration must keep."""

from __future__ import annotations

from agenttape_core.testing.checks.ambient import AmbiencePoints
from agenttape_core.testing.checks.files import FilePoints
from agenttape_core.testing.checks.misses import MissPoints
from agenttape_core.testing.checks.results import ResultPoints
from agenttape_core.testing.checks.sequences import SequencePoints
from agenttape_core.testing.checks.sessions import SessionPoints
from agenttape_core.testing.checks.streams import StreamPoints
from agenttape_core.testing.checks.threads import ElsewherePoints


class IntegrationConformance(
    ResultPoints,
    StreamPoints,
    SequencePoints,
    MissPoints,
    SessionPoints,
    AmbiencePoints,
    FilePoints,
    ElsewherePoints,
):
    """What must hold for whatever is taped. Derive from it, say how yours is made, taped and called, and run pytest.

    `make` and `tape` must be given, and `shapes` unless it is a plain function; see `Hooks` for the rest. Each `test_*`
    method is one point. What an integration does not have (a shape, ambience, token counts) is skipped, with the
    reason. Nothing of pytest is needed: `run_conformance` runs the points too.
    """

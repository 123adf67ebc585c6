"""The conformance suite: every point that an integration must keep."""

from __future__ import annotations

from agenttape_core.testing.points.ambience import AmbiencePoints
from agenttape_core.testing.points.elsewhere import ElsewherePoints
from agenttape_core.testing.points.files import FilePoints
from agenttape_core.testing.points.misses import MissPoints
from agenttape_core.testing.points.results import ResultPoints
from agenttape_core.testing.points.sequences import SequencePoints
from agenttape_core.testing.points.sessions import SessionPoints
from agenttape_core.testing.points.streams import StreamPoints


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

"""The conformance suite: every point that an integration must keep."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal
from unittest import SkipTest

from agenttape_core.errors import AgentTapeHalt, ConfigurationError
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


@dataclass(frozen=True, slots=True)
class PointResult:
    """How one point ended.

    Args:
        point: The name of the point.
        says: What must hold.
        outcome: `passed`, `failed` or `skipped`.
        error: Why it failed or was skipped.
    """

    point: str
    says: str
    outcome: Literal["passed", "failed", "skipped"]
    error: BaseException | None = None

    def __str__(self) -> str:
        because = f": {self.error}" if self.error is not None else ""
        return f"{self.outcome:<7}  {self.point}{because}"


def run_conformance(suite: type[IntegrationConformance], points: Collection[str] | None = None) -> list[PointResult]:
    """Run the points of a suite without a test runner.

    Args:
        suite: The class that an author derived from `IntegrationConformance`.
        points: The names of the points to run; by default all of them.

    Returns:
        A result for each point, in the order of the suite.

    Raises:
        ConfigurationError: If there is no point of a name.
    """
    known = points_of(suite)
    if points is not None and (unknown := sorted(set(points) - set(known))):
        raise ConfigurationError(f"{suite.__name__} has no point {', '.join(unknown)}; it has: {', '.join(known)}")
    return [_run(suite, point) for point in known if points is None or point in points]


def points_of(suite: type[IntegrationConformance]) -> list[str]:
    """Return the names of the points, in the order in which they are written."""
    return list(dict.fromkeys(name for cls in suite.__mro__ for name in vars(cls) if name.startswith("test_")))


def _run(suite: type[IntegrationConformance], point: str) -> PointResult:
    bench = suite()
    method = getattr(bench, point)
    says = (method.__doc__ or "").partition("\n")[0]
    try:
        bench.setup_method()
        try:
            method()
        finally:
            bench.teardown_method()
    except SkipTest as reason:
        return PointResult(point, says, "skipped", reason)
    except (Exception, AgentTapeHalt) as error:  # noqa: BLE001 - whatever stops a point is its result
        return PointResult(point, says, "failed", error)
    return PointResult(point, says, "passed")

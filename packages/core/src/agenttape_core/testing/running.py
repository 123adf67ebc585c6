"""Running the points of a suite without a test runner."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, Protocol
from unittest import SkipTest

from agenttape_core.errors import AgentTapeHalt, ConfigurationError


class PointSuite(Protocol):
    """A class whose methods `test_*` are points: pytest collects them, and `run_conformance` runs them."""

    def setup_method(self) -> None:
        """Prepare for one point."""

    def teardown_method(self) -> None:
        """Remove what the point left."""


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


def expect(condition: object, message: str) -> None:
    """Fail the point with a message unless the condition holds.

    Args:
        condition: What must be true.
        message: What was found, and what was expected.

    Raises:
        AssertionError: If it does not.
    """
    __tracebackhide__ = True  # pytest then shows the line of the point
    if not condition:
        raise AssertionError(message)


def run_conformance(suite: type[PointSuite], points: Collection[str] | None = None) -> list[PointResult]:
    """Run the points of a suite without a test runner.

    Args:
        suite: The class that an author derived from a suite, such as `IntegrationConformance`.
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


def points_of(suite: type[PointSuite]) -> list[str]:
    """Return the names of the points, in the order in which they are written."""
    return list(dict.fromkeys(name for cls in suite.__mro__ for name in vars(cls) if name.startswith("test_")))


def _run(suite: type[PointSuite], point: str) -> PointResult:
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

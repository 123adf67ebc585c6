"""Running the checks of a suite without a test runner."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, Protocol
from unittest import SkipTest

from agenttape_core.errors import AgentTapeHalt, ConfigurationError


class CheckSuite(Protocol):
    """A class whose methods `test_*` are checks: pytest collects them, and `run_conformance` runs them."""

    def setup_method(self) -> None:
        """Prepare for one check."""

    def teardown_method(self) -> None:
        """Clean up after the check."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check.

    Args:
        check: The name of the check.
        says: The promise that it tests.
        outcome: `passed`, `failed` or `skipped`.
        error: The reason why it failed or was skipped.
    """

    check: str
    says: str
    outcome: Literal["passed", "failed", "skipped"]
    error: BaseException | None = None

    def __str__(self) -> str:
        because = f": {self.error}" if self.error is not None else ""
        return f"{self.outcome:<7}  {self.check}{because}"


def expect(condition: object, message: str) -> None:
    """Fail the check with a message unless the condition holds.

    Args:
        condition: The condition.
        message: The finding, and the expectation.

    Raises:
        AssertionError: If it does not.
    """
    __tracebackhide__ = True  # pytest then shows the line of the check
    if not condition:
        raise AssertionError(message)


def run_conformance(suite: type[CheckSuite], checks: Collection[str] | None = None) -> list[CheckResult]:
    """Run the checks of a suite without a test runner.

    Args:
        suite: The class that an author derived from a suite, such as `IntegrationConformance`.
        checks: The names of the checks to run; by default all of them.

    Returns:
        A result for each check, in the order of the suite.

    Raises:
        ConfigurationError: If there is no check with a name.
    """
    known = checks_of(suite)
    if checks is not None and (unknown := sorted(set(checks) - set(known))):
        raise ConfigurationError(f"{suite.__name__} has no check {', '.join(unknown)}; it has: {', '.join(known)}")
    return [_run(suite, check) for check in known if checks is None or check in checks]


def checks_of(suite: type[CheckSuite]) -> list[str]:
    """Return the names of the checks, in the order in which they are written."""
    return list(dict.fromkeys(name for cls in suite.__mro__ for name in vars(cls) if name.startswith("test_")))


def _run(suite: type[CheckSuite], check: str) -> CheckResult:
    bench = suite()
    method = getattr(bench, check)
    says = (method.__doc__ or "").partition("\n")[0]
    try:
        bench.setup_method()
        try:
            method()
        finally:
            bench.teardown_method()
    except SkipTest as reason:
        return CheckResult(check, says, "skipped", reason)
    except (Exception, AgentTapeHalt) as error:  # noqa: BLE001 - whatever stops a check is its result
        return CheckResult(check, says, "failed", error)
    return CheckResult(check, says, "passed")

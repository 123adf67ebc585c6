"""What both suites of the kit share: points, known deviations, and what goes around each point."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any, ClassVar, TypeVar
from unittest import SkipTest

from agenttape_core import ConfigurationError
from agenttape_core.testing import expect

SuiteT = TypeVar("SuiteT", bound="KitSuite")


class KitSuite:
    """The part of a suite that has nothing to do with what it tests."""

    deviations: ClassVar[Mapping[str, str]] = {}
    """Points that are known not to hold, by their names, and why. Each is run all the same: it is skipped while it
    fails, and fails when it holds, so that the list stays true."""

    def setup_method(self) -> None:
        """Check what the author says. A test runner calls this before each point.

        Raises:
            ConfigurationError: If `deviations` names a point that there is not.
        """
        if unknown := sorted(name for name in self.deviations if not hasattr(type(self), name)):
            raise ConfigurationError(f"deviations: {type(self).__name__} has no point {', '.join(unknown)}")

    def teardown_method(self) -> None:
        """Do nothing; for authors who have something to remove after each point."""

    @contextmanager
    def around(self, point: str) -> Iterator[None]:
        """Be open while a point runs: a session, a server, a patched clock.

        Args:
            point: The name of the point.
        """
        yield


def point(method: Callable[[SuiteT], None]) -> Callable[[SuiteT], None]:
    """Make a point of a method: it runs inside `around`, and its suite may say that it is known not to hold."""

    @wraps(method)
    def checked(suite: SuiteT) -> None:
        __tracebackhide__ = True
        name = method.__name__
        known = suite.deviations.get(name)
        missing: Exception | None = None
        found: Exception | None = None
        with suite.around(name):
            try:
                method(suite)
            except SkipTest as reason:  # raised outside: what is around must not take it for a failure
                missing = reason
            except Exception as error:
                if known is None:
                    raise
                found = error
        if missing is not None:
            raise missing
        if known is not None:
            expect(found is not None, f"{name} is named in `deviations`, but it holds: take it out")
            raise SkipTest(f"known deviation: {known}: {found}")

    return checked


def needs(condition: object, reason: str) -> None:
    """Skip the point unless what it is about is there.

    Raises:
        SkipTest: If it is not.
    """
    if not condition:
        raise SkipTest(reason)


def shown(value: Any, most: int = 300) -> str:
    """Return a value as a message shows it: not longer than a reader can use."""
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}..."

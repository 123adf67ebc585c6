"""Shared by both suites of the kit: checks, known deviations, and the context around each check."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any, ClassVar, TypeVar
from unittest import SkipTest

from agenttape_core.errors import ConfigurationError
from agenttape_core.testing import expect

SuiteT = TypeVar("SuiteT", bound="KitSuite")


class KitSuite:
    """The part of a suite that does not depend on the tested object."""

    deviations: ClassVar[Mapping[str, str]] = {}
    """The names of checks that are known not to hold, with the reasons. Each still runs: it is skipped while it fails,
    and fails when it holds, so that the list stays true."""

    def setup_method(self) -> None:
        """Check the declared deviations. A test runner calls this before each check.

        Raises:
            ConfigurationError: If `deviations` names a check that does not exist.
        """
        if unknown := sorted(name for name in self.deviations if not hasattr(type(self), name)):
            raise ConfigurationError(f"deviations: {type(self).__name__} has no check {', '.join(unknown)}")

    def teardown_method(self) -> None:
        """Do nothing; a hook to clean up after each check."""

    @contextmanager
    def around(self, check: str) -> Iterator[None]:
        """Open a context around a check: a session, a server, a patched clock.

        Args:
            check: The name of the check.
        """
        yield


def check(method: Callable[[SuiteT], None]) -> Callable[[SuiteT], None]:
    """Make a check of a method: it runs inside `around`, and its suite may declare it a deviation."""

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
            except SkipTest as reason:  # raised outside: the context around must not take it for a failure
                missing = reason
            except Exception as error:
                if known is None:
                    raise
                found = error
        if missing is not None:
            raise missing
        if known is not None:
            expect(found is not None, f"{name} is named in `deviations`, but it holds: remove it there")
            raise SkipTest(f"known deviation: {known}: {found}")

    return checked


def needs(condition: object, reason: str) -> None:
    """Skip the check unless a condition holds.

    Raises:
        SkipTest: If it does not hold.
    """
    if not condition:
        raise SkipTest(reason)


def shown(value: Any, most: int = 300) -> str:
    """Return a value for a message, cut to a readable length."""
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}..."

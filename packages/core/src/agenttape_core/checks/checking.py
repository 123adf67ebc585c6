"""A check, and its use on runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

from agenttape_core.checks.run import READ_BY_CHECKS, Run
from agenttape_core.checks.sources import run_of
from agenttape_core.errors import ConfigurationError, counted
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.tools.reporting import Checked, Finding, Judged


class Score(NamedTuple):
    """A score that an evaluator gave.

    Args:
        name: Its name.
        value: The score.
    """

    name: str
    value: float | bool


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must be true of a run: a pure function of it.

    Args:
        rule: Its word, such as `never`.
        text: The whole check in words, such as `never delete_user`.
        judge: Yields the problems of a run, and scores.
        needs: What must be known of a run: names of `Run.lacking`.
    """

    rule: str
    text: str
    judge: Callable[[Run], Iterable[Finding | Score]]
    needs: tuple[str, ...] = ()

    def __call__(self, run: Run) -> tuple[Finding, ...]:
        """Return the problems of a run."""
        return self.judged(run).findings

    def judged(self, run: Run) -> Judged:
        """Return the problems of a run, and its scores. A run that can't be judged has a problem."""
        unknown = [run.lacking[fact] for fact in self.needs if fact in run.lacking]
        made = [run.finding(f"cannot be judged: {unknown[0]}")] if unknown else list(self.judge(run))
        said = run.as_recorded  # what is expected may hold secrets, and reports may not
        findings = tuple(
            replace(each, rule=self.rule, message=said(each.message), expected=said(each.expected))
            for each in made
            if isinstance(each, Finding)
        )
        return Judged(self.rule, said(self.text), findings, tuple(each for each in made if isinstance(each, Score)))

    def __str__(self) -> str:
        return self.text


AnyCheck = Callable[[Run], Iterable[Finding]]
"""A check, or a function of one's own from a run to findings."""


def check_run(run: Run, checks: Iterable[AnyCheck]) -> Checked:
    """Return what checks say about a run.

    Args:
        run: The run.
        checks: The checks; a function of one's own has its name as its word.
    """
    judged = tuple(_judged(run, check) for check in checks)
    meta = {key: value for key, value in run.meta.items() if key not in READ_BY_CHECKS}
    return Checked(run.name, run.path, run.prompt, judged, run.model, run.provider, meta)


def _judged(run: Run, check: AnyCheck) -> Judged:
    if not callable(check):
        raise ConfigurationError(
            f"{check!r} isn't a check\n  expected one like never('delete_user'), or a function from a run to findings"
        )
    if isinstance(check, Check):
        return check.judged(run)
    rule = getattr(check, "__name__", type(check).__name__)
    return Judged(rule, rule, tuple(each if each.rule else replace(each, rule=rule) for each in check(run) or ()))


def check(source: Any, *checks: AnyCheck) -> Checked:
    """Check a run, and fail if it does not pass.

    Args:
        source: A session, the fixture `cassette`, an opened cassette, a path or a name of one, or a run.
        checks: What must be true of it.

    Returns:
        The result, with warnings and scores.

    Raises:
        AssertionError: If a check fails: where, the expected value, the value found.
        ConfigurationError: If there's no run or no check.
    """
    __tracebackhide__ = True
    result = checked(source, checks)
    if result.has_failed:
        raise AssertionError(told(result))
    return result


def checked(source: Any, checks: Collection[AnyCheck]) -> Checked:
    """Return what checks say about a run, wherever it is from.

    `source` is what `check` takes. Raises `ConfigurationError` if there's no run or no check.
    """
    if not checks:
        raise ConfigurationError(
            "check: no checks were given, so that nothing can fail\n  give some, such as no_errors()"
        )
    return check_run(run_of(source), checks)


def told(result: Checked) -> str:
    """Return what failed of a run as text, for people."""
    failing = [str(each) for each in result.findings if each.level == "error"]
    count = sum(each.has_failed for each in result.judged)
    return "\n".join([f"{result.name}: {counted(count, 'check')} failed", *failing])

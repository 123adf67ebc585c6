"""Stale cassettes: too old, of models that are gone, of other packages, or of an older prompt."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType
from typing import Any, Literal, get_args

from agenttape_core.errors import counted
from agenttape_core.tools.upkeep.facts import Facts
from agenttape_core.tools.upkeep.outdated import outdated_in
from agenttape_core.tools.upkeep.retirements import Retirements

Check = Literal["age", "model", "package", "prompt", "tool", "verified"]
ALL_CHECKS: tuple[Check, ...] = get_args(Check)
CHECKS = ALL_CHECKS[:-1]
"""The checks that are made by default: not whether `pytest --cassette-lab=live` has verified a cassette."""
_MINOR = re.compile(r"(\d+)(?:\.(\d+))?")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that has changed since a cassette was recorded.

    Args:
        path: What the cassette is called.
        check: What was looked at.
        what: What has changed, for people.
        is_stale: Whether it makes the cassette stale; else it is announced to.
    """

    path: str
    check: Check
    what: str
    is_stale: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)


def stale_among(
    facts: Sequence[Facts],
    now: datetime,
    *,
    max_age: timedelta | None,
    retirements: Retirements,
    installed: Callable[[str], str | None],
    checks: Sequence[Check] = CHECKS,
    verified: Mapping[str, datetime] = MappingProxyType({}),
) -> list[Finding]:
    """Return what has changed since cassettes were recorded, by cassette.

    Args:
        facts: What the cassettes say. They are compared with each other, too.
        now: The time.
        max_age: The limit of their age; `None` for any age.
        retirements: When models are taken away.
        installed: Returns the version of a package that is installed, or nothing.
        checks: What to look at.
        verified: When cassettes were last compared with a run for real, by what they are called.
    """
    found = [finding for each in facts for finding in _alone(each, now, max_age, retirements, installed)]
    found += [Finding(*change) for change in outdated_in(facts)]
    # A derived cassette is a run of today with something changed, such as a sample of a candidate: no test repeats it.
    own = [each.path for each in facts if not each.is_derived]
    found += [finding for path in own for finding in _of_verification(path, now, max_age, verified.get(path))]
    order = {each.path: place for place, each in enumerate(facts)}
    return sorted((finding for finding in found if finding.check in checks), key=lambda finding: order[finding.path])


def installed_version(package: str) -> str | None:
    """Return the version of a package that is installed here, or nothing."""
    try:
        return version(package)
    except (PackageNotFoundError, ValueError):  # such is an empty name
        return None


def _alone(
    facts: Facts,
    now: datetime,
    max_age: timedelta | None,
    retirements: Retirements,
    installed: Callable[[str], str | None],
) -> Iterator[Finding]:
    yield from _of_age(facts, now, max_age)
    yield from _of_models(facts, now, retirements)
    yield from _of_packages(facts.path, facts.packages, installed)


def _of_age(facts: Facts, now: datetime, max_age: timedelta | None) -> Iterator[Finding]:
    if max_age is None:
        return
    if facts.created is None:
        yield Finding(facts.path, "age", "it does not say when it was recorded")
    elif now - facts.created > max_age:
        yield Finding(facts.path, "age", f"recorded {counted((now - facts.created).days, 'day')} ago")


def _of_verification(
    path: str, now: datetime, max_age: timedelta | None, verified: datetime | None
) -> Iterator[Finding]:
    if verified is None:
        yield Finding(path, "verified", "never verified: pytest --cassette-lab=live compares it with a run for real")
    elif max_age is not None and now - verified > max_age:
        yield Finding(path, "verified", f"last verified {counted((now - verified).days, 'day')} ago")


def _of_models(facts: Facts, now: datetime, retirements: Retirements) -> Iterator[Finding]:
    for model in sorted(facts.models):
        day = retirements.of(model)
        if day is not None:
            is_gone = day <= now.date()
            tense = "was" if is_gone else "will be"
            yield Finding(facts.path, "model", f"{model} {tense} retired on {day}", is_gone)


def _of_packages(path: str, packages: Mapping[str, str], installed: Callable[[str], str | None]) -> Iterator[Finding]:
    """Yield packages of which another minor version is installed; what is not installed says nothing."""
    for package, recorded in packages.items():
        now = installed(package)
        if now is not None and _minor(now) != _minor(recorded):
            yield Finding(path, "package", f"recorded with {package} {recorded}, and {now} is installed")


def _minor(text: str) -> tuple[str, str]:
    match = _MINOR.match(text)
    return (match[1], match[2] or "0") if match is not None else (text, "")

"""Findings about runs, which know neither sessions nor cassettes; each form in which they are written is elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

from agenttape_core.matching import Difference

__all__ = ["Checked", "Finding", "Judged"]


Level = Literal["error", "warning"]  # `error` fails a gate; `warning` doesn't fail


@dataclass(frozen=True, slots=True)
class Finding:
    """Something in a run that a check does not allow.

    Texts that may quote a run stand apart from the message, so that a report can leave them out.

    Args:
        message: What is wrong, in names and numbers.
        expected: What the check expects.
        found: What the run has instead.
        differences: The places where they differ, with texts cut down to the words that differ: `recorded` is the
            expected value, `asked` the found one.
        level: Whether it fails a gate.
        rule: The word of the check.
        path: The file of the run; empty if it has none.
        line: The line in the file, 1-based, of the record that it is about.
        interaction: The number of that interaction.
        address: Its address.
    """

    message: str
    expected: str = ""
    found: str = ""
    differences: tuple[Difference, ...] = ()
    level: Level = "error"
    rule: str = ""
    path: str = ""
    line: int | None = None
    interaction: int | None = None
    address: str = ""

    @property
    def place(self) -> str:
        """The file and the line, as editors open them."""
        return f"{self.path}:{self.line}" if self.line is not None else self.path

    def lines(self) -> Iterator[str]:
        """Yield the finding as text: the place, the problem, the expected and the found value."""
        where = f"{self.place}: " if self.path else ""
        number = f" (interaction {self.interaction} at {self.address})" if self.interaction is not None else ""
        yield f"{where}{self.rule}: {self.message}{number}"
        if self.expected:
            yield f"  expected  {self.expected}"
        if self.found:
            yield f"  found     {self.found}"
        for each in self.differences:
            place = f"{each.path}: " if each.path else ""
            yield f"  {place}expected  {each.recorded}"
            yield f"  {' ' * len(place)}found     {each.asked}"

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "rule": self.rule,
            "level": self.level,
            "message": self.message,
            "expected": self.expected,
            "found": self.found,
            "differences": [
                {"path": each.path, "expected": each.recorded, "found": each.asked} for each in self.differences
            ],
            "path": self.path,
            "line": self.line,
            "interaction": self.interaction,
            "address": self.address,
        }


@dataclass(frozen=True, slots=True)
class Judged:
    """One check over one run.

    Args:
        rule: The word of the check.
        text: The check in words.
        findings: What it found; none if the run passes.
        scores: The scores that an evaluator gave, by their names.
    """

    rule: str
    text: str
    findings: tuple[Finding, ...] = ()
    scores: tuple[tuple[str, float | bool], ...] = ()

    @property
    def has_failed(self) -> bool:
        """True if a finding fails a gate."""
        return any(each.level == "error" for each in self.findings)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Judged:
        """Return the judgement that `dataclasses.asdict` made plain, even if it has been through JSON."""
        findings = [
            Finding(**{**each, "differences": tuple(Difference(**one) for one in each["differences"])})
            for each in plain["findings"]
        ]
        scores = tuple((name, value) for name, value in plain["scores"])
        return cls(plain["rule"], plain["text"], tuple(findings), scores)


@dataclass(frozen=True, slots=True)
class Checked:
    """One run, and what checks say about it.

    Args:
        name: Its name.
        path: Its file; empty if it has none.
        prompt: What it was asked.
        judged: The checks.
        model: The model that gave the answer; empty if it isn't known.
        provider: The provider of that model; empty if it isn't known.
        meta: The facts that its maker wrote down, such as those in a line of a trace.
    """

    name: str
    path: str
    prompt: str
    judged: tuple[Judged, ...] = ()
    model: str = ""
    provider: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings."""
        return tuple(finding for each in self.judged for finding in each.findings)

    @property
    def has_failed(self) -> bool:
        """True if a check failed."""
        return any(each.has_failed for each in self.judged)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "run": self.name,
            "path": self.path,
            "prompt": self.prompt,
            **{key: value for key in ("model", "provider") if (value := getattr(self, key))},
            **({"meta": dict(self.meta)} if self.meta else {}),
            "passed": not self.has_failed,
            "checks": [_plain(each) for each in self.judged],
        }


@lru_cache(maxsize=256)
def _plain(judged: Judged) -> dict[str, Any]:
    """Return a check as plain data. Equal ones are one object, as most of twenty thousand runs pass the same checks."""
    return {
        "rule": judged.rule,
        "check": judged.text,
        "passed": not judged.has_failed,
        **({"scores": dict(judged.scores)} if judged.scores else {}),
        "findings": [finding.to_dict() for finding in judged.findings],
    }


def judged_by(rule: str, name: str, path: str, findings: Iterable[Finding]) -> Checked:
    """Return a run of which one thing was judged. All findings get `rule`; those without a file are about this one."""
    found = tuple(replace(each, rule=rule, path=each.path or path) for each in findings)
    return Checked(name, path, "", (Judged(rule, name, found),))


def failed(checked: Iterable[Checked]) -> list[Checked]:
    """Return the runs that failed."""
    return [each for each in checked if each.has_failed]

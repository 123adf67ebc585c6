"""The verdict on each mutant, the scores, and the excluded tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from agenttape_core.errors import counted
from agenttape_core.experiments.result import Result, Summary, cut
from agenttape_core.experiments.strategies.mutants.edits import Mutant
from agenttape_core.experiments.strategies.mutants.running import Facts, Reply
from agenttape_core.experiments.strategies.mutants.texts import KINDS
from agenttape_core.tools.reporting import Finding

Verdict = Literal["miss", "assertion", "unused", "raised", "did not end", "survived", "no coverage"]
"""The end of a mutant. It was killed: by the replay, as a request is another one (*miss*); by an *assertion*, or
another result; by recordings that were *unused*; as the program *raised*, or *did not end*. Or it *survived*. Or it
*no coverage*: no test reaches it."""
KILLED_BY: tuple[Verdict, ...] = ("miss", "assertion", "unused", "raised", "did not end")
_LAX = ("address", "ordered", "matcher", "repeated")


def verdict_of(before: Mapping[str, Facts], reply: Reply) -> tuple[Verdict, str, str]:
    """Return the verdict on a run with an edit, the reason in a few words, and the test that has killed it."""
    if reply.ended:
        return "did not end", reply.ended, ""
    killed = next((found for name, one in before.items() if (found := _killed(name, one, reply)) is not None), None)
    if killed is not None:
        return killed
    if reply.problem:
        return "raised", reply.problem, ""
    if not reply.is_loaded:
        return "no coverage", "the file was imported before it could be edited", ""
    return "survived", "; ".join(_hidden(before, reply)), ""


def _killed(name: str, before: Facts, reply: Reply) -> tuple[Verdict, str, str] | None:
    """Return the verdict if a test has killed the edit."""
    after = reply.facts.get(name)
    if after is None or (after.how == "passed" and after.value == before.value):
        return None
    if after.how == "skipped":
        return "raised", "the test is skipped", name
    if after.how == "passed":
        return "assertion", f"returned {_cut(after.value)}, not {_cut(before.value)}", name
    return after.how, after.words, name


def _hidden(before: Mapping[str, Facts], reply: Reply) -> list[str]:
    """Return why a run that passed did so although some of its calls were not as before."""
    found: dict[str, None] = {}
    for name, after in reply.facts.items():
        if name not in before:
            continue
        now, then = set(after.calls), set(before[name].calls)
        match_rules = [match_rule for _, _, _, match_rule in sorted(now - then) if match_rule in _LAX]
        if match_rules:
            found[f"match_on hides it: a request has changed, and was answered by {match_rules[0]}"] = None
        elif after.unrecorded != before[name].unrecorded:
            found['on_miss="return" hides it: a call had no recording'] = None
        elif set(after.unused) - set(before[name].unused):
            found[f"unused hides it: {len(after.unused)} recordings were not used, which the test allows"] = None
        elif now != then:
            found["calls were made elsewhere"] = None
    return list(found)


def _cut(text: str) -> str:
    return cut(text, 40)


_PLAIN = ("id", "file", "line", "kind", "operator", "before", "after")
"""The facts of a mutant that its verdict has as plain data."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict on one mutant.

    Args:
        mutant: The mutant.
        verdict: The verdict.
        words: Why, in a few words; empty if the verdict says it all.
        test: The test that has killed it; empty if none has.
        tests: The tests that reach it.
    """

    mutant: Mutant
    verdict: Verdict
    words: str = ""
    test: str = ""
    tests: tuple[str, ...] = ()

    @property
    def is_killed(self) -> bool:
        """True if something has killed it."""
        return self.verdict in KILLED_BY

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        edit = {name: getattr(self.mutant, name) for name in _PLAIN}
        judged = {"verdict": self.verdict, "words": self.words, "test": self.test or None, "tests": list(self.tests)}
        return {**edit, **judged}

    @classmethod
    def known(cls, one: Mutant, tests: tuple[str, ...], plain: Mapping[str, Any]) -> Judged | None:
        """Return the verdict of an earlier run; `None` if that was on another edit, or with other tests."""
        if (plain["before"], plain["after"], tuple(plain["tests"])) != (one.before, one.after, tests):
            return None
        return cls(one, plain["verdict"], plain["words"], plain["test"] or "", tests)

    def __str__(self) -> str:
        said = f": {self.words}" if self.words else ""
        by = f" by {self.test}" if self.test else ""
        return "\n    ".join([f"{self.mutant.id}  {self.verdict}{by}{said}", *self.mutant.diff.splitlines()])


@dataclass(frozen=True, slots=True)
class Score:
    """The numbers of killed mutants and of others."""

    killed: int
    survived: int

    @classmethod
    def of(cls, judged: Iterable[Judged]) -> Score:
        """Return the score of some mutants; those without coverage don't count."""
        reached = [one for one in judged if one.verdict != "no coverage"]
        killed = sum(one.is_killed for one in reached)
        return cls(killed, len(reached) - killed)

    @property
    def share(self) -> float:
        """The share that was killed, from 0 to 1; 1 if there was none."""
        return self.killed / (self.killed + self.survived) if self.killed + self.survived else 1.0

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"killed": self.killed, "survived": self.survived, "score": round(self.share, 4)}

    def __str__(self) -> str:
        return f"{self.killed} of {self.killed + self.survived}"


@dataclass(frozen=True, slots=True)
class MutationScore(Result):
    """The edits of a program that its cassettes notice, and those that they do not.

    Args:
        program: What was run: the tests, or the function and its cassette.
        judged: The verdicts, in the order of files and lines.
        tests: The ids of the tests that took part.
        excluded: Why each other test did not, by its id.
        reachable: The number of mutants that some test reaches, of which `most` were drawn.
        seed: Of the draw.
        notes: Further remarks, a line each.
        is_whole: Whether it came to its end.
    """

    program: str
    judged: tuple[Judged, ...]
    tests: tuple[str, ...]
    excluded: dict[str, str]
    reachable: int
    seed: int
    notes: tuple[str, ...] = ()
    is_whole: bool = True

    @property
    def score(self) -> Score:
        """The score of all mutants with coverage."""
        return Score.of(self.judged)

    @property
    def survivors(self) -> list[Judged]:
        """The mutants that no test killed: gaps in the coverage of the cassettes."""
        return [one for one in self.judged if one.verdict == "survived"]

    @property
    def unreached(self) -> list[Judged]:
        """The mutants that no test reaches."""
        return [one for one in self.judged if one.verdict == "no coverage"]

    @property
    def ok(self) -> bool:
        """True if all edits with coverage were killed, and each test took part that has a cassette."""
        return not (self.survivors or self.excluded)

    experiment = "mutants"

    def by(self, key: Callable[[Mutant], str]) -> dict[str, Score]:
        """Return the scores of groups of mutants with coverage; `key` returns the name of the group of a mutant."""
        groups: dict[str, list[Judged]] = {}
        for one in self.judged:
            if one.verdict != "no coverage":
                groups.setdefault(key(one.mutant), []).append(one)
        return {name: Score.of(group) for name, group in groups.items()}

    @property
    def by_kind(self) -> dict[str, Score]:
        """The scores of prompts, tools and schemas, as far as there are some."""
        found = self.by(lambda one: one.kind)
        return {kind: found[kind] for kind in KINDS if kind in found}

    @property
    def by_file(self) -> dict[str, Score]:
        """The scores of the files."""
        return self.by(lambda one: one.file)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data: survivors first, then those without coverage, then the others."""
        order = {"survived": 0, "no coverage": 1}
        return {
            "program": self.program,
            **self.score.to_dict(),
            "no_coverage": len(self.unreached),
            "reachable": self.reachable,
            "seed": self.seed,
            "is_whole": self.is_whole,
            "by_kind": {name: score.to_dict() for name, score in self.by_kind.items()},
            "by_file": {name: score.to_dict() for name, score in self.by_file.items()},
            "mutants": [one.to_dict() for one in sorted(self.judged, key=lambda one: order.get(one.verdict, 2))],
            "tests": list(self.tests),
            "excluded": dict(self.excluded),
            "notes": list(self.notes),
        }

    def summary(self) -> Summary:
        """Return the score, the scores of its parts, the survivors, and the edits that no test reaches."""
        score = self.score
        share = f" killed ({score.share:.0%})" if score.killed + score.survived else " edits"
        parts = {**self.by_kind, **(self.by_file if len(self.by_file) > 1 else {})}
        table = [f"  {name}: {each}" for name, each in parts.items()]
        if self.survivors:
            table.append("survived: no test catches these")
        for each in self.survivors:
            table += [f"  {each.mutant.id}", *(f"      {line}" for line in each.mutant.diff.splitlines())]
            table += [f"      {each.words}"] if each.words else []
        if self.unreached:
            table += ["no coverage: no test reaches these", *(f"  {line}" for line in _places(self.unreached))]
        table += [*(f"excluded: {test}: {why}" for test, why in self.excluded.items()), *self.notes]
        found = [
            Finding(f"{one.id} survived", "a test that notices", _cut(one.after), path=one.file, line=one.line)
            for one in (judged.mutant for judged in self.survivors)
        ]
        return Summary(self.program, "", f"{self.program}: {score}{share}", table, found)


def _places(several: Iterable[Judged]) -> list[str]:
    """Return a line for each file and reason: the lines, and how many edits there are in them."""
    groups: dict[tuple[str, str], list[int]] = {}
    for one in several:
        groups.setdefault((one.mutant.file, one.words), []).append(one.mutant.line)
    return [
        f"{file}:{','.join(map(str, dict.fromkeys(lines)))}  {counted(len(lines), 'edit')}, {why}"
        for (file, why), lines in groups.items()
    ]

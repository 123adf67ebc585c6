"""A changed program on its recordings: two revisions replay each recording, and make only what the change affects.

What both replay strictly is decided for free. Within a spending limit, the calls that a change affects are made by both
revisions in turn, with all others replayed, and the pairs are judged as pairs of another model are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from agenttape_core.errors import ConfigurationError, counted, shown_path
from agenttape_core.experiments.engine import Jobs, refuse_below_one
from agenttape_core.experiments.program import is_command
from agenttape_core.experiments.result import Result, Summary
from agenttape_core.experiments.strategies.revisions import Replayed, Revisions, Sampling, target_and_recording
from agenttape_core.experiments.strategies.sampling import Case as Sampled
from agenttape_core.experiments.strategies.sampling import Most, Taken, take_samples
from agenttape_core.experiments.strategies.trials import (
    Group,
    Trial,
    TrialPlan,
    Trials,
    judged,
    plan_lines,
    plans_of,
    read_trials,
)
from agenttape_core.experiments.targets import tests_in
from agenttape_core.experiments.verdicts import Verdict as Paid
from agenttape_core.interventions import ASKING
from agenttape_core.lifecycle.project import project_settings
from agenttape_core.matching import Selector, refuse_unselected
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import MODEL_KINDS
from agenttape_core.storage import in_file_name, open_cassette, stem_of
from agenttape_core.tools.reading.prices import load_prices
from agenttape_core.tools.report import Trajectory, trajectory_of
from agenttape_core.tools.reporting import Checked, Finding, Judged
from agenttape_core.tools.update import Plan
from agenttape_core.tools.upkeep.verified import own_folder

Verdict = Literal["CHANGED", "NEW"] | Paid
"""Both revisions do as recorded (`SAME`); only the base does (`CHANGED`); only the changed one does (`BETTER`);
the base has no such program (`NEW`); or the base doesn't, so that the recording can't show the change (`UNCLEAR`).
After samples, it's theirs."""

_ORDER: tuple[Verdict, ...] = ("WORSE", "CHANGED", "UNCLEAR", "BETTER", "NEW", "SAME")


@dataclass(frozen=True, slots=True)
class Case:
    """One recording, replayed by both revisions."""

    target: str
    cassette: str
    base: Replayed  # how the replay of the base ended
    changed: Replayed  # how the changed revision's replay ended
    paid: Paid | None = None  # the verdict on samples of both; `None` if there are none
    held: str = ""  # the reason why there are none, if the changed revision makes a new request

    @property
    def name(self) -> str:
        """Its name in tables."""
        return f"{self.target} over {self.cassette}"

    @property
    def verdict(self) -> Verdict:
        """The verdict on it."""
        if self.paid is not None:
            return self.paid
        if self.base.how == "same":
            return "SAME" if self.changed.how == "same" else "CHANGED"
        if self.changed.how != "same":
            return "UNCLEAR"
        return "NEW" if self.base.how == "unjudged" else "BETTER"

    @property
    def is_open(self) -> bool:
        """True if only samples can tell: the changed revision makes another request than the recorded one."""
        return (self.base.how, self.changed.how) == ("same", "diverged")

    @property
    def ok(self) -> bool:
        """True if you needn't look at it."""
        return self.verdict in {"SAME", "BETTER", "NEW"} or (self.verdict, self.paid) == ("UNCLEAR", "UNCLEAR")

    @property
    def why(self) -> str:
        """The difference of the changed revision, or of the base where that can't be compared."""
        return self.changed.why if self.base.how == "same" else self.base.why or self.changed.why

    def __str__(self) -> str:
        return "\n         ".join(filter(None, [f"{self.verdict:<8} {self.name}", self.why, self.held]))


@dataclass(frozen=True, slots=True)
class Changed(Result):
    """The verdicts on all recordings.

    Args:
        base: The revision that is compared with.
        to: The changed one; empty for the working tree.
        cases: The recordings.
        trials: The samples of both revisions, where they were taken.
        plans: The calls that samples would take, in a dry run.
        stopped: The reason why samples are missing.
        is_whole: Whether it came to its end.
    """

    base: str
    to: str
    cases: tuple[Case, ...]
    trials: Trials = field(default_factory=lambda: Trials(()))
    plans: tuple[TrialPlan, ...] = ()
    stopped: str = ""
    is_whole: bool = True

    def count(self) -> Counter[Verdict]:
        """Return how often there is each verdict."""
        return Counter(case.verdict for case in self.cases)

    @property
    def ok(self) -> bool:
        """True if no recording is WORSE, CHANGED, or can't be compared, and samples were not in vain."""
        return all(case.ok for case in self.cases) and self.trials.ok

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        cases = [{**asdict(case), "verdict": case.verdict, "why": case.why} for case in self.cases]
        facts = {"base": self.base, "to": self.to or None, "counts": dict(self.count()), "cases": cases}
        return {**facts, **self.trials.to_dict(), **plans_of(self.plans)}

    experiment = "change"

    def to_checked(self) -> list[Checked]:
        """Return it for the reporters of checks: a check for each recording."""
        return [Checked(case.target, case.cassette, "", (_judged(case),)) for case in self.cases]

    def summary(self) -> Summary:
        """Return the number of recordings with each verdict, and a line for each."""
        counts, program = self.count(), self.to or "the working tree"
        said = ", ".join(f"{counts[one]} {one}" for one in _ORDER if counts[one])
        table = [*map(str, self.cases)]
        table += [str(self.trials)] if self.trials.trials else []
        table += plan_lines(self.plans) if self.plans else []
        table += [self.stopped] if self.stopped else []
        if any(case.is_open and case.paid is None and not case.held for case in self.cases):
            table.append("to run only the calls that the change affects, within a limit, add  --max-usd 1")
        if counts["CHANGED"]:
            table.append("to record only what has changed, within a limit:  agenttape update --max-usd 1")
        return Summary(
            program, "", f"{program} against {self.base}: {counted(len(self.cases), 'recording')}, {said}", table
        )


def _judged(case: Case) -> Judged:
    level: Literal["error", "warning"] = "warning" if case.verdict == "UNCLEAR" else "error"
    told = f"{case.verdict}: {case.target}"
    found = Finding(told, "the recorded calls", case.why, level=level, rule="change", path=case.cassette)
    return Judged("change", case.target, () if case.ok else (found,))


def change(
    target: str | Sequence[str],
    cassette: str | Path | Sequence[str | Path] | None = None,
    *,
    base: str,
    to: str | None = None,
    samples: int = 10,
    max_usd: float | None = None,
    live: Sequence[str] = (),
    checks: Sequence[str | Path] = (),
    jobs: int = 1,
    dry_run: bool = False,
    resume: str | Path | None = None,
    on_run: Callable[[], object] | None = None,
) -> Changed:
    """Compare a changed program with its base on recordings, and pay only for what the change affects.

    Both revisions replay each recording strictly, each in a worktree and a separate process. Where both make the
    recorded calls, and no other, the case is decided, for free.

    Where the changed one makes a new request, and a limit is given, both are run in pairs: the base makes the affected
    calls again, the changed revision makes its own, and all others are replayed. An interruption by the keyboard ends
    it, and the findings are returned.

    Args:
        target: The program: `module:function`, `path/to/file.py:function`, or files and ids of tests.
        cassette: The recording of a function, or several; by default the test's own.
        base: The revision to compare with, in git's words.
        to: The changed revision; by default the working tree.
        samples: The most pairs of samples of each recording. It takes no more once there's a verdict.
        max_usd: The most that calls of models may cost, in US dollars. Without it, none is made.
        live: The tools that may be called, by kind, name, node or pattern. Models need no name.
        checks: Files of checks that each sample must pass, and end well.
        jobs: The number of replays, and of pairs, that run in parallel.
        dry_run: Whether only the cost of the samples is found out.
        resume: The report of an earlier run as JSON, whose samples aren't taken again.
        on_run: Called after each replay.

    Raises:
        ConfigurationError: If there's no such revision, program or recording, the limit can't be kept, or the report is
            of another revision.
    """
    targets = [one for each in ([target] if isinstance(target, str) else target) for one in tests_in(each)]
    given = [cassette] if cassette is None or isinstance(cassette, str | Path) else list(cassette)
    if not targets or not given:
        raise ConfigurationError("change: name a program and its recording")
    pairs = [target_and_recording(one, each) for one in targets for each in given]
    if (max_usd is not None or dry_run) and any(map(is_command, targets)):
        raise ConfigurationError(
            "change: the new requests of a command aren't made, it's only replayed\n"
            "  leave out max_usd and dry_run (--max-usd, --dry-run), or name a function or a test"
        )
    refuse_below_one(samples=samples, jobs=jobs)
    wanted = _Wanted(samples, max_usd, tuple(live), checks, jobs, read_trials(resume) if resume is not None else ())
    with Revisions(on_run) as trees, Jobs(jobs) as pool:
        before = trees.commit(base, "--base")
        after = trees.commit(to, "--to") if to is not None else None
        # One checkout for all recordings, of each revision.
        of_base = list(pool.each(lambda pair: trees.replayed(before, *pair), pairs))
        of_change = list(pool.each(lambda pair: trees.replayed(after, *pair), pairs))
        cases = [
            Case(name, shown_path(path), one, other)
            for (name, path), one, other in zip(pairs, of_base, of_change, strict=True)
        ]
        found = Changed(base, to or "", tuple(cases))
        if max_usd is None and not dry_run:
            return found
        return _Paying(trees, (before, after), wanted, found, [path for _, path in pairs]).found(dry_run=dry_run)


class _Wanted(NamedTuple):
    """The options of samples, as `change` takes them."""

    samples: int
    max_usd: float | None
    live: tuple[str, ...]
    checks: Sequence[str | Path]
    jobs: int
    known: Sequence[Trial]


class _Open(NamedTuple):
    """A case that only samples can decide."""

    case: Case
    path: Path  # its recording
    plan: Plan  # the calls that the change affects
    again: tuple[str, ...]  # the numbers of those that the base makes again
    recorded: Trajectory  # the path of the recording


class _Paying:
    """Samples of both revisions."""

    def __init__(
        self, trees: Revisions, commits: tuple[str, str | None], wanted: _Wanted, free: Changed, paths: Sequence[Path]
    ) -> None:
        self._trees, self._wanted, self._free, self._paths = trees, wanted, free, paths
        self._commits: dict[Group, str | None] = {"baseline": commits[0], "candidate": commits[1]}
        self._label = f"{free.to or 'the working tree'}@{trees.state(commits[1])}"
        self._prices = load_prices(project_settings().prices)

    def found(self, *, dry_run: bool) -> Changed:
        """Return the verdicts. Raises as `change` does."""
        held: dict[str, str] = {}
        opened: dict[str, _Open] = {}
        for case, path in zip(self._free.cases, self._paths, strict=True):
            if case.is_open:
                one = self._opened(case, path)
                if isinstance(one, str):
                    held[case.name] = one
                else:
                    opened[case.name] = one
        plans = tuple(map(self._plan, opened.values()))
        if dry_run:
            return self._result(held, plans=plans)
        own_folder(Path.cwd())  # which git ignores
        cases = [Sampled(name, self._label, one.recorded, partial(self._take, one)) for name, one in opened.items()]
        samples, wanted = self._wanted.samples, self._wanted
        most = Most(samples, samples, len(cases), wanted.max_usd or 0.0, wanted.jobs, wanted.checks)
        found = take_samples(cases, most, plans, wanted.known)
        return self._result(held, found.trials, stopped=found.stopped, is_whole=found.is_whole)

    def _result(self, held: dict[str, str], trials: Sequence[Trial] = (), **more: Any) -> Changed:
        verdicts = {one.trial.name: one.verdict for one in judged(trials)}
        cases = tuple(
            Case(one.target, one.cassette, one.base, one.changed, verdicts.get(one.name), held.get(one.name, ""))
            for one in self._free.cases
        )
        return Changed(self._free.base, self._free.to, cases, Trials(tuple(trials)), **more)

    def _opened(self, case: Case, path: Path) -> _Open | str:
        """Return the calls that a change affects, or why they aren't made."""
        cassette = open_cassette(path)
        refuse_unselected([one for one in self._wanted.live if one not in ASKING], cassette.entries, "live", path)
        plan = self._trees.plan(self._commits["candidate"], case.target, path)
        chosen = Selector((*ASKING, *self._wanted.live), cassette.entries, option="live")
        refused = [one for one in plan.changed if not chosen.selects(one.kind, one.name, one.address)]
        if refused:
            return f"not tried, as it would call {refused[0].kind} {refused[0].name}: name it in live (--live)"
        if not (plan.changed or plan.new):
            return "not tried, as it makes no new request, and leaves recorded ones out"
        # A call without a counterpart replaces those that are no longer made.
        again = plan.changed if not plan.new else (*plan.changed, *plan.below)
        numbers = tuple(str(one.number) for one in again if chosen.selects(one.kind, one.name, one.address))
        return _Open(case, path, plan, numbers, trajectory_of(cassette, self._prices))

    def _plan(self, one: _Open) -> TrialPlan:
        calls = [call for call in (*one.plan.changed, *one.plan.below) if call.kind in MODEL_KINDS]
        unpriced = tuple(dict.fromkeys(call.model or call.name for call in calls if call.dollars is None))
        known = [call.dollars for call in calls if call.dollars is not None]
        new = len(one.plan.new) * max(known, default=0.0)  # at least, as more may follow
        most = self._wanted.samples
        dollars = most * (2 * sum(known) + new)
        return TrialPlan(
            one.case.name, self._label, most * len(calls), most * (len(calls) + len(one.plan.new)), dollars, unpriced
        )

    def _take(self, one: _Open, group: Group, number: int, left: float | None) -> Taken:
        word = "base" if group == "baseline" else "changed"
        stem = stem_of(one.path)
        name = f"{in_file_name(one.case.target)}.{stem}.{word}.{number}.derived{one.path.name.removeprefix(stem)}"
        derived = (Path(".agenttape") / "candidates" / name).absolute()
        derived.parent.mkdir(parents=True, exist_ok=True)
        derived.unlink(missing_ok=True)
        again = one.again if group == "baseline" else ()
        sampling = Sampling(str(derived), again, (*sorted(ASKING), *self._wanted.live), left or 0.0)
        ended = self._trees.sampled(self._commits[group], one.case.target, one.path, sampling)
        return ended._replace(derived=derived if derived.exists() else None)

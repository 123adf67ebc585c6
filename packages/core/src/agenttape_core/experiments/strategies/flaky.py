"""Find the part of a program that makes it flaky: each varies alone, and all others are held still."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from agenttape_core.errors import AgentTapeError, BudgetExceededError, ConfigurationError, counted, shown_path
from agenttape_core.experiments.engine import SEED, Experiment, drive, independent, refuse_below_one, refuse_jobs
from agenttape_core.experiments.program import Program, is_command
from agenttape_core.experiments.result import Result, Summary
from agenttape_core.experiments.strategies.orders import ORDERS
from agenttape_core.experiments.strategies.orders import orders as in_other_orders
from agenttape_core.experiments.targets import opened, recorded, takes_tests
from agenttape_core.experiments.verdicts import share_of
from agenttape_core.experiments.verify import verify
from agenttape_core.lifecycle.project import project_settings
from agenttape_core.lifecycle.variation import Variation
from agenttape_core.matching import Key, Selector, refuse_unselected
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.session.report import why_not_run
from agenttape_core.storage import Cassette
from agenttape_core.storage.names import stem_of
from agenttape_core.tools.budget import Budget
from agenttape_core.tools.reading.prices import load_prices
from agenttape_core.tools.reading.provider_calls import MODELS
from agenttape_core.tools.reading.summary import cost_of
from agenttape_core.tools.reporting import Finding

Part = Literal["code", "order", "tool", "model", "judge", "together"]
"""The part that varies in a group: the code and its environment, the order of answers, a tool, the model, the judge, or
tools, model and judge together."""
End = Literal["passed", "failed", "left"]  # the end of a sample: well, by a failure, or by leaving the recorded world


class Sample(NamedTuple):
    """One run in a group."""

    end: End  # how it ended
    why: str = ""  # the first line of the failure, or the call that left the recorded world; empty if it passed
    changed: bool = False  # whether the request of a call differed from the recorded one


@dataclass(frozen=True, slots=True)
class Group:
    """The samples in which one part varied."""

    part: Part
    name: str = ""  # of the tool; empty for other parts
    samples: tuple[Sample, ...] = ()
    skipped: str = ""  # the reason for which there are none, or fewer than were wanted
    dollars: float = 0.0  # the known cost of the calls that were made
    calls: int = 0  # the number of calls of models that were made

    @property
    def title(self) -> str:
        """The part, with the name of the tool."""
        return "all together" if self.part == "together" else f"{self.part} {self.name}".strip()

    def count(self, end: End) -> int:
        """Return how many samples ended in a way."""
        return sum(sample.end == end for sample in self.samples)

    @property
    def reasons(self) -> list[str]:
        """The reasons why samples did not pass, each once."""
        return list(dict.fromkeys(sample.why for sample in self.samples if sample.why))

    @property
    def interval(self) -> tuple[float, float]:
        """The bounds of the share of failures; each holds with a probability of 95 %."""
        low, high = share_of(self.count("failed"), len(self.samples))
        return round(low, 3), round(high, 3)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "part": self.part,
            "name": self.name or None,
            "samples": len(self.samples),
            **{end: self.count(end) for end in get_args(End)},
            "changed": sum(sample.changed for sample in self.samples),
            "interval": list(self.interval),
            "reasons": self.reasons,
            "skipped": self.skipped or None,
            "dollars": round(self.dollars, 6),
            "calls": self.calls,
        }

    def __str__(self) -> str:
        count = len(self.samples)
        if not count:
            return f"{self.title}: not tried, {self.skipped}"
        failed, left, changed = self.count("failed"), self.count("left"), sum(one.changed for one in self.samples)
        none = f"none of {count} failed, which leaves up to {self.interval[1]:.0%}"
        parts = [f"{failed} of {count} failed" if failed else none]
        if left:
            parts.append(f"{left} made an unrecorded call")
        if changed:
            parts.append(f"{changed} with another answer, after which something else was asked")
        if self.calls:
            price = f"${self.dollars:.4f}" if self.dollars else "an unknown price"
            parts.append(f"{self.calls} calls of models for {price}")
        return f"{self.title}: {', '.join(parts)}" + (f"; {self.skipped}" if self.skipped else "")


@dataclass(frozen=True, slots=True)
class FlakyParts(Result):
    """The parts of a flaky program: the groups, and the verdict on them.

    Args:
        program: The name of the program.
        cassette: The cassette as a message shows it.
        groups: The groups, those without a cost first.
        seed: The seed of the orders that were drawn at random.
        notes: Further remarks, a line each.
        is_whole: Whether it came to its end, and was not interrupted.
    """

    program: str
    cassette: str
    groups: tuple[Group, ...]
    seed: int
    notes: tuple[str, ...] = ()
    is_whole: bool = True

    @property
    def culprits(self) -> list[str]:
        """The parts that made the program fail when they varied alone; `together` if only all of them did.

        A group without failures doesn't clear its part: it may fail less often than there were samples.
        """
        failed = [group for group in self.groups if group.count("failed")]
        return [group.title for group in failed if group.part != "together"] or ["together" for _ in failed[:1]]

    @property
    def verdict(self) -> str:
        """The parts, in words."""
        named = ["several together" if one == "together" else one for one in self.culprits]
        return " and ".join(named) or "nothing has failed"

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "program": self.program,
            "cassette": self.cassette,
            "seed": self.seed,
            "verdict": self.verdict,
            "culprits": self.culprits,
            "groups": [group.to_dict() for group in self.groups],
            "dollars": round(sum(group.dollars for group in self.groups), 6),
            "notes": list(self.notes),
        }

    experiment = "flaky"

    def summary(self) -> Summary:
        """Return the verdict, a line for each part, the reasons and the remarks."""
        reasons = (f"{group.title}: {why}" for group in self.groups for why in group.reasons[:_SHOWN])
        failed = [group for group in self.groups if group.count("failed")]
        return Summary(
            self.program,
            self.cassette,
            f"{self.program}, replayed from {self.cassette}: {self.verdict}",
            [f"  {line}" for line in (*map(str, self.groups), *reasons, *self.notes)],
            [Finding(str(group), found="; ".join(group.reasons[:_SHOWN])) for group in failed],
        )


SAMPLES = 10  # the samples of each group, unless another number is given
PROCESSES = 3  # the replays in processes whose environment differs
_SHOWN = 3
_INTERRUPTED = "interrupted"
_BY_ADDRESS = ("exact", "request", "address")


@takes_tests
def flaky(
    target: Callable[[], Any] | str | Program,
    cassette: str | Path | None = None,
    *,
    samples: int = SAMPLES,
    max_usd: float | None = None,
    live: Collection[Key] | None = None,
    judge: str | None = None,
    processes: int = PROCESSES,
    orders: int = ORDERS,
    seed: int = SEED,
    jobs: int = 1,
    dry_run: bool = False,
    on_run: Callable[[], object] | None = None,
    **options: Any,
) -> FlakyParts:
    """Find the part of a program that makes it flaky: each part varies alone, while all others are held still.

    The groups without a cost come first: the code with everything replayed, in this process and in processes with other
    environment; other orders of the answers to overlapping calls; each tool alone, really executed, with the recorded
    answers of models. Then, if a limit is given, the model alone with recorded tools, the judge alone, and all of them
    together. An interruption by the keyboard ends it, and the result so far is returned.

    Args:
        target: The program: a function without arguments, or its name.
        cassette: A recording of the program, as `use_cassette` takes it; by default its own.
        samples: The samples of each group.
        max_usd: The most that calls of models may cost, in US dollars. Without it, none is made.
        live: The tools that may be executed, by name, node or pattern. By default those of which the recording shows
            that they did nothing outside of the process.
        judge: The name of the boundary that judges: it is held still while the model varies.
        processes: The replays in new processes in other environments, if these can import the function; 0 for none.
        orders: The most orders that are tried.
        seed: The seed of the orders that are drawn at random.
        jobs: How many samples of a group run at the same time, if the program is a function.
        dry_run: Whether only the runs and the calls of each part are counted, without a run.
        on_run: Called after each run.
        options: Options of `use_cassette`.

    Raises:
        CassetteError: If the cassette cannot be read.
        ConfigurationError: If an argument is not valid, or a limit can't be kept without prices.
    """
    refuse_below_one(samples=samples)
    program, path = recorded(target, cassette, options)
    if max_usd is not None and is_command(program.name):
        raise ConfigurationError("flaky: the models of a command aren't called\n  leave out max_usd (--max-usd)")
    refuse_jobs(jobs, is_test=program.function is None)
    calls = opened(path)
    for option, keys in (("live", live or ()), ("judge", [judge] if judge else ())):
        refuse_unselected(keys, calls.entries, option, path)
    tools = sorted(row.name for row in calls.entries if row.kind == "tool")
    budget = Budget(max_usd, load_prices(project_settings().prices)) if max_usd is not None else None
    groups, notes = list[Group](), tuple[str, ...](["interrupted: not all parts were tried"])
    with tempfile.TemporaryDirectory(prefix="agenttape-") as folder, suppress(KeyboardInterrupt):
        held_back = {name: _held_back(name, calls, live) for name in tools}
        run = _Running(program, path, calls, Path(folder), samples, jobs, budget, held_back, judge, on_run, dry_run)
        for group in run.groups(processes, orders, seed):
            groups.append(group)
            if group.skipped == _INTERRUPTED:
                break
        else:
            notes = ()
    return FlakyParts(program.name, str(shown_path(path)), tuple(groups), seed, notes, not notes)


@dataclass(frozen=True, slots=True)
class _Running:
    """Runs a program in groups, or plans that; no tool is executed for which `tools` has a reason."""

    program: Program
    cassette: Path
    calls: Cassette
    folder: Path
    samples: int
    jobs: int
    budget: Budget | None
    tools: Mapping[str, str]
    judge: str | None
    on_run: Callable[[], object] | None
    is_dry: bool

    def groups(self, processes: int, orders: int, seed: int) -> Iterator[Group]:
        """Yield the groups, those in which no model is asked first."""
        code = self._driven("code", "", {}, ())
        if processes and not (code.skipped or code.count("failed")):
            code = self._in_environments(code, processes)
        yield code
        if code.count("failed"):  # with everything replayed, so it needs no others
            return
        yield self._orders(orders, seed)
        for part, name, options, called, why in self._executing():
            yield Group(part, name, skipped=why) if why else self._driven(part, name, options, called)

    def _executing(self) -> Iterator[tuple[Part, str, Mapping[str, Any], tuple[str, ...], str]]:
        """Yield the groups that make calls: the part, its name, options, those calls, and why it's not tried."""
        rows, judge = self.calls.entries, self.judge
        for name, why in self.tools.items():
            yield "tool", name, {"match_on": _BY_ADDRESS}, (name,), why
        names = {row.name for row in rows if row.kind in MODELS - {"embeddings"}}
        kinds = tuple(sorted({row.kind for row in rows if row.name in names}))
        is_held = self.budget is None and not self.is_dry
        why = "as models are asked only within a limit: give max_usd (--max-usd)" if is_held else ""
        if has_model := bool(names - {judge}):
            yield "model", "", {"replay_only": [judge]} if judge else {}, kinds, why
        if judge:
            yield "judge", "", {}, (judge,), why
        tools = [name for name, held_back in self.tools.items() if not held_back]
        if has_model + bool(judge) + bool(tools) > 1:
            yield "together", "", {}, (*kinds, *tools, *([judge] if judge else [])), why

    def _driven(self, part: Part, name: str, options: Mapping[str, Any], live: tuple[str, ...]) -> Group:
        if self.is_dry:
            return Group(part, name, skipped=f"in a dry run: {self._planned(part, options, live)}")
        return drive(self.program, self._group(part, name, options, live), self.on_run, self.jobs)

    def _planned(self, part: Part, options: Mapping[str, Any], live: tuple[str, ...]) -> str:
        if part in {"code", "tool"}:
            return counted(self.samples, "run") + (" that call it" if live else ", for free")
        prices, still = load_prices(project_settings().prices), options.get("replay_only", ())
        costs = [
            cost_of(self.calls.interaction(row.number), prices)
            for row in self.calls.entries
            if row.kind in MODELS and (row.kind in live or row.name in live) and row.name not in still
        ]
        dollars = f"about ${sum(cost or 0.0 for cost in costs) * self.samples:.4f}"
        price = "at an unknown price" if None in costs else dollars
        return f"{counted(len(costs) * self.samples, 'call')} of models, {price}"

    def _group(self, part: Part, name: str, options: Mapping[str, Any], live: tuple[str, ...]) -> Experiment[Group]:
        found: list[Sample] = []
        calls, spent, skipped, stem = 0, self._spent(), "", stem_of(self.cassette)
        kept = [self.folder / f"{stem}-{number}.yaml" if live else None for number in range(self.samples)]
        varied = independent(Variation(self.cassette, options, write_to=to, keeps=False, live=live) for to in kept)
        with self.budget.held() if live and self.budget is not None else nullcontext():
            for variation in varied:
                try:
                    ending = yield variation
                except KeyboardInterrupt:
                    skipped = _INTERRUPTED
                    break
                calls += sum(call_record.kind in MODELS for call_record in ending.session.report.recorded)
                if isinstance(ending.session.failure, BudgetExceededError):
                    skipped = "the limit of the cost was reached"
                    break
                changed = any(match_rule == "address" for _, _, match_rule in ending.calls)
                end: End = "left" if ending.left is not None else "failed" if ending.failure else "passed"
                found.append(Sample(end, ending.left or str(ending.failure or ""), changed))
        return Group(part, name, tuple(found), skipped, self._spent() - spent, calls)

    def _spent(self) -> float:
        return self.budget.spent if self.budget is not None else 0.0

    def _in_environments(self, code: Group, times: int) -> Group:
        """Add replays in processes whose environment differs, for a function that these can import."""
        if (source := self.program.source) is None or source.is_test:
            return code
        try:
            found = verify(
                f"{source.file}:{source.name}", self.cassette, runs=max(times, 2), timeout=120, on_run=self.on_run
            )
        except AgentTapeError as error:
            first = str(error).partition("\n")[0]
            return replace(code, skipped=f"other environments were not tried: {first}")
        except KeyboardInterrupt:
            return replace(code, skipped=_INTERRUPTED)
        more = (Sample("passed"),) * len(found.runs)
        if not found.ok and (one := found.first) is not None:
            more = (Sample("failed", f"{one.what}: {one.cause.name}: {one.cause.why}"),)
        return replace(code, samples=(*code.samples, *more))

    def _orders(self, orders: int, seed: int) -> Group:
        if self.is_dry:
            return Group("order", skipped="in a dry run: a replay for each order, for free")
        try:
            found = in_other_orders(self.program, self.cassette, runs=orders, seed=seed, on_run=self.on_run)
        except AgentTapeError as error:
            return Group("order", skipped=str(error).partition("\n")[0])
        if not found.overlapping and found.ok:
            return Group("order", skipped="as no recorded calls wait side by side")
        passed, skipped = (Sample("passed"),) * (found.orders - found.failing), "" if found.is_whole else _INTERRUPTED
        if found.smallest is None:
            return Group("order", samples=passed, skipped=skipped)
        told = found.smallest.told.partition("\n")[0].removeprefix("then ")
        failed = (Sample("failed", f"in the order {found.smallest.order}, {told}"),) * found.failing
        return Group("order", samples=(*failed, *passed), skipped=skipped)


def _held_back(name: str, cassette: Cassette, live: Collection[Key] | None) -> str:
    """Return why a tool is not executed; empty if it may be."""
    rows = [row for row in cassette.entries if row.kind == "tool" and row.name == name]
    if live is not None:
        chosen = Selector(tuple(live), cassette.entries, option="live").among(rows)
        return "" if chosen else "as it is not among the tools that may be live"
    effects = next((found for row in rows if (found := cassette.interaction(row.number).acts) != []), [])
    why = f"as it may have side effects ({why_not_run(effects)}): name it if it may be live (--live {name})"
    return why if effects != [] else ""

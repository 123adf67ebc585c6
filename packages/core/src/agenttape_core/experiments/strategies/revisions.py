"""Revisions of a program: each in a worktree of git, replayed strictly in a child process. No model is called.

A commit that can't be judged is not the same as a bad one: its code can't be imported, or it has no such function. `git
bisect run` has the exit code 125 for it (https://git-scm.com/docs/git-bisect#_bisect_run).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any, Literal, Self

from agenttape_core.errors import BudgetExceededError, ConfigurationError, VerificationError
from agenttape_core.experiments.program import Program, Run, is_command, is_test, problem_of, program_of
from agenttape_core.experiments.strategies.sampling import Taken, taken_of
from agenttape_core.experiments.targets import opened, recorded, recording, with_test
from agenttape_core.experiments.worker import SECONDS, Workers
from agenttape_core.guard.caller import is_library
from agenttape_core.lifecycle.project import Project, confine_process, project_settings
from agenttape_core.lifecycle.variation import Variation
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.tools.budget import Budget
from agenttape_core.tools.git.requests import Revision
from agenttape_core.tools.hash_seeds import recorded_seed
from agenttape_core.tools.reading.prices import Prices, load_prices
from agenttape_core.tools.update import PLANNING, Plan, plan_of

How = Literal["same", "diverged", "failed", "unjudged"]
"""The end of a strict replay: as it was recorded; with another request, or without a recorded one; by a failure of the
program; or it could not be run."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """The end of a strict replay of one revision."""

    how: How  # how it ended
    why: str = ""  # the first call that is another one, the failure, or why it can't be judged; empty if it's the same


class Sampling(NamedTuple):
    """A run of one revision in which calls without a recording are made."""

    to: str  # the file of the derived cassette
    live: Collection[str]  # the numbers of recorded calls that are made again, each as a text
    on_new_call: Collection[str]  # the calls to make for real if they have no recording
    max_usd: float  # the most that it may cost, in US dollars


def target_and_recording(target: str, cassette: str | Path | None) -> tuple[str, Path]:
    """Return a target, and the file of its recording, which the replays of all revisions share."""

    def of(program: Program) -> Path:
        return recorded(program, cassette, {})[1]

    if cassette is not None:
        path = recording(cassette)
    elif is_command(target):
        path = of(program_of(target))
    elif is_test(target):
        path = with_test(target, of)
    else:
        raise ConfigurationError(f"{target} has no cassette\n  name one: cassette=, --cassette")
    if not path.exists():
        raise ConfigurationError(f"{path}: there's no such cassette\n  record it first")
    opened(path)
    return target, path.resolve()


_TREES = 2  # the most worktrees: of the base, and of the changed revision


class Revisions:
    """Replays of commits, or with `None` of the working tree. A context manager, which removes its worktrees."""

    def __init__(self, on_run: Callable[[], object] | None = None) -> None:
        self._git = Revision("HEAD", "--base")
        self.top = Path(self._git.tell("rev-parse", "--show-toplevel").strip()).resolve()
        self._on_run = on_run
        self._workers = Workers()
        self._lock = Lock()
        self._folder = tempfile.TemporaryDirectory(prefix="agenttape-")
        self._trees: dict[str, Path] = {}  # by the commit that is checked out there
        self.replays = 0  # the number of replays so far

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._workers.__exit__()
        for tree in self._trees.values():
            self._git.ask("worktree", "remove", "--force", str(tree))
        self._folder.cleanup()

    def commit(self, revision: str, option: str) -> str:
        """Return the id of the commit that a revision names."""
        return Revision(revision, option).tell("rev-parse", "--verify", f"{revision}^{{commit}}").strip()

    def between(self, good: str, bad: str) -> list[str]:
        """Return the commits after one up to another, oldest first, along the first parents of merges."""
        return self._git.tell("rev-list", "--first-parent", "--reverse", f"{good}..{bad}").split()

    def subject(self, commit: str) -> str:
        """Return the short id of a commit, and its subject."""
        return self._git.tell("log", "-1", "--format=%h %s", commit).strip()

    def replayed(self, commit: str | None, target: str, cassette: Path) -> Replayed:
        """Replay a revision strictly, without live calls."""
        self.replays += 1
        reply = self._in_child(commit, target, cassette)
        if "how" in reply:
            return Replayed(reply["how"], reply["why"])
        return Replayed("unjudged", _problem(reply))

    def plan(self, commit: str | None, target: str, cassette: Path) -> Plan:
        """Return the calls of a revision that have no recording, and those that depend on them. Nothing is executed."""
        reply = self._in_child(commit, target, cassette, plans=True)
        if "plan" not in reply:
            raise VerificationError(f"{target} can't be replayed: {reply.get('why') or _problem(reply)}")
        return Plan.from_dict(reply["plan"])

    def sampled(self, commit: str | None, target: str, cassette: Path, sampling: Sampling) -> Taken:
        """Replay the recorded calls of a revision, and make those without a recording."""
        reply = self._in_child(commit, target, cassette, sampling=sampling._asdict())
        return Taken(**reply["sampled"]) if "sampled" in reply else Taken(problem=reply.get("why") or _problem(reply))

    def state(self, commit: str | None) -> str:
        """Return a short id of a revision: of the commit, or of the changes in the working tree."""
        if commit is not None:
            return commit[:8]
        return sha256(self._git.ask("diff", "HEAD", "--binary") + self._git.ask("rev-parse", "HEAD")).hexdigest()[:8]

    def _root(self, commit: str | None) -> Path:
        """Return the folder that a revision is in: there are two worktrees at most."""
        if commit is None:
            return self.top
        with self._lock:
            if commit not in self._trees and len(self._trees) < _TREES:
                tree = Path(self._folder.name).resolve() / f"worktree{len(self._trees)}"
                self._git.ask("worktree", "add", "--quiet", "--force", "--detach", str(tree), commit)
                self._trees[commit] = tree
            elif commit not in self._trees:
                tree = self._trees.pop(next(iter(self._trees)))
                self._trees[commit] = tree
                subprocess.run(  # noqa: S603 - a commit by its id
                    ["git", "-C", str(tree), "checkout", "--quiet", "--force", "--detach", commit],  # noqa: S607
                    check=True,
                    capture_output=True,
                )
            return self._trees[commit]

    def _in_child(self, commit: str | None, target: str, cassette: Path, **more: Any) -> dict[str, Any]:
        here, root = Path.cwd().resolve(), self._root(commit)
        if not here.is_relative_to(self.top):
            raise ConfigurationError(f"{here} is not in the repository {self.top}")
        folder = root / here.relative_to(self.top)
        if not folder.is_dir():
            return {"problem": f"there's no folder {here.relative_to(self.top)} in it"}
        file = project_settings().prices  # a worktree has none that isn't committed
        prices = str(Path(file).absolute()) if file is not None else None
        reply = self._workers.run(
            __name__,
            {"target": target, "cassette": str(cassette), "prices": prices, **more},
            hash_seed=recorded_seed(str(cassette)),
            folder=folder,
            path=[str(folder), *(str(root / entry) for entry in _own_entries(self.top))],
        )
        if self._on_run is not None:
            self._on_run()
        return reply


def _problem(reply: dict[str, Any]) -> str:
    return reply.get("problem") or f"it didn't end in {SECONDS:.0f} seconds"


def _own_entries(top: Path) -> Iterator[Path]:
    """Yield the entries of the path of imports that are in the repository, and not of an environment in it."""
    for entry in sys.path:
        full = Path(entry or ".").resolve()
        if full.is_dir() and full.is_relative_to(top) and not is_library(str(full / "module.py")):
            yield full.relative_to(top)


def run(program: dict[str, Any]) -> dict[str, Any]:
    """Replay a program once, in a child process."""
    target, cassette, prices = program["target"], Path(program["cassette"]), load_prices(program["prices"])
    try:
        if "sampling" in program:
            return {"sampled": _sampled(target, cassette, Sampling(**program["sampling"]), prices)._asdict()}
        if "plans" in program:
            ended = _ended(target, Variation(cassette, {**PLANNING, "on_miss": "raise"}))
            return {"plan": plan_of(ended.own_session, prices).to_dict()}
        ended = _ended(target, Variation(cassette, {"on_unused": "fail"}))
        how: How = "diverged" if ended.left is not None else "same" if ended.failure is None else "failed"
        return asdict(Replayed(how, ended.left or str(ended.failure or "")))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever keeps it from being run is reported
        return asdict(Replayed("unjudged", problem_of(error)))


def _ended(target: str, variation: Variation) -> Run:
    def run(program: Program) -> Run:
        return program.run(variation)

    return with_test(target, run) if is_test(target) else run(program_of(target))


def _sampled(target: str, cassette: Path, sampling: Sampling, prices: Prices) -> Taken:
    confine_process(Project())  # the block around the program confines what that opens itself
    variation = Variation(
        cassette,
        {"on_miss": "return"},
        write_to=Path(sampling.to),
        live=tuple(sampling.live),
        on_new_call=frozenset(sampling.on_new_call),
        diverges=True,
    )
    with Budget(sampling.max_usd, prices).held() as budget:
        ended = _ended(target, variation)
    is_over = isinstance(ended.session.failure, BudgetExceededError)
    return taken_of(ended, ended.session.report.missed, spent=budget.spent, is_over=is_over)

"""Revisions of a program: each in a worktree of git, replayed strictly in a child process. No model is called.

A commit that can't be judged is not the same as a bad one: its code can't be imported, or it has no such function. `git
bisect run` has the exit code 125 for it (https://git-scm.com/docs/git-bisect#_bisect_run).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Self

from agenttape_core.errors import ConfigurationError, shown_path
from agenttape_core.experiments.program import Program, Run, program_of, recorded, recording, with_test
from agenttape_core.experiments.worker import SECONDS, Worker
from agenttape_core.guard.caller import is_library
from agenttape_core.lifecycle.variation import Variation
from agenttape_core.storage import open_cassette
from agenttape_core.tools.git.requests import Revision
from agenttape_core.tools.hash_seeds import recorded_seed

How = Literal["same", "moved", "failed", "unjudged"]
"""The end of a strict replay: as it was recorded; with another request, or without a recorded one; by a failure of the
program; or it could not be run."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """The end of a strict replay of one revision.

    Args:
        how: How it ended.
        why: The first call that is another one, the failure, or why it can't be judged; empty if it's the same.
    """

    how: How
    why: str = ""


def target_and_recording(target: str, cassette: str | Path | None) -> tuple[str, Path]:
    """Return a target, and the file of its recording, which the replays of all revisions share.

    Args:
        target: `module:function`, `path/to/file.py:function`, or the id of a test.
        cassette: The recording; by default the one that the test has by itself.

    Raises:
        ConfigurationError: If there's no such test, or no recording.
    """

    def of(program: Program) -> Path:
        return recorded(program, cassette, {})[1]

    if cassette is not None:
        path = recording(cassette)
    elif "::" in target:
        path = with_test(target, of)
    else:
        raise ConfigurationError(f"{target} has no cassette of its own\n  name one: cassette=, --cassette")
    if not path.exists():
        raise ConfigurationError(f"{path}: there's no such cassette\n  record it first")
    if not open_cassette(path).entries:
        raise ConfigurationError(f"{shown_path(path)} holds no call, so it shows nothing about a change")
    return target, path.resolve()


class Revisions:
    """Replays of revisions. As a context manager it removes its worktree.

    Args:
        on_run: Called after each replay.
    """

    def __init__(self, on_run: Callable[[], object] | None = None) -> None:
        self._git = Revision("HEAD", "--base")
        self.top = Path(self._git.tell("rev-parse", "--show-toplevel").strip()).resolve()
        self._on_run = on_run
        self._workers: dict[int | None, Worker] = {}
        self._around = ExitStack()
        self._folder = tempfile.TemporaryDirectory(prefix="agenttape-")
        self._tree = Path(self._folder.name).resolve() / "worktree"
        self.replays = 0
        """The number of replays so far."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._around.close()
        if self._tree.exists():
            self._git.ask("worktree", "remove", "--force", str(self._tree))
        self._folder.cleanup()

    def commit(self, revision: str, option: str) -> str:
        """Return the id of the commit that a revision names.

        Raises:
            ConfigurationError: If git doesn't know it.
        """
        return Revision(revision, option).tell("rev-parse", "--verify", f"{revision}^{{commit}}").strip()

    def between(self, good: str, bad: str) -> list[str]:
        """Return the commits after one up to another, oldest first, along the first parents of merges."""
        return self._git.tell("rev-list", "--first-parent", "--reverse", f"{good}..{bad}").split()

    def subject(self, commit: str) -> str:
        """Return the short id of a commit, and its subject."""
        return self._git.tell("log", "-1", "--format=%h %s", commit).strip()

    def replayed(self, commit: str | None, target: str, cassette: Path) -> Replayed:
        """Replay a revision strictly, with nothing live.

        Args:
            commit: The commit; `None` for the working tree as it is.
            target: The program.
            cassette: Its recording.
        """
        if commit is None:
            root = self.top
        else:
            root = self._tree
            if self._tree.exists():
                subprocess.run(  # noqa: S603 - a commit by its id
                    ["git", "-C", str(self._tree), "checkout", "--quiet", "--force", "--detach", commit],  # noqa: S607
                    check=True,
                    capture_output=True,
                )
            else:
                self._git.ask("worktree", "add", "--quiet", "--force", "--detach", str(self._tree), commit)
        self.replays += 1
        found = self._in_child(root, target, cassette)
        if self._on_run is not None:
            self._on_run()
        return found

    def _in_child(self, root: Path, target: str, cassette: Path) -> Replayed:
        here = Path.cwd().resolve()
        if not here.is_relative_to(self.top):
            raise ConfigurationError(f"{here} is not in the repository {self.top}")
        folder = root / here.relative_to(self.top)
        if not folder.is_dir():
            return Replayed("unjudged", f"there's no folder {here.relative_to(self.top)} in it")
        seed = recorded_seed(str(cassette))
        if seed not in self._workers:
            self._workers[seed] = self._around.enter_context(Worker(seed))
        reply = self._workers[seed].run(
            __name__,
            {"target": target, "cassette": str(cassette)},
            folder=folder,
            path=[str(folder), *(str(root / entry) for entry in _own_entries(self.top))],
        )
        if "how" in reply:
            return Replayed(reply["how"], reply["why"])
        return Replayed("unjudged", reply.get("problem") or f"it didn't end in {SECONDS:.0f} seconds")


def _own_entries(top: Path) -> Iterator[Path]:
    """Yield the entries of the path of imports that are in the repository, and not of an environment in it."""
    for entry in sys.path:
        full = Path(entry or ".").resolve()
        if full.is_dir() and full.is_relative_to(top) and not is_library(str(full / "module.py")):
            yield full.relative_to(top)


def run(program: dict[str, Any]) -> dict[str, Any]:
    """Replay a program once, in a child process.

    Args:
        program: `target` and `cassette`.
    """
    try:
        found = _judged(program["target"], Path(program["cassette"]))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever keeps it from being run is reported
        found = Replayed("unjudged", f"{type(error).__name__}: {error}".partition("\n")[0])
    return asdict(found)


def _judged(target: str, cassette: Path) -> Replayed:
    def run(program: Program) -> Run:
        return program.run(Variation(cassette, {"on_unused": "fail"}))

    ended: Run = with_test(target, run) if "::" in target else run(program_of(target))
    if ended.left is not None:
        return Replayed("moved", ended.left)
    return Replayed("same") if ended.failure is None else Replayed("failed", str(ended.failure))

"""Runs with an edit or without one, in a worker, and the facts of each."""

from __future__ import annotations

import functools
import importlib.machinery
import re
import sys
import threading
import time
import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from importlib import import_module
from importlib.util import decode_source
from pathlib import Path
from typing import Any, Literal

from agenttape_core.errors import AgentTapeError, AgentTapeHalt, UnusedInteractionsError
from agenttape_core.experiments.program import problem_of, program_of
from agenttape_core.experiments.result import read
from agenttape_core.experiments.strategies.mutants.edits import Mutant, mutated
from agenttape_core.experiments.worker import SECONDS, Workers
from agenttape_core.guard.caller import is_library
from agenttape_core.lifecycle.variation import Variation
from agenttape_core.session import Session
from agenttape_core.tools.git.requests import Revision

# -- The facts of one run of a test or a function: how it ended, and which recorded calls it made.


How = Literal["passed", "miss", "unused", "assertion", "raised", "skipped"]
"""The end of a run: it passed; it asked for something else than was recorded (a miss, or an attempt to reach the
outside); recordings were left unused; an assertion failed; something else was raised; or it was skipped."""
_ADDRESS = re.compile(r"\b0x[0-9a-f]+")


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of one run of a test or a function."""

    how: How
    words: str = ""  # the first line of what ended it
    cassettes: tuple[str, ...] = ()  # the cassettes that it replayed
    calls: tuple[tuple[str, int, str, str], ...] = ()
    """The calls that were replayed or stepped into: the cassette, the number, the address and the match_rule."""
    unused: tuple[str, ...] = ()  # the recordings that were not used: their addresses
    unrecorded: tuple[str, ...] = ()  # the calls that got an error result, as they weren't recorded
    not_run: tuple[str, ...] = ()  # the tools that were replayed, each with the reason why its code was not run
    ignored: tuple[str, ...] = ()  # the paths of requests that were not compared
    value: str = ""  # the value that a function returned, as a text; empty for a test
    seconds: float = 0.0

    @classmethod
    def of(
        cls,
        sessions: Sequence[Session],
        error: BaseException | None,
        *,
        ours: AgentTapeError | AgentTapeHalt | None = None,
        value: str = "",
        seconds: float = 0.0,
    ) -> Facts:
        """Return the facts of a run."""
        replays = [one for one in sessions if one.is_replay]
        missed = [line for one in replays for line in (*one.report.missed, *one.report.blocked)]
        return cls(
            how=_how(error, ours, missed),
            words=_first(missed) if error is not None and missed else _said(error),
            cassettes=tuple(dict.fromkeys(str(one.path) for one in replays if one.report.replayed)),
            calls=tuple(
                (str(one.path), each.number, each.address, str(each.match_rule or ""))
                for one in replays
                for each in sorted((*one.report.replayed, *one.report.stepped_into), key=lambda call: call.number)
            ),
            unused=tuple(each.address for one in replays for each in one.report.judged),
            unrecorded=tuple(_first([str(each)]) for one in replays for each in one.report.unrecorded),
            not_run=tuple(dict.fromkeys(str(tool) for one in replays for tool in one.report.not_run)),
            ignored=tuple(dict.fromkeys(path for one in replays for path in one.setup.ignored.spelled)),
            value=_ADDRESS.sub("0x…", value),
            seconds=round(seconds, 4),
        )


def _how(error: BaseException | None, ours: BaseException | None, missed: Sequence[str]) -> How:
    if error is None:
        return "passed"
    if missed:
        return "miss"
    if isinstance(ours, UnusedInteractionsError):
        return "unused"
    if isinstance(ours, AgentTapeHalt):
        return "miss"
    return "assertion" if isinstance(error, AssertionError) else "raised"


def _said(error: BaseException | None) -> str:
    if error is None:
        return ""
    name = type(error).__name__
    return _first([str(error) if name.startswith("_") else f"{name}: {error}"])


def _first(lines: Sequence[str]) -> str:
    return lines[0].partition("\n")[0] if lines else ""


# -- The lines of a project that have changed, and those that each test reaches.


_HUNK = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@")


def changed_lines(revision: str) -> dict[Path, set[int]]:
    """Return the numbers of the lines that have changed since a revision, by the file; of a new file, all of them."""
    since = Revision(revision, "--base")
    top = Path(since.tell("rev-parse", "--show-toplevel").strip())
    found: dict[Path, set[int]] = {}
    lines: set[int] = set()
    plainly = ("-c", "core.quotepath=off", "diff", "-U0", "--no-color", "--no-ext-diff")
    for line in since.tell(*plainly, revision, "--", ":/*.py").splitlines():
        if line.startswith("+++ "):
            lines = found.setdefault((top / line[len("+++ b/") :]).resolve(), set())
        elif hunk := _HUNK.match(line):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            lines |= set(range(first, first + count))
    new = since.tell("ls-files", "-z", "--others", "--exclude-standard", "--full-name", "--", ":/*.py")
    for name in new.split("\0"):
        if name:
            path = (top / name).resolve()
            found[path] = set(range(1, len(path.read_bytes().splitlines()) + 1))
    return found


AT_IMPORT = ""  # the name of the part of a run in which no test runs yet
_TOOL = 4  # an id of `sys.monitoring` that no known tool uses


def root_of(folder: Path) -> Path:
    """Return the folder of the project around a folder: the nearest with a `pyproject.toml` or a repository."""
    for each in (folder, *folder.parents):
        if any((each / name).exists() for name in ("pyproject.toml", "setup.py", ".git")):
            return each
    return folder


class Reached:
    """Notes the lines of a project's files that are run."""

    def __init__(self, root: Path) -> None:
        self._root = f"{root.resolve()}/"
        self._own: dict[str, str | None] = {}
        self._part = AT_IMPORT
        self._lines: dict[str, dict[str, set[int]]] = {}

    def begin(self, part: str) -> None:
        """Begin another part of the run: a test, by its id."""
        self._part = part

    def __enter__(self) -> None:
        """Trace from now on, in all threads that begin from now on."""
        monitoring: Any = getattr(sys, "monitoring", None)
        if monitoring is None:
            threading.settrace(self._called)
            sys.settrace(self._called)
            return
        monitoring.use_tool_id(_TOOL, "agenttape-mutants")
        monitoring.register_callback(_TOOL, monitoring.events.LINE, self._monitored)
        monitoring.set_events(_TOOL, monitoring.events.LINE)

    def __exit__(self, *_: object) -> None:
        """Trace no more."""
        monitoring: Any = getattr(sys, "monitoring", None)
        if monitoring is None:
            sys.settrace(None)
            threading.settrace(None)
            return
        monitoring.set_events(_TOOL, 0)
        monitoring.free_tool_id(_TOOL)

    def _file(self, name: str) -> str | None:
        """Return the file of code if it is the project's."""
        if name not in self._own:
            is_file = not name.startswith("<") and not is_library(name)
            full = str(Path(name).resolve()) if is_file else ""
            self._own[name] = full if full.startswith(self._root) and full.endswith(".py") else None
        return self._own[name]

    def _called(self, frame: types.FrameType, event: str, _: object) -> Callable[..., Any] | None:  # noqa: ARG002
        if str(frame.f_globals.get("__name__", "")).startswith("agenttape_"):
            return None
        file = self._file(frame.f_code.co_filename)
        if file is None:
            return None

        def line(frame: types.FrameType, event: str, _: object) -> Callable[..., Any]:
            if event == "line":
                self._note(file, frame.f_lineno)
            return line

        return line

    def _monitored(self, code: types.CodeType, line: int) -> object:
        file = self._file(code.co_filename)
        if file is None:
            monitoring: Any = sys.__dict__["monitoring"]  # of Python 3.12
            return monitoring.DISABLE
        self._note(file, line)
        return None

    def _note(self, file: str, line: int) -> None:
        self._lines.setdefault(self._part, {}).setdefault(file, set()).add(line)

    @property
    def lines(self) -> dict[str, dict[str, list[int]]]:
        """The numbers of the lines that were run, by the part of the run and the file."""
        return {part: {file: sorted(lines) for file, lines in files.items()} for part, files in self._lines.items()}


TESTS = "agenttape_core.pytest_plugin.mutated"  # the runner of tests. It's above this package, which has only its name


@dataclass(frozen=True, slots=True)
class Reply:
    """The outcome of one run."""

    facts: Mapping[str, Facts] = field(default_factory=dict)  # the facts by the tests, or of the function
    problem: str = ""  # why it couldn't be run; empty if it could
    ended: str = ""  # why the run was ended by force; empty if it wasn't
    is_loaded: bool = True  # whether the edited file was imported
    files: Sequence[str] = ()  # the files that hold tests
    lines: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)
    """The lines that were run, by the test and the file."""
    seconds: float = 0.0
    cpu: float = 0.0  # the time of the processor that it took, in seconds


@dataclass(frozen=True, slots=True)
class Job:
    """A program whose edits are tried."""

    program: Mapping[str, Any]  # `tests`, or `function`, `cassette` and `options`
    root: Path  # the folder of the project
    live: Sequence[str] = ()  # the kinds and names of calls that are executed
    hash_seed: int | None = None  # the hash seed with which it was recorded, if that's known

    @property
    def has_tests(self) -> bool:
        """True if it is tests, and not a function."""
        return "tests" in self.program

    def run(
        self,
        workers: Workers,
        tests: Sequence[str] | None = None,
        mutant: tuple[Mutant, Path, bool] | None = None,
        *,
        trace: bool = False,
        limits: tuple[float, float] = (SECONDS, SECONDS),
    ) -> Reply:
        """Run it once."""
        program = {**self.program, **({"tests": list(tests)} if tests is not None else {})}
        edit = None
        if mutant is not None:
            one, path, is_test = mutant
            edit = {"id": one.id, "file": one.file, "path": str(path), "is_test": is_test}
        request = {"program": program, "root": str(self.root), "trace": trace, "mutant": edit}
        plain = workers.run(__name__, request, hash_seed=self.hash_seed, seconds=limits[0], cpu=limits[1])
        return read(Reply, plain)


def _edit(mutant: Mapping[str, Any]) -> list[bool]:
    """Let the loader of Python files compile an edited file, wherever it's imported from; note when it has done so."""
    kind: Any = importlib.machinery.SourceFileLoader
    file, before, loaded = Path(mutant["path"]).resolve(), kind.get_code, list[bool]()

    @functools.wraps(before)
    def get_code(self: Any, fullname: str) -> types.CodeType | None:
        if Path(self.path).resolve() != file:
            found: types.CodeType | None = before(self, fullname)
            return found
        source = decode_source(file.read_bytes())
        tree = mutated(source, mutant["id"], file=mutant["file"], is_test=mutant["is_test"])
        loaded.append(True)
        code: types.CodeType = compile(tree, str(file), "exec", dont_inherit=True)
        return code

    kind.get_code = get_code
    return loaded


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Run a program once, as `Job.run` asks for it."""
    mutant, program = request["mutant"], request["program"]
    loaded = _edit(mutant) if mutant is not None else [True]
    reached = Reached(Path(request["root"])) if request["trace"] else None
    runner = import_module(TESTS).run if "tests" in program else _function
    with reached or nullcontext():
        found = runner(program, begin=reached.begin if reached is not None else str, stops=mutant is not None)
    facts: dict[str, Facts] = found["facts"]
    return {
        **found,
        "facts": {name: asdict(each) for name, each in facts.items()},
        "is_loaded": bool(loaded),
        "lines": reached.lines if reached is not None else {},
    }


def _function(program: dict[str, Any], *, begin: Callable[[str], object], stops: bool) -> dict[str, Any]:  # noqa: ARG001
    """Replay a function once: the part of `run` for programs that no test calls."""
    name = program["function"]
    found: dict[str, Any] = {"facts": {}, "files": [], "problem": ""}
    try:
        loaded = program_of(name, **program["options"])
        begin(name)
        began = time.perf_counter()
        ending = loaded.run(Variation(Path(program["cassette"])))
    except (Exception, SystemExit) as raised:  # noqa: BLE001 - whatever the import of the program raises is reported
        found["problem"] = problem_of(raised)
        return found
    error = ending.error
    ours = error if isinstance(error, AgentTapeError) else None
    seconds = time.perf_counter() - began
    value = "" if error is not None else repr(ending.result)
    found["facts"][name] = Facts.of([ending.own_session], error, ours=ours, value=value, seconds=seconds)
    return found

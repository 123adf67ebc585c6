"""Runs with an edit, or without one: what a worker does for each, and what came of it."""

from __future__ import annotations

import functools
import importlib.machinery
import time
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import decode_source
from pathlib import Path
from typing import Any

from agenttape_core.errors import AgentTapeError
from agenttape_core.experiments.program import program_of
from agenttape_core.experiments.strategies.mutants.edits import Mutant, mutated
from agenttape_core.experiments.strategies.mutants.facts import Facts
from agenttape_core.experiments.strategies.mutants.reached import Reached
from agenttape_core.experiments.worker import SECONDS, Worker
from agenttape_core.lifecycle.variation import Variation

TESTS = "agenttape_core.pytest_plugin.mutated"
"""The runner of tests. It's above this package, which knows it by its name only."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The outcome of one run.

    Args:
        facts: The facts by the tests, or of the function.
        problem: Why nothing could be run; empty if it could.
        ended: Why the run was ended by force; empty if it ended by itself.
        is_loaded: Whether the edited file was imported.
        files: The files that hold tests.
        lines: How often each line was run, by the test and the file.
        seconds: Its duration.
        cpu: The time of the processor that it took, in seconds.
    """

    facts: Mapping[str, Facts]
    problem: str = ""
    ended: str = ""
    is_loaded: bool = True
    files: Sequence[str] = ()
    lines: Mapping[str, Mapping[str, Mapping[str, int]]] = field(default_factory=dict)
    seconds: float = 0.0
    cpu: float = 0.0


@dataclass(frozen=True, slots=True)
class Job:
    """A program whose edits are tried.

    Args:
        program: `tests`, or `function`, `cassette` and `options`.
        root: The folder of the project.
        live: The kinds and names of calls that are executed.
        hash_seed: The hash seed with which it was recorded, as far as it is known.
    """

    program: Mapping[str, Any]
    root: Path
    live: Sequence[str] = ()
    hash_seed: int | None = None

    @property
    def has_tests(self) -> bool:
        """True if it is tests, and not a function."""
        return "tests" in self.program

    def run(
        self,
        worker: Worker,
        tests: Sequence[str] | None = None,
        mutant: tuple[Mutant, Path, bool] | None = None,
        *,
        trace: bool = False,
        limits: tuple[float, float] = (SECONDS, SECONDS),
    ) -> Reply:
        """Run it once.

        Args:
            worker: Runs it.
            tests: The tests to run; by default its own.
            mutant: The edit, the file, and whether this holds tests.
            trace: Whether the lines that are run are noted.
            limits: The seconds that the run may take, and those that it may compute.

        Raises:
            VerificationError: If the worker does not answer.
        """
        program = {**self.program, **({"tests": list(tests)} if tests is not None else {})}
        edit = None
        if mutant is not None:
            one, path, is_test = mutant
            edit = {"id": one.id, "file": one.file, "path": str(path), "is_test": is_test}
        request = {"program": program, "root": str(self.root), "trace": trace, "mutant": edit}
        plain = worker.run(__name__, request, seconds=limits[0], cpu=limits[1])
        facts = {name: Facts.from_dict(one) for name, one in plain.pop("facts", {}).items()}
        return Reply(facts, **plain)


class Loading:
    """The import of one file with an edit, in this process from now on.

    Args:
        file: The file.
        name: Its name in ids.
        mutant: The id of the mutant.
        is_test: Whether it holds tests.
    """

    def __init__(self, file: Path, name: str, mutant: str, *, is_test: bool) -> None:
        self._file = file.resolve()
        self._name = name
        self._mutant = mutant
        self._is_test = is_test
        self.is_loaded = False
        """True once the file was imported."""

    def install(self) -> None:
        """Let the loader of Python files compile the edited file, wherever it is imported from."""
        kind: Any = importlib.machinery.SourceFileLoader
        before = kind.get_code
        loading = self

        @functools.wraps(before)
        def get_code(self: Any, fullname: str) -> types.CodeType | None:
            if Path(self.path).resolve() == loading._file:
                return loading.code()
            found: types.CodeType | None = before(self, fullname)
            return found

        kind.get_code = get_code

    def code(self) -> types.CodeType:
        """Return the code of the file with the edit."""
        source = decode_source(self._file.read_bytes())
        tree = mutated(source, self._mutant, file=self._name, is_test=self._is_test)
        self.is_loaded = True
        code: types.CodeType = compile(tree, str(self._file), "exec", dont_inherit=True)
        return code


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Run a program once, as `Job.run` asks for it."""
    loading = _loading(request)
    reached = Reached(Path(request["root"])) if request["trace"] else None
    program = request["program"]
    runner = import_module(TESTS).run if "tests" in program else _function
    if reached is not None:
        reached.start()
    try:
        found = runner(program, begin=reached.begin if reached is not None else _nothing, stops=loading is not None)
    finally:
        if reached is not None:
            reached.stop()
    facts: dict[str, Facts] = found["facts"]
    return {
        **found,
        "facts": {name: each.to_dict() for name, each in facts.items()},
        "is_loaded": loading is None or loading.is_loaded,
        "lines": reached.lines if reached is not None else {},
    }


def _loading(request: dict[str, Any]) -> Loading | None:
    mutant = request["mutant"]
    if mutant is None:
        return None
    made = Loading(Path(mutant["path"]), mutant["file"], mutant["id"], is_test=mutant["is_test"])
    made.install()
    return made


def _nothing(_: str) -> None:
    pass


def _function(program: dict[str, Any], *, begin: Callable[[str], object], stops: bool) -> dict[str, Any]:  # noqa: ARG001
    """Replay a function once: the part of `run` for programs that no test calls.

    Args:
        program: `function`, `cassette` and `options`.
        begin: Called with the name of the function before it is called.
        stops: Of no meaning for a single function.
    """
    name = program["function"]
    found: dict[str, Any] = {"facts": {}, "files": [], "problem": ""}
    try:
        loaded = program_of(name, **program["options"])
        begin(name)
        began = time.perf_counter()
        ending = loaded.run(Variation(Path(program["cassette"])))
    except (Exception, SystemExit) as raised:  # noqa: BLE001 - whatever the import of the program raises is reported
        found["problem"] = f"{type(raised).__name__}: {raised}".partition("\n")[0]
        return found
    error = ending.error
    ours = error if isinstance(error, AgentTapeError) else None
    seconds = time.perf_counter() - began
    value = "" if error is not None else repr(ending.result)
    found["facts"][name] = Facts.of([ending.session], error, ours=ours, value=value, seconds=seconds)
    return found

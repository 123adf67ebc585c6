"""MutationScore: the small edits of a program that no cassette would notice."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from agenttape_core.errors import CassetteError, ConfigurationError, counted, shown_path
from agenttape_core.experiments.engine import SEED, Jobs, refuse_below_one
from agenttape_core.experiments.program import is_command
from agenttape_core.experiments.result import earlier
from agenttape_core.experiments.steady import cause_of
from agenttape_core.experiments.strategies.mutants.edits import Mutant, mutants_of, read_source
from agenttape_core.experiments.strategies.mutants.result import Judged, MutationScore, verdict_of
from agenttape_core.experiments.strategies.mutants.running import Facts, Job, Reply, changed_lines, root_of
from agenttape_core.experiments.strategies.mutants.texts import KINDS, Sought
from agenttape_core.experiments.targets import recording
from agenttape_core.experiments.worker import Workers
from agenttape_core.lifecycle.project import this_project
from agenttape_core.matching import Ignored, refuse_unselected
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.session import current_session
from agenttape_core.storage import open_cassette
from agenttape_core.tools.hash_seeds import recorded_seed, seed_of_tests
from agenttape_core.tools.target import target_of

__all__ = ["Judged", "Mutant", "MutationScore", "mutants"]


# -- Edit a program in many small ways, and see which edits its cassettes notice.


MOST = 200  # the mutants that are tried, unless another number is given
_SLOWER = 20  # a run may take so many times as long as it takes without an edit, and some seconds more
_SECONDS = 30.0
_NAMED = 5

# -- The tests that reach a mutant: the selection that makes it affordable to try many.


@dataclass(slots=True)
class Requests:
    """The requests of one cassette."""

    texts: list[str] = field(default_factory=list)  # the texts of each request, keys and values, with single spaces
    tools: set[str] = field(default_factory=set)  # the names of the tools that models were offered
    schemas: set[frozenset[str]] = field(default_factory=set)  # the names of the properties of each schema

    @classmethod
    def of(cls, requests: Iterable[Any]) -> Requests:
        """Return the texts, tools and schemas in requests."""
        made = cls()
        for request in requests:
            made.texts.append("\0".join(" ".join(text.split()) for text in made._read(request)))
        return made

    def __add__(self, other: Requests) -> Requests:
        return Requests(self.texts + other.texts, self.tools | other.tools, self.schemas | other.schemas)

    def holds(self, sought: Sought) -> bool:
        """Return whether some request holds the text that an edit would change."""
        if sought.texts:
            return any(all(text in one for text in sought.texts) for one in self.texts)
        if sought.tool and sought.tool in self.tools:
            return True
        return bool(sought.fields) and any(set(sought.fields) <= schema for schema in self.schemas)

    def _read(self, plain: Any) -> Iterator[str]:
        """Yield all texts of plain data, and note the tools and schemas in it."""
        if isinstance(plain, str):
            yield plain
        elif isinstance(plain, list):
            for item in plain:
                yield from self._read(item)
        elif isinstance(plain, dict):
            properties = plain.get("properties")
            if isinstance(properties, dict):
                self.schemas.add(frozenset(map(str, properties)))
            if isinstance(plain.get("name"), str) and plain.keys() & {"description", "parameters", "input_schema"}:
                self.tools.add(plain["name"])
            for key, item in plain.items():
                yield str(key)
                yield from self._read(item)


_NO_REQUEST = "in no recorded request"
_NO_LINE = "no test runs this line"
_NO_IMPORT = "no test imports this file"


class _Reaching(NamedTuple):
    """A mutant, the tests that reach it, the quickest first, and why there are none, if that's worth a line."""

    mutant: Mutant
    tests: tuple[str, ...] = ()
    why: str = ""


class _Evidence:
    """The lines and texts that each test reaches without an edit."""

    def __init__(self, facts: Mapping[str, Facts], reply: Reply) -> None:
        self.facts, self._lines = facts, reply.lines
        self.tests = {Path(file) for file in reply.files}  # the files that hold tests
        self.files = sorted({file for files in reply.lines.values() for file in files})
        """The files of the project that were imported."""
        read = cache(_requests_in)
        each = {name: one.cassettes for name, one in facts.items()}
        self._requests = {name: sum((read(path, ()) for path in paths), Requests()) for name, paths in each.items()}
        self._compared = {
            name: sum((read(path, facts[name].ignored) for path in paths), Requests()) for name, paths in each.items()
        }

    def reaching(self, mutant: Mutant, path: Path) -> _Reaching:
        """Return the tests that reach a mutant."""
        if (file := str(path)) not in self.files:
            return _Reaching(mutant, (), _NO_IMPORT)
        found = [name for name in self.facts if mutant.sought and self._requests[name].holds(mutant.sought)]
        why = _NO_REQUEST if mutant.is_evident else ""
        if mutant.in_function:
            run = {name: self._lines.get(name, {}).get(file, ()) for name in self.facts}
            first, last = mutant.lines
            running = [name for name, lines in run.items() if any(first <= line <= last for line in lines)]
            found, why = [name for name in running if name in found], "" if running else _NO_LINE
        tests = tuple(sorted(found, key=lambda name: (self.facts[name].seconds, name)))
        return _Reaching(mutant, tests, "" if tests else why)

    def hidden(self, mutant: Mutant, tests: Iterable[str]) -> str:
        """Return the setting that keeps requests with an edit from being compared; empty if there is none."""
        for name in tests if mutant.sought else ():
            if self._requests[name].holds(mutant.sought) and not self._compared[name].holds(mutant.sought):
                return f"ignore hides it: {', '.join(self.facts[name].ignored)}"
        return ""


def _requests_in(path: str, ignored: tuple[str, ...]) -> Requests:
    """Return the requests of a cassette, without the ignored paths."""
    stripped = Ignored.of(ignored).stripped
    try:
        cassette = open_cassette(Path(path))
        return Requests.of(stripped(cassette.interaction(row.number).request) for row in cassette.entries)
    except (CassetteError, OSError):  # one in a folder that is gone, which the test has made for itself
        return Requests()


def _sampled(reaching: Sequence[_Reaching], most: int, seed: int) -> list[_Reaching]:
    """Return so many mutants, drawn by chance, in the order of their lines; of each line one before others follow."""
    places = list(range(len(reaching)))
    random.Random(seed).shuffle(places)  # noqa: S311 - a draw, no secret
    seen: Counter[tuple[str, int]] = Counter()
    turns: list[tuple[int, int, int]] = []
    for place in places:
        at = (reaching[place].mutant.file, reaching[place].mutant.line)
        seen[at] += 1
        turns.append((seen[at], len(turns), place))
    return [reaching[place] for place in sorted(place for _, _, place in sorted(turns)[:most])]


class _Chosen(NamedTuple):
    """The choice of edits, as `mutants` takes it, and the verdicts of an earlier run by the ids of the mutants."""

    only: Collection[str]
    source: Sequence[str | Path]
    base: str | None
    most: int
    seed: int
    mutant: str | None
    known: Mapping[str, Mapping[str, Any]]


class _Search:
    """The search for edits that no test catches."""

    def __init__(self, workers: Workers, job: Job, chosen: _Chosen, jobs: int, on_run: Callable[[], object]) -> None:
        self._workers, self._job, self._chosen, self._jobs, self._on_run = workers, job, chosen, jobs, on_run
        self._excluded: dict[str, str] = {}
        self._apart: Counter[str] = Counter()

    def found(self) -> MutationScore:
        """Return the verdicts."""
        first = self._job.run(self._workers)  # cold: all libraries are imported in it, which a trace would make slow
        if not first.facts or first.problem or first.ended:
            why = first.problem or first.ended or "there are no tests"
            said = f"{self._name(0)} cannot be run without an edit: {why}\n{self._workers.said(self._job.hash_seed)}"
            raise ConfigurationError(said.strip())
        before, traced = self._steady(self._partaking(first.facts))
        cassettes = dict.fromkeys(Path(path) for one in before.values() for path in one.cassettes)
        rows = [row for path in cassettes for row in open_cassette(path).entries]
        refuse_unselected(self._job.live, rows, "live", next(iter(cassettes)))
        evidence = _Evidence(before, traced)
        reaching = self._reaching(evidence)
        landing = [one for one in reaching if one.tests]
        drawn = _sampled(landing, self._chosen.most, self._chosen.seed)
        limits = (_SECONDS + _SLOWER * traced.seconds, _SECONDS + _SLOWER * traced.cpu)
        judged, is_whole = self._judged(drawn, evidence, limits)
        judged += [Judged(one.mutant, "no coverage", one.why) for one in reaching if one.why]
        return MutationScore(
            program=self._name(len(before)),
            judged=tuple(sorted(judged, key=lambda one: (one.mutant.file, one.mutant.line))),
            tests=tuple(before),
            excluded=self._excluded,
            reachable=len(landing),
            seed=self._chosen.seed,
            notes=tuple(self._notes(len(landing), len(drawn), before, done=is_whole)),
            is_whole=is_whole,
        )

    def _partaking(self, facts: Mapping[str, Facts]) -> dict[str, Facts]:
        """Return the tests that pass with a cassette, and note why others do not take part."""
        found: dict[str, Facts] = {}
        for name, one in facts.items():
            if one.how == "passed" and one.cassettes:
                found[name] = one
            elif one.how in {"passed", "skipped"}:
                self._apart["skipped" if one.how == "skipped" else "without a cassette"] += 1
            else:
                self._excluded[name] = f"fails without an edit: {one.words}"
        return found

    def _steady(self, first: dict[str, Facts]) -> tuple[dict[str, Facts], Reply]:
        """Return the tests that are the same in two runs, and the second of these, which is traced."""
        tests = list(first) if self._job.has_tests else None
        again = self._job.run(self._workers, tests, trace=True) if first else Reply()
        found = {}
        for name, one in first.items():
            other = again.facts.get(name)
            if other is None or _alike(one) != _alike(other):
                self._excluded[name] = f"is not the same in two runs: {_difference(one, other)}{self._cause()}"
            else:
                found[name] = other
        if not found:
            lines = [
                f"{self._name(0)}: nothing passes with a cassette and without an edit, so edits would show nothing",
                *(f"{name}: {why}" for name, why in list(self._excluded.items())[:_NAMED]),
                *(f"{counted(count, 'test')} {what}" for what, count in self._apart.items()),
                "mend or record that first:  pytest --cassette-mode=once",
            ]
            raise ConfigurationError("\n  ".join(lines))
        return found, again

    def _cause(self) -> str:
        """Return why a function is not the same, as far as `verify` finds it."""
        if self._job.has_tests:
            return "; mend that first"
        return "".join(
            f"; {line}" for line in cause_of(self._job.program["function"], self._job.program["cassette"])[:1]
        )

    def _reaching(self, evidence: _Evidence) -> list[_Reaching]:
        """Return the mutants with the tests that reach them."""
        chosen, found = self._chosen, list[_Reaching]()
        changed = changed_lines(chosen.base) if chosen.base is not None else None
        files = {path: Path(os.path.relpath(path)).as_posix() for path in self._files(evidence)}
        for path, name in files.items():  # by the name that ids have
            lines = changed.get(path, set()) if changed is not None else None
            if chosen.mutant is None or chosen.mutant.startswith(f"{name}:"):
                mutants = mutants_of(read_source(path), name, is_test=path in evidence.tests)
                found += [
                    evidence.reaching(one, path)
                    for one in mutants
                    if chosen.mutant in {None, one.id}
                    and (lines is None or not lines.isdisjoint(range(one.line, one.last + 1)))
                ]
        if chosen.mutant is not None and not found:
            raise ConfigurationError(f"there is no mutant {chosen.mutant!r} in {', '.join(files.values())}")
        return [one for one in found if not chosen.only or one.mutant.kind in chosen.only]

    def _files(self, evidence: _Evidence) -> list[Path]:
        """Return the files that are edited."""
        if not self._chosen.source:
            return [Path(file) for file in evidence.files if Path(file).name != "conftest.py"]
        found: list[Path] = []
        for each in self._chosen.source:
            path = Path(each).resolve()
            files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
            if not files or not files[0].is_file():
                raise ConfigurationError(f"source={str(each)!r}: there is no Python file of that name")
            found += files
        return list(dict.fromkeys(found))

    def _judged(
        self, drawn: Sequence[_Reaching], evidence: _Evidence, limits: tuple[float, float]
    ) -> tuple[list[Judged], bool]:
        """Return the verdicts, and whether all mutants were tried."""
        judged: list[Judged] = []

        def verdict(one: _Reaching) -> Judged:
            plain = self._chosen.known.get(one.mutant.id)
            if plain is not None and (known := Judged.known(one.mutant, one.tests, plain)) is not None:
                return known
            path = Path(os.path.normpath(Path.cwd() / one.mutant.file))
            names, edit = one.tests if self._job.has_tests else None, (one.mutant, path, path in evidence.tests)
            found, words, test = verdict_of(evidence.facts, self._job.run(self._workers, names, edit, limits=limits))
            if found == "survived":
                words = evidence.hidden(one.mutant, one.tests) or words
            return Judged(one.mutant, found, words, test, one.tests)

        with Jobs(self._jobs) as pool:
            try:
                for each in pool.each(verdict, drawn):
                    judged.append(each)
                    self._on_run()
            except KeyboardInterrupt:
                return judged, False
        return judged, True

    def _name(self, count: int) -> str:
        program = self._job.program
        if self._job.has_tests:
            return f"mutants of {counted(count, 'test')}" if count else f"pytest {' '.join(program['tests'])}".strip()
        file, _, function = program["function"].rpartition(":")
        return f"mutants of {shown_path(file)}:{function}" if count else f"{shown_path(file)}:{function}"

    def _notes(self, reachable: int, drawn: int, before: dict[str, Facts], *, done: bool) -> Iterator[str]:
        if drawn < reachable:
            drawn_by = f"--runs {self._chosen.most} --seed {self._chosen.seed}"
            yield f"{drawn} of {reachable} edits were tried ({drawn_by})"
        if not done:
            yield "interrupted: not all edits were tried"
        if self._apart:
            apart = ", ".join(f"{counted(count, 'test')} {what}" for what, count in self._apart.items())
            yield f"took no part: {apart}"
        if tools := list(dict.fromkeys(tool for one in before.values() for tool in one.not_run)):
            yield f"replayed, not run, so edits of their code have no coverage: {', '.join(tools)}"


def _alike(one: Facts) -> tuple[object, ...]:
    return (one.how, one.calls, one.unused, one.unrecorded, one.value)


def _difference(one: Facts, other: Facts | None) -> str:
    if other is None or other.how != one.how:
        return f"it {one.how}, then {other.words or other.how if other is not None else 'was not run'}"
    return "it returned something else" if one.value != other.value else "it made other calls"


def mutants(
    target: Callable[[], Any] | str | Path | Sequence[str],
    cassette: str | Path | None = None,
    *,
    only: Collection[str] = (),
    source: Sequence[str | Path] = (),
    base: str | None = None,
    runs: int = MOST,
    seed: int = SEED,
    mutant: str | None = None,
    live: Collection[str] = (),
    jobs: int = 1,
    resume: str | Path | None = None,
    on_run: Callable[[], object] = lambda: None,
    **options: Any,
) -> MutationScore:
    """Edit a program in many small ways, one at a time, and find the edits that no test catches.

    Each edit is made when the file is imported, in its own process; no file changes. The tests that reach it
    replay their cassettes strictly: only the named calls are executed, and none is recorded. An interruption by
    the keyboard ends it, and the result so far is returned.

    Args:
        target: Files, folders or ids of tests, as pytest takes them; or a function without arguments at the top of a
            module, or its name, with its cassette.
        cassette: The cassette of the function.
        only: The kinds of edits: `prompts`, `tools`, `schemas`; by default all.
        source: The files and folders that are edited; by default all files of the project that the tests import.
        base: A revision of git: only lines that have changed since are edited.
        runs: The most mutants that are tried.
        seed: The seed of the draw, if there are more.
        mutant: The id of the only mutant that is tried.
        live: The kinds and names of calls that are executed, edited or not, such as `tool` or the name of one. The
            bodies of tools that are replayed whole can't be judged without this. Name none that acts on the world.
        jobs: How many mutants run at the same time, each in a separate process.
        resume: The report of an earlier run as JSON, whose verdicts are kept for unchanged code.
        on_run: Called after each mutant.
        options: Options of `use_cassette`, for a function.

    Raises:
        ConfigurationError: If an argument is not valid, no test takes part, or there's no text to edit.
        VerificationError: If the process that runs the tests does not answer.
    """
    known = earlier(resume, "mutants", dict) if resume is not None else []
    if isinstance(live, str) or not all(isinstance(one, str) and one for one in live):
        raise ConfigurationError(f"live={live!r}: expected kinds and names of calls, such as ['tool']")
    job = replace(_job(target, cassette, options), live=tuple(live))
    if (session := current_session()) is not None:
        raise ConfigurationError(f"mutants works outside of sessions, and {session.path} is open")
    if this_project().replays_only:
        raise ConfigurationError(
            "mutants was called while it imports this program\n"
            '  put the call below `if __name__ == "__main__":`, or into another file'
        )
    if isinstance(only, str) or (unknown := sorted(set(only) - set(KINDS))):
        shown = only if isinstance(only, str) else ", ".join(unknown)
        raise ConfigurationError(f"only={shown!r}: expected some of {', '.join(KINDS)}")
    refuse_below_one(runs=runs, jobs=jobs)
    chosen = _Chosen(only, source, base, runs, seed, mutant, {one["id"]: one for one in known})
    with Workers(job.live) as workers:
        return _Search(workers, job, chosen, jobs, on_run).found()


def _job(
    target: Callable[[], Any] | str | Path | Sequence[str], cassette: str | Path | None, options: dict[str, Any]
) -> Job:
    named = [str(target)] if callable(target) or isinstance(target, str | Path) else [str(one) for one in target]
    if any(map(is_command, named)):
        raise ConfigurationError(
            "mutants takes no command after --: its edits are made where tests import the program\n"
            "  name a test, or a function: module:function with --cassette"
        )
    if cassette is None and not callable(target):
        if options:
            raise ConfigurationError(f"{', '.join(options)}: options of sessions are for functions; tests have theirs")
        if functions := [one for one in named if ":" in one and "::" not in one]:
            raise ConfigurationError(f"{functions[0]} is a function\n  name its cassette: cassette=, --cassette")
        return Job({"tests": named}, root_of(Path.cwd()), hash_seed=seed_of_tests(named))
    if cassette is None or not (callable(target) or isinstance(target, str)):
        raise ConfigurationError(f"expected a function and its cassette, found {target!r} and {cassette!r}")
    path = recording(cassette, {"cassette_dir": options.pop("cassette_dir", None)})
    found = target_of(target)
    name = f"{found.module or found.file}:{found.qualname}"
    folder = Path(found.file).parent if found.file and not found.module else Path.cwd()
    file = str(path if path.is_absolute() else Path.cwd() / path)
    program = {"function": name, "cassette": file, "options": options}
    return Job(program, root_of(folder), hash_seed=recorded_seed(file))

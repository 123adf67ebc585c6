"""Edit a program in many small ways, and see which edits its cassettes notice."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agenttape_core.errors import AgentTapeError, ConfigurationError, counted, shown_path
from agenttape_core.experiments.engine import SEED, Jobs, earlier, refuse_below_one
from agenttape_core.experiments.program import recording
from agenttape_core.experiments.strategies.mutants.edits import Mutant, mutants_of, read_source
from agenttape_core.experiments.strategies.mutants.result import Judged, MutationScore, verdict_of
from agenttape_core.experiments.strategies.mutants.running import Facts, Job, Reply, changed_lines, root_of
from agenttape_core.experiments.strategies.mutants.selecting import Evidence, Reaching, sampled
from agenttape_core.experiments.strategies.mutants.sites import KINDS
from agenttape_core.experiments.worker import Workers
from agenttape_core.lifecycle.project import this_project
from agenttape_core.matching import refuse_unselected
from agenttape_core.session import current_session
from agenttape_core.storage import open_cassette
from agenttape_core.tools.hash_seeds import recorded_seed, seed_of_tests
from agenttape_core.tools.target import target_of

MOST = 200
"""The mutants that are tried, unless another number is given."""
_SLOWER = 20
"""A run may take so many times as long as it takes without an edit, and some seconds more."""
_SECONDS = 30.0
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Chosen:
    """The choice of edits.

    Args:
        only: The kinds of edits; all if empty.
        source: The files and folders that are edited; by default all files of the project that the tests import.
        base: A revision of git: only lines that have changed since are edited.
        most: The most mutants that are tried.
        seed: The seed of the draw, if there are more.
        mutant: The id of the only mutant.
        known: The verdicts of an earlier run as plain data, by the ids of the mutants.
    """

    only: Collection[str] = ()
    source: Sequence[str | Path] = ()
    base: str | None = None
    most: int = MOST
    seed: int = SEED
    mutant: str | None = None
    known: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(slots=True)
class Search:
    """The search for edits that no test catches.

    Args:
        workers: Run the program.
        job: The program.
        chosen: Which edits are made.
        jobs: How many of them at the same time.
        on_run: Called after each mutant.
    """

    workers: Workers
    job: Job
    chosen: Chosen
    jobs: int
    on_run: Callable[[], object]
    excluded: dict[str, str] = field(default_factory=dict)
    apart: dict[str, int] = field(default_factory=dict)

    def found(self) -> MutationScore:
        """Return the verdicts."""
        first = self.job.run(self.workers)  # cold: all libraries are imported in it, which a trace would make slow
        self._refuse_broken(first)
        before, traced = self._steady(self._partaking(first.facts))
        cassettes = dict.fromkeys(Path(path) for one in before.values() for path in one.cassettes)
        rows = [row for path in cassettes for row in open_cassette(path).entries]
        refuse_unselected(self.job.live, rows, "live", next(iter(cassettes)))
        evidence = Evidence.of(before, traced)
        reaching = self._reaching(evidence, {Path(file) for file in traced.files})
        landing = [one for one in reaching if one.tests]
        drawn = sampled(landing, self.chosen.most, self.chosen.seed)
        limits = (_SECONDS + _SLOWER * traced.seconds, _SECONDS + _SLOWER * traced.cpu)
        judged, is_whole = self._judged(drawn, evidence, limits, {Path(file) for file in traced.files})
        judged += [Judged(one.mutant, "no coverage", one.why) for one in reaching if one.why]
        judged.sort(key=lambda one: (one.mutant.file, one.mutant.line))
        return MutationScore(
            program=self._name(len(before)),
            judged=tuple(judged),
            tests=tuple(before),
            excluded=self.excluded,
            reachable=len(landing),
            seed=self.chosen.seed,
            notes=tuple(self._notes(len(landing), len(drawn), before, done=is_whole)),
            is_whole=is_whole,
        )

    def _refuse_broken(self, first: Reply) -> None:
        why = first.problem or first.ended
        if first.facts and not why:
            return
        said = f"{self._name(0)} cannot be run without an edit: {why or 'there are no tests'}"
        raise ConfigurationError(f"{said}\n{self.workers.said(self.job.hash_seed)}".strip())

    def _partaking(self, facts: Mapping[str, Facts]) -> dict[str, Facts]:
        """Return the tests that pass with a cassette, and note why others do not take part."""
        found: dict[str, Facts] = {}
        for name, one in facts.items():
            if one.how == "skipped":
                self._set_apart("skipped")
            elif one.how != "passed":
                self.excluded[name] = f"fails without an edit: {one.words}"
            elif not one.cassettes:
                self._set_apart("without a cassette")
            else:
                found[name] = one
        return found

    def _set_apart(self, why: str) -> None:
        self.apart[why] = self.apart.get(why, 0) + 1

    def _steady(self, first: dict[str, Facts]) -> tuple[dict[str, Facts], Reply]:
        """Return the tests that are the same in two runs, and the second of these, which is traced."""
        tests = list(first) if self.job.has_tests else None
        again = self.job.run(self.workers, tests, trace=True) if first else Reply({})
        found = {}
        for name, one in first.items():
            other = again.facts.get(name)
            if other is None or _alike(one) != _alike(other):
                self.excluded[name] = f"is not the same in two runs: {_difference(one, other)}{self._cause()}"
            else:
                found[name] = other
        if not found:
            raise ConfigurationError("\n  ".join(self._nothing()))
        return found, again

    def _nothing(self) -> list[str]:
        """Return why no test takes part, a line each."""
        return [
            f"{self._name(0)}: nothing passes with a cassette and without an edit, so edits would show nothing",
            *(f"{name}: {why}" for name, why in list(self.excluded.items())[:_NAMED]),
            *(f"{counted(count, 'test')} {what}" for what, count in self.apart.items()),
            "mend or record that first:  pytest --cassette-mode=once",
        ]

    def _cause(self) -> str:
        """Return why a function is not the same, as far as `verify` finds it."""
        if self.job.has_tests:
            return "; mend that first"
        from agenttape_core.experiments.verify import verify

        program = self.job.program
        try:
            found = verify(program["function"], program["cassette"], runs=3, timeout=60, on_unused="ignore")
        except AgentTapeError as error:
            return f"; verify could not find why: {str(error).partition(chr(10))[0]}"
        return f"; verify: {found.first.cause.name}: {found.first.cause.why}" if found.first is not None else ""

    def _reaching(self, evidence: Evidence, tests: set[Path]) -> list[Reaching]:
        """Return the mutants with the tests that reach them."""
        changed = changed_lines(self.chosen.base) if self.chosen.base is not None else None
        files = self._files(evidence)
        found: list[Reaching] = []
        for path in files:
            name = shown_name(path)
            if self.chosen.mutant is not None and not self.chosen.mutant.startswith(f"{name}:"):
                continue
            lines = changed.get(path, set()) if changed is not None else None
            mutants = mutants_of(read_source(path), name, is_test=path in tests)
            found += [evidence.reaching(one, path) for one in mutants if self._is_chosen(one, lines)]
        if self.chosen.mutant is not None and not found:
            known = ", ".join(map(shown_name, files))
            raise ConfigurationError(f"there is no mutant {self.chosen.mutant!r} in {known}")
        return [one for one in found if not self.chosen.only or one.mutant.kind in self.chosen.only]

    def _is_chosen(self, mutant: Mutant, lines: set[int] | None) -> bool:
        if self.chosen.mutant is not None and mutant.id != self.chosen.mutant:
            return False
        return lines is None or not lines.isdisjoint(range(mutant.line, mutant.last + 1))

    def _files(self, evidence: Evidence) -> list[Path]:
        """Return the files that are edited."""
        imported = [Path(file) for file in evidence.files if Path(file).name != "conftest.py"]
        if not self.chosen.source:
            return imported
        found: list[Path] = []
        for each in self.chosen.source:
            path = Path(each).resolve()
            files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
            if not files or not files[0].is_file():
                raise ConfigurationError(f"source={str(each)!r}: there is no Python file of that name")
            found += files
        return list(dict.fromkeys(found))

    def _judged(
        self, drawn: Sequence[Reaching], evidence: Evidence, limits: tuple[float, float], tests: set[Path]
    ) -> tuple[list[Judged], bool]:
        """Return the verdicts, and whether all mutants were tried."""
        judged: list[Judged] = []

        def verdict(one: Reaching) -> Judged:
            plain = self.chosen.known.get(one.mutant.id)
            known = Judged.known(one, plain) if plain is not None else None
            return known or self._verdict(one, evidence, limits, tests)

        with Jobs(self.jobs) as pool:
            try:
                for each in pool.each(verdict, drawn):
                    judged.append(each)
                    self.on_run()
            except KeyboardInterrupt:
                return judged, False
        return judged, True

    def _verdict(self, one: Reaching, evidence: Evidence, limits: tuple[float, float], tests: set[Path]) -> Judged:
        path = Path(os.path.normpath(Path.cwd() / one.mutant.file))
        names = one.tests if self.job.has_tests else None
        reply = self.job.run(self.workers, names, (one.mutant, path, path in tests), limits=limits)
        verdict, words, test = verdict_of(evidence.facts, reply)
        if verdict == "survived":
            words = evidence.hidden(one.mutant, one.tests) or words
        return Judged(one.mutant, verdict, words, test, one.tests)

    def _name(self, count: int) -> str:
        program = self.job.program
        if self.job.has_tests:
            return f"mutants of {counted(count, 'test')}" if count else f"pytest {' '.join(program['tests'])}".strip()
        file, _, function = program["function"].rpartition(":")
        return f"mutants of {shown_path(file)}:{function}" if count else f"{shown_path(file)}:{function}"

    def _notes(self, reachable: int, drawn: int, before: dict[str, Facts], *, done: bool) -> list[str]:
        notes = []
        if drawn < reachable:
            drawn_by = f"--runs {self.chosen.most} --seed {self.chosen.seed}"
            notes.append(f"{drawn} of {reachable} edits were tried ({drawn_by})")
        if not done:
            notes.append("interrupted: not all edits were tried")
        if self.apart:
            apart = ", ".join(f"{counted(count, 'test')} {what}" for what, count in self.apart.items())
            notes.append(f"took no part: {apart}")
        if tools := list(dict.fromkeys(tool for one in before.values() for tool in one.not_run)):
            notes.append(f"replayed, not run, so edits of their code have no coverage: {', '.join(tools)}")
        return notes


def shown_name(path: Path) -> str:
    """Return the name of a file as ids have it: from the current folder."""
    return Path(os.path.relpath(path)).as_posix()


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
    chosen = Chosen(only, source, base, runs, seed, mutant, {one["id"]: one for one in known})
    job = replace(_job(target, cassette, options), live=_named(live))
    _refuse(chosen)
    refuse_below_one(runs=runs, jobs=jobs)
    with Workers(job.live) as workers:
        return Search(workers, job, chosen, jobs, on_run).found()


def _refuse(chosen: Chosen) -> None:
    if (session := current_session()) is not None:
        raise ConfigurationError(f"mutants works outside of sessions, and {session.path} is open")
    if this_project().replays_only:
        raise ConfigurationError(
            "mutants was called while it imports this program\n"
            '  put the call below `if __name__ == "__main__":`, or into another file'
        )
    if isinstance(chosen.only, str) or (unknown := sorted(set(chosen.only) - set(KINDS))):
        shown = chosen.only if isinstance(chosen.only, str) else ", ".join(unknown)
        raise ConfigurationError(f"only={shown!r}: expected some of {', '.join(KINDS)}")


def _named(live: Collection[str]) -> tuple[str, ...]:
    if isinstance(live, str) or not all(isinstance(one, str) and one for one in live):
        raise ConfigurationError(f"live={live!r}: expected kinds and names of calls, such as ['tool']")
    return tuple(live)


def _job(
    target: Callable[[], Any] | str | Path | Sequence[str], cassette: str | Path | None, options: dict[str, Any]
) -> Job:
    if cassette is None and not callable(target):
        if options:
            raise ConfigurationError(f"{', '.join(options)}: options of sessions are for functions; tests have theirs")
        named = [str(target)] if isinstance(target, str | Path) else [str(one) for one in target]
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

"""`adequacy`: edit a program in many small ways, and see which edits its cassettes notice."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agenttape_core.errors import ConfigurationError
from agenttape_core.lifecycle.project import this_project
from agenttape_core.session import current_session
from agenttape_core.tools.adequacy.operators import KINDS
from agenttape_core.tools.adequacy.process import Job, Worker
from agenttape_core.tools.adequacy.reached import root_of
from agenttape_core.tools.adequacy.result import Adequacy
from agenttape_core.tools.adequacy.search import FUNCTION, MOST, SEED, TESTS, Chosen, Search
from agenttape_core.tools.hash_seeds import recorded_seed, seed_of_tests
from agenttape_core.tools.verify.target import target_of


def adequacy(
    tests: str | Path | Sequence[str],
    function: Callable[[], Any] | str | None = None,
    *,
    only: Collection[str] = (),
    source: Sequence[str | Path] = (),
    since: str | None = None,
    most: int = MOST,
    seed: int = SEED,
    mutant: str | None = None,
    live: Collection[str] = (),
    on_mutant: Callable[[int, int], object] = lambda *_: None,
    **options: Any,
) -> Adequacy:
    """Edit a program in many small ways, one at a time, and find the edits that no cassette notices.

    Each edit is made when the file is imported, in a process of its own; no file changes. The tests that reach it
    replay their cassettes strictly: nothing is executed but what is named, and nothing is recorded. An interruption by
    the keyboard ends it, and what was found so far is returned.

    Args:
        tests: Files, folders or ids of tests, as pytest takes them; with a function, its cassette.
        function: The program instead of tests: a function without arguments at the top of a module, or its name.
        only: The kinds of edits: `prompts`, `tools`, `schemas`; by default all.
        source: The files and folders that are edited; by default all files of the project that the tests import.
        since: A revision of git: only lines that have changed since are edited.
        most: The most mutants that are tried.
        seed: Of the draw, if there are more.
        mutant: The id of the only mutant that is tried.
        live: The kinds and names of calls that are executed, edited or not, such as `tool` or the name of one. The
            bodies of tools that a replay serves cannot be judged otherwise. Name none that acts on the world.
        on_mutant: Called after each mutant, with the number of those that were tried and of all.
        options: Options of `use_cassette`, for a function.

    Raises:
        ConfigurationError: If an argument is not valid, no test takes part, or nothing can be edited.
        VerificationError: If the process that runs the tests does not answer.
    """
    chosen = Chosen(only, source, since, most, seed, mutant)
    job = replace(_job(tests, function, options), live=_named(live))
    _refuse(chosen)
    with Worker(job) as worker:
        return Search(worker, job, chosen, on_mutant).found()


def _refuse(chosen: Chosen) -> None:
    if (session := current_session()) is not None:
        raise ConfigurationError(f"adequacy works outside of sessions, and {session.path} is open")
    if this_project().replays_only:
        raise ConfigurationError(
            "adequacy was called while it imports this program\n"
            '  put the call below `if __name__ == "__main__":`, or into another file'
        )
    if isinstance(chosen.most, bool) or not isinstance(chosen.most, int) or chosen.most < 1:
        raise ConfigurationError(f"most={chosen.most!r}: expected the number of mutants to try, at least 1")
    if isinstance(chosen.only, str) or (unknown := sorted(set(chosen.only) - set(KINDS))):
        shown = chosen.only if isinstance(chosen.only, str) else ", ".join(unknown)
        raise ConfigurationError(f"only={shown!r}: expected some of {', '.join(KINDS)}")


def _named(live: Collection[str]) -> tuple[str, ...]:
    if isinstance(live, str) or not all(isinstance(one, str) and one for one in live):
        raise ConfigurationError(f"live={live!r}: expected kinds and names of calls, such as ['tool']")
    return tuple(live)


def _job(tests: str | Path | Sequence[str], function: Callable[[], Any] | str | None, options: dict[str, Any]) -> Job:
    if function is None:
        if options:
            raise ConfigurationError(f"{', '.join(options)}: options of sessions are for functions; tests have theirs")
        named = [str(tests)] if isinstance(tests, str | Path) else [str(one) for one in tests]
        return Job(TESTS, {"tests": named}, root_of(Path.cwd()), hash_seed=seed_of_tests(named))
    if not isinstance(tests, str | Path):
        raise ConfigurationError(f"expected the cassette of the function, found {type(tests).__name__}")
    project = this_project()
    path = project.recording(tests, options.pop("cassette_dir", None) or project.settings().cassette_dir)
    if not isinstance(path, Path):
        raise ConfigurationError(f"{path} is no local file\n  download it")
    target = target_of(function)
    name = f"{target.module or target.file}:{target.qualname}"
    folder = Path(target.file).parent if target.file and not target.module else Path.cwd()
    cassette = str(path if path.is_absolute() else Path.cwd() / path)
    program = {"function": name, "cassette": cassette, "options": options}
    return Job(FUNCTION, program, root_of(folder), hash_seed=recorded_seed(cassette))

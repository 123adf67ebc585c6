"""The gate: many runs, the checks of files, and a baseline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from agenttape_core.checks.check_file import Case, CheckFile
from agenttape_core.checks.checking import check_run
from agenttape_core.checks.run import Run
from agenttape_core.checks.traces import nearest_prompt
from agenttape_core.errors import CassetteError
from agenttape_core.matching import spelled
from agenttape_core.tools.reporting import Checked, Finding, Judged

UNREADABLE = "readable"
"""The word of the finding about a run that cannot be read."""
MISSING = "case"
"""The word of the finding about a case without a run."""


def judge(
    runs: Iterable[tuple[str, Callable[[], Run]]], files: Sequence[CheckFile], more: Callable[[Run], Iterable[Judged]]
) -> Iterator[Checked]:
    """Yield what checks say about each run, then about each case that has none.

    Args:
        runs: The name of each run, and a function that reads it.
        files: The checks.
        more: Returns further judgements of a run.
    """
    every = [check for file in files for check in file.every]
    cases: dict[str, list[Case]] = {}
    for file in files:
        for case in file.cases:
            cases.setdefault(case.prompt, []).append(case)
    prompts: dict[str, None] = {}
    for name, read in runs:
        try:
            run = read()
        except CassetteError as error:
            yield _unreadable(name, error)
            continue
        prompts.setdefault(run.prompt)
        checks = [*every, *(check for case in cases.get(run.prompt, ()) for check in case.checks)]
        found = check_run(run, checks)
        yield Checked(found.name, found.path, found.prompt, (*found.judged, *more(run)))
    for several in cases.values():
        for case in several:
            if case.prompt not in prompts:
                yield _missing(case, prompts)


def _unreadable(name: str, error: CassetteError) -> Checked:
    finding = Finding(error.problem, rule=UNREADABLE, path=name, line=error.line)
    return Checked(name, name, "", (Judged(UNREADABLE, "can be read", (finding,)),))


def _missing(case: Case, prompts: Iterable[str]) -> Checked:
    nearest = nearest_prompt(case.prompt, filter(None, prompts))
    finding = Finding(
        "no run has exactly this prompt" + ("; the nearest differs" if nearest is not None else ""),
        expected=case.prompt,
        found=nearest or "",
        differences=(spelled("prompt", case.prompt, nearest),) if nearest is not None else (),
        rule=MISSING,
        path=case.path,
        line=case.line,
    )
    return Checked(
        f"{case.path}: {case.name}", case.path, case.prompt, (Judged(MISSING, "case has a run", (finding,)),)
    )
